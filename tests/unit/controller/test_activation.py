"""What a new controller writes first."""

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.controller.activation import activation_records
from bowstring.engine.metadata.image import ClusterImage
from bowstring.protocol.records.cluster_metadata.markers import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord, FeatureLevelRecord
from bowstring.protocol.records.cluster_metadata.topics import TopicRecord


def level(value: int, name: str = "metadata.version") -> FeatureLevelRecord:
    return FeatureLevelRecord(name=name, feature_level=value)


def test_a_new_log_gets_the_bootstrap_records_in_a_transaction():
    elr = level(1, "eligible.leader.replicas.version")
    records = activation_records(
        ClusterImage(), [level(23), elr], BrokerConfigs({"min.insync.replicas": "2"})
    )
    assert [type(each) for each in records] == [
        BeginTransactionRecord,
        FeatureLevelRecord,
        FeatureLevelRecord,
        ConfigRecord,
        EndTransactionRecord,
    ]
    image = ClusterImage()
    image.apply_all(records)
    assert image.features == {"metadata.version": 23, "eligible.leader.replicas.version": 1}
    assert image.resource_configs(4, "") == {"min.insync.replicas": "2"}


def test_an_old_log_level_knows_no_transactions():
    records = activation_records(ClusterImage(), [level(12)], BrokerConfigs())
    assert [type(each) for each in records] == [FeatureLevelRecord]


def test_without_bootstrap_records_the_newest_level_counts():
    image = ClusterImage()
    image.apply_all(activation_records(image, [], BrokerConfigs()))
    assert image.features == {
        "metadata.version": 33,
        "transaction.version": 2,
        "group.version": 1,
        "share.version": 2,
        "streams.version": 1,
    }


def test_a_log_in_use_needs_nothing():
    image = ClusterImage()
    image.apply(level(30))
    assert activation_records(image, [level(20)], BrokerConfigs()) == []


def test_what_the_last_controller_did_not_end_is_aborted():
    image = ClusterImage()
    image.apply_all([level(30), BeginTransactionRecord(), TopicRecord(name="t", topic_id=b"T" * 16)])
    [record] = activation_records(image, [], BrokerConfigs())
    assert isinstance(record, AbortTransactionRecord)
    image.apply(record)
    assert image.topics == {}
    image = ClusterImage()
    image.apply(BeginTransactionRecord())
    image.apply_all(activation_records(image, [level(20)], BrokerConfigs()))
    assert image.features == {"metadata.version": 20}
    assert not image.in_transaction
