"""Creating topics and partitions: refusals and their errors, and the records of accepted changes."""

import pytest

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.metadata.topic_changes import NewTopic, create_partitions, create_topic, place
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.records.cluster_metadata.nodes import RegisterBrokerRecord
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord
from bowstring.protocol.records.cluster_metadata.topics import PartitionRecord, TopicRecord

ID = bytes(range(16))


def cluster(brokers: int = 1) -> ClusterImage:
    image = ClusterImage()
    for broker in range(1, brokers + 1):
        image.apply(RegisterBrokerRecord(broker_id=broker, fenced=False, log_dirs=[bytes([broker]) * 16]))
    return image


def made(image: ClusterImage, topic: NewTopic, **static: str):
    return create_topic(image, BrokerConfigs({k.replace("_", "."): v for k, v in static.items()}), topic, ID)


def test_a_topic_is_its_record_its_configs_and_its_partitions():
    records = made(cluster(), NewTopic("t", 2, 1, None, {"retention.ms": "5"}))
    assert [type(record) for record in records] == [
        TopicRecord,
        ConfigRecord,
        PartitionRecord,
        PartitionRecord,
    ]
    assert records[1].value == "5"
    assert (records[3].partition_id, records[3].replicas, records[3].isr, records[3].leader) == (
        1,
        [1],
        [1],
        1,
    )
    assert records[3].directories == [b"\x01" * 16]


def test_counts_of_minus_one_take_the_brokers_defaults():
    records = made(cluster(2), NewTopic("t"), num_partitions="3", default_replication_factor="2")
    assert [record.replicas for record in records[1:]] == [[1, 2], [2, 1], [1, 2]]


def test_a_manual_assignment_is_kept():
    records = made(cluster(3), NewTopic("t", -1, -1, {1: [3, 1], 0: [2, 3]}))
    assert [record.replicas for record in records[1:]] == [[2, 3], [3, 1]]


@pytest.mark.parametrize(
    "topic, error",
    [
        (NewTopic("", 1, 1), Errors.INVALID_TOPIC_EXCEPTION),
        (NewTopic("..", 1, 1), Errors.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a" * 250, 1, 1), Errors.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a b", 1, 1), Errors.INVALID_TOPIC_EXCEPTION),
        (NewTopic("é", 1, 1), Errors.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a.b", 1, 1), Errors.TOPIC_ALREADY_EXISTS),
        (NewTopic("a_b", 1, 1), Errors.INVALID_TOPIC_EXCEPTION),
        (NewTopic("t", 0, 1), Errors.INVALID_PARTITIONS),
        (NewTopic("t", -2, 1), Errors.INVALID_PARTITIONS),
        (NewTopic("t", 10_001, 1), Errors.POLICY_VIOLATION),
        (NewTopic("t", 1, 0), Errors.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, 3), Errors.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, -1, {0: [1]}), Errors.INVALID_REQUEST),
        (NewTopic("t", -1, 1, {0: [1]}), Errors.INVALID_REQUEST),
        (NewTopic("t", -1, -1, {0: []}), Errors.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", -1, -1, {0: [9]}), Errors.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", -1, -1, {0: [1, 1]}), Errors.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", -1, -1, {0: [1], 1: [1, 2]}), Errors.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", -1, -1, {0: [1], 2: [1]}), Errors.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", 1, 1, None, {"retention": "1"}), Errors.INVALID_CONFIG),
        (NewTopic("t", 1, 1, None, {"retention.ms": "x"}), Errors.INVALID_CONFIG),
        (NewTopic("t", 1, 1, None, {"retention.ms": None}), Errors.INVALID_CONFIG),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_what_cannot_be_is_refused(topic, error):
    image = cluster(2)
    image.apply(TopicRecord(name="a.b", topic_id=b"o" * 16))
    with pytest.raises(KafkaError) as caught:
        made(image, topic)
    assert caught.value.error is error


@pytest.mark.parametrize(
    "count, assignments, error",
    [
        (2, None, Errors.INVALID_PARTITIONS),
        (1, None, Errors.INVALID_PARTITIONS),
        (4, [[1]], Errors.INVALID_REPLICA_ASSIGNMENT),
        (3, [[1, 2]], Errors.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_partitions_can_only_be_added(count, assignments, error):
    image = cluster(2)
    image.apply_all(made(image, NewTopic("t", 2, 1)))
    with pytest.raises(KafkaError) as caught:
        create_partitions(image, "t", count, assignments)
    assert caught.value.error is error


def test_new_partitions_get_the_replication_factor_of_the_topic():
    image = cluster(2)
    image.apply_all(made(image, NewTopic("t", 1, 2)))
    image.apply_all(create_partitions(image, "t", 3, None))
    assert [partition.replicas for partition in image.topics["t"].partitions] == [(1, 2), (1, 2), (2, 1)]
    with pytest.raises(KafkaError) as caught:
        create_partitions(image, "gone", 3, None)
    assert caught.value.error is Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_leaders_are_spread():
    assert place(cluster(3), 4, 2) == [(1, 2), (2, 3), (3, 1), (1, 2)]
