"""The image: what each record does to it, and that records survive their bytes."""

import tracemalloc
from typing import Any

import pytest

from bowstring.engine.metadata.image import (
    BROKER_RESOURCE,
    PARTITION_KINDS_MAX,
    TOPIC_RESOURCE,
    ClusterImage,
    MetadataError,
)
from bowstring.engine.metadata.records import decode_record, encode_record
from bowstring.protocol.records.cluster_metadata.markers import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)
from bowstring.protocol.records.cluster_metadata.nodes import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from bowstring.protocol.records.cluster_metadata.settings import (
    ConfigRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
)
from bowstring.protocol.records.cluster_metadata.topics import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

ID = bytes(range(16))
DIRECTORY = b"d" * 16


def partition(index: int, topic_id: bytes = ID, **fields) -> PartitionRecord:
    facts: dict[str, Any] = {
        "replicas": [1],
        "isr": [1],
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
    }
    return PartitionRecord(partition_id=index, topic_id=topic_id, directories=[DIRECTORY], **(facts | fields))


def image_with_topic(partitions: int = 2) -> ClusterImage:
    image = ClusterImage()
    image.apply_all([TopicRecord(name="a.b", topic_id=ID), *map(partition, range(partitions))])
    return image


def test_a_topic_comes_and_goes():
    image = image_with_topic()
    assert image.topics["a.b"] is image.topics_by_id[ID]
    assert image.partition_count == 2
    assert image.unified_names == {"a_b": "a.b"}
    image.apply(
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="a.b", name="retention.ms", value="1")
    )
    image.apply(RemoveTopicRecord(topic_id=ID))
    assert (image.topics, image.topics_by_id, image.unified_names, image.configs) == ({}, {}, {}, {})
    assert image.partition_count == 0


def test_equal_partitions_are_one_object():
    image = image_with_topic(3)
    first, *others = image.topics["a.b"].partitions
    assert all(other is first for other in others)


def test_a_changed_leader_raises_both_epochs_and_a_changed_isr_only_one():
    image = image_with_topic()
    image.apply(PartitionChangeRecord(partition_id=1, topic_id=ID, isr=[1, 2]))
    changed = image.topics["a.b"].partitions[1]
    assert (changed.in_sync, changed.leader_epoch, changed.partition_epoch) == ((1, 2), 0, 1)
    image.apply(PartitionChangeRecord(partition_id=1, topic_id=ID, leader=2))
    changed = image.topics["a.b"].partitions[1]
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (2, 1, 2)
    assert image.topics["a.b"].partitions[0].leader == 1


def test_configs_are_set_and_deleted():
    image = ClusterImage()
    record = ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name="log.retention.ms", value="5")
    image.apply(record)
    assert image.resource_configs(BROKER_RESOURCE, "") == {"log.retention.ms": "5"}
    record.value = None
    image.apply(record)
    assert image.configs == {}


def test_brokers_register_change_and_leave():
    image = ClusterImage()
    endpoint = BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)
    image.apply(
        RegisterBrokerRecord(
            broker_id=1, broker_epoch=3, end_points=[endpoint], rack="r", fenced=True, log_dirs=[DIRECTORY]
        )
    )
    broker = image.brokers[1]
    assert broker.endpoint("PLAINTEXT") == ("PLAINTEXT", "h", 9092, 0)
    assert broker.endpoint("OTHER") is None
    assert (broker.epoch, broker.rack, broker.fenced, broker.directories) == (3, "r", True, (DIRECTORY,))
    image.apply(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=3, fenced=-1))
    assert image.brokers[1].fenced is False
    image.apply(UnregisterBrokerRecord(broker_id=1, broker_epoch=3))
    assert image.brokers == {}


def test_features_and_producer_ids():
    image = ClusterImage()
    image.apply(FeatureLevelRecord(name="metadata.version", feature_level=30))
    image.apply(ProducerIdsRecord(broker_id=1, next_producer_id=1000))
    assert (image.features, image.next_producer_id) == ({"metadata.version": 30}, 1000)
    image.apply(FeatureLevelRecord(name="metadata.version", feature_level=0))
    assert image.features == {}
    with pytest.raises(MetadataError, match="twice"):
        image.apply(ProducerIdsRecord(broker_id=1, next_producer_id=999))


@pytest.mark.parametrize(
    "record, message",
    [
        (TopicRecord(name="a.b", topic_id=b"x" * 16), "created twice"),
        (TopicRecord(name="other", topic_id=ID), "created twice"),
        (partition(0, b"y" * 16), "unknown topic id"),
        (partition(5), "before its predecessors"),
        (PartitionChangeRecord(partition_id=9, topic_id=ID), "changes but does not exist"),
        (RemoveTopicRecord(topic_id=b"z" * 16), "unknown topic id"),
        (BrokerRegistrationChangeRecord(broker_id=7), "not registered"),
        (EndTransactionRecord(), "does not follow a transaction"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_records_that_cannot_follow_are_refused(record, message):
    with pytest.raises(MetadataError, match=message):
        image_with_topic().apply(record)


def test_records_survive_their_bytes():
    records = [TopicRecord(name="a.b", topic_id=ID), partition(0), partition(1), NoOpRecord()]
    image = ClusterImage()
    image.apply_all(decode_record(encode_record(record)) for record in records)
    assert image.topics["a.b"].partitions == image_with_topic().topics["a.b"].partitions


@pytest.mark.parametrize("level, version", [(30, 2), (23, 2), (22, 1), (17, 1)])
def test_partitions_are_written_in_the_version_that_the_cluster_has_agreed_on(level, version):
    assert encode_record(partition(0), level)[:3] == bytes((1, PartitionRecord.api_key, version))


def test_a_transaction_takes_effect_when_it_ends_and_only_then():
    image = ClusterImage()
    image.apply_all([BeginTransactionRecord(name="t"), TopicRecord(name="a", topic_id=ID)])
    assert image.in_transaction and not image.topics
    image.apply(EndTransactionRecord())
    assert not image.in_transaction and list(image.topics) == ["a"]


def test_an_aborted_transaction_leaves_nothing():
    image = ClusterImage()
    image.apply_all(
        [BeginTransactionRecord(), TopicRecord(name="a", topic_id=ID), AbortTransactionRecord(reason="no")]
    )
    assert not image.in_transaction and not image.topics


def test_equal_partitions_share_an_image_and_old_ones_are_forgotten():
    image = ClusterImage()
    image.apply_all([TopicRecord(name="t", topic_id=ID), partition(0), partition(1)])
    partitions = image.topics["t"].partitions
    assert partitions[0] is partitions[1]
    change = PartitionChangeRecord(topic_id=ID, partition_id=0, isr=[1])
    tracemalloc.start()
    for _ in range(PARTITION_KINDS_MAX):
        image.apply(change)
    full_bytes = tracemalloc.get_traced_memory()[0]
    for _ in range(PARTITION_KINDS_MAX):
        image.apply(change)
    grown_bytes = tracemalloc.get_traced_memory()[0] - full_bytes
    tracemalloc.stop()
    assert partitions[0].partition_epoch == 2 * PARTITION_KINDS_MAX
    assert grown_bytes < full_bytes / 4


def test_versions_of_topics_are_not_used_twice():
    """Groups detect changed topics by version, also when a snapshot brings another image."""
    images = []
    for racks in ([1], [2]):
        image = ClusterImage()
        image.apply(TopicRecord(name="t", topic_id=b"t" * 16))
        image.apply(PartitionRecord(partition_id=0, topic_id=b"t" * 16, replicas=racks))
        images.append(image)
    first, second = images
    assert first.topics_version != second.topics_version
    assert first.topics["t"].version != second.topics["t"].version
    copied = first.copy()
    assert (copied.topics_version, copied.topics["t"].version) == (
        first.topics_version,
        first.topics["t"].version,
    )
    before = first.topics_version
    first.apply(PartitionChangeRecord(partition_id=0, topic_id=b"t" * 16, leader=1))
    assert first.topics_version == before
    first.apply(PartitionChangeRecord(partition_id=0, topic_id=b"t" * 16, replicas=[3]))
    assert first.topics_version == first.topics["t"].version != before
    created = first.created_version
    first.apply(RemoveTopicRecord(topic_id=b"t" * 16))
    assert first.created_version == created != first.topics_version
