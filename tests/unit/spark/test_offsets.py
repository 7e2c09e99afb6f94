"""What the Python engine does about topics that vanish under a stream, without Spark."""

import pytest

import bowstring
from bowstring.clients.errors import UnknownTopicError
from bowstring.clients.records import TopicPartition
from bowstring.spark import offsets
from bowstring.spark.offsets import DataLossError, OffsetPlanner
from bowstring.spark.options import read_options


@pytest.fixture(scope="module")
def servers():
    with bowstring.Broker() as broker:
        yield broker.bootstrap_servers


def planner(servers, **options):
    given = {"kafka.bootstrap.servers": servers, "subscribe": "kept,goes", **options}
    return OffsetPlanner(read_options(given, streaming=True))


def test_a_topic_that_vanishes_and_comes_again(servers, monkeypatch):
    monkeypatch.setattr(offsets, "TOPIC_TIMEOUT_S", 0.5)
    strict, bold = planner(servers), planner(servers, failOnDataLoss="false")
    kept, goes = TopicPartition("kept", 0), TopicPartition("goes", 0)
    with bowstring.Admin(servers) as admin, bowstring.Producer(servers) as producer:
        admin.create_topics([bowstring.NewTopic("kept", 1), bowstring.NewTopic("goes", 1)])
        for _ in range(3):
            producer.send("goes", b"v").result(10)
        begin = strict.latest({})
        assert begin == {kept: 0, goes: 3}
        admin.delete_topics(["goes"])
        end = strict.latest(begin)
        assert end == {kept: 0}
        with pytest.raises(DataLossError, match=r"goes-0 are gone.*set the option failOnDataLoss"):
            strict.stream_ranges(begin, end)
        assert bold.stream_ranges(begin, bold.latest(begin)) == []
        with pytest.raises(UnknownTopicError, match="goes"):
            strict.resolve(strict.options.starting, starting=True)
        admin.create_topics([bowstring.NewTopic("goes", 1)])
        producer.send("goes", b"again").result(10)
        again = bold.latest(end)
        assert again == {kept: 0, goes: 1}
        ranges = {each.topic: (each.start, each.end) for each in bold.stream_ranges(end, again)}
        assert ranges["goes"] == (0, 1)
    strict.close()
    bold.close()
