"""Plans in Kafka's JSON."""

import json

import pytest

from bowstring.cli import reassignment_json
from bowstring.clients.errors import ConfigError
from bowstring.clients.records import TopicPartition

ENTRY = {"topic": "t", "partition": 0, "replicas": [1, 2]}


@pytest.fixture
def read(tmp_path):
    def call(plan):
        path = tmp_path / "plan.json"
        path.write_text(plan if isinstance(plan, str) else json.dumps(plan))
        return reassignment_json.read(path)

    return call


def test_plans_go_round(read):
    plan = {TopicPartition("t", 1): (2, 1), TopicPartition("t", 0): (1,)}
    text = reassignment_json.to_json(plan)
    assert text["partitions"][0] == {"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["any"]}
    assert read(text) == (plan, {})


def test_directories_are_by_partition_and_broker(read):
    found = read({"version": 1, "partitions": [ENTRY | {"log_dirs": ["any", "/disk2"]}]})
    assert found.directories == {(TopicPartition("t", 0), 2): "/disk2"}


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("{", "is not JSON"),
        ({"topics": []}, 'has no list "partitions"'),
        ({"version": 2, "partitions": []}, "has version 2; only version 1 is known"),
        ({"partitions": [7]}, "entry 1 of partitions: 7 is not an object"),
        ({"partitions": [ENTRY | {"topic": ""}]}, "topic is '', not a name"),
        ({"partitions": [ENTRY | {"partition": True}]}, "partition is True, not a number"),
        ({"partitions": [ENTRY | {"replicas": []}]}, r"replicas is \[\], not a list of broker ids"),
        ({"partitions": [ENTRY | {"replicas": [1, 1]}]}, "names a broker twice"),
        ({"partitions": [ENTRY | {"log_dirs": ["any"]}]}, r"log_dirs is \['any'\], not a directory"),
        ({"partitions": [ENTRY, ENTRY]}, "names t-0 twice"),
    ],
)
def test_what_is_no_plan_is_refused(read, plan, said):
    with pytest.raises(ConfigError, match=said):
        read(plan)
