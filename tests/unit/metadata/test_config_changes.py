"""Altering configs: operations, checks, and that a resource changes as a whole or not at all."""

import pytest

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.configs.table_security import PER_LISTENER
from bowstring.engine.metadata.config_changes import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    Change,
    alter_incrementally,
    replace,
)
from bowstring.engine.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, ClusterImage
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.records.cluster_metadata.nodes import RegisterBrokerRecord
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord, FeatureLevelRecord
from bowstring.protocol.records.cluster_metadata.topics import ClearElrRecord, PartitionRecord, TopicRecord

TOPIC = (TOPIC_RESOURCE, "t")
THIS_BROKER = (BROKER_RESOURCE, "1")
ALL_BROKERS = (BROKER_RESOURCE, "")


def image_with(**configs: str) -> ClusterImage:
    image = ClusterImage()
    image.apply(TopicRecord(name="t", topic_id=b"t" * 16))
    image.apply(RegisterBrokerRecord(broker_id=1))
    for name, value in configs.items():
        image.apply(
            ConfigRecord(
                resource_type=TOPIC_RESOURCE, resource_name="t", name=name.replace("_", "."), value=value
            )
        )
    return image


def alter(image: ClusterImage, resource, *changes: Change) -> dict[str, str | None]:
    records = alter_incrementally(image, BrokerConfigs(), resource, changes)
    return {record.name: record.value for record in records if isinstance(record, ConfigRecord)}


def test_operations():
    image = image_with(retention_ms="5", cleanup_policy="compact")
    changes = alter(
        image,
        TOPIC,
        Change("segment.ms", SET, "7"),
        Change("retention.ms", DELETE, None),
        Change("cleanup.policy", APPEND, "delete"),
    )
    assert changes == {"segment.ms": "7", "retention.ms": None, "cleanup.policy": "compact,delete"}
    assert alter(image, TOPIC, Change("cleanup.policy", SUBTRACT, "compact")) == {"cleanup.policy": ""}


def test_appending_begins_with_the_value_in_force():
    assert alter(image_with(), TOPIC, Change("cleanup.policy", APPEND, "compact")) == {
        "cleanup.policy": "delete,compact"
    }


def test_what_changes_nothing_writes_nothing():
    assert alter(image_with(retention_ms="5"), TOPIC, Change("retention.ms", SET, "5")) == {}


@pytest.mark.parametrize(
    "resource, change, error",
    [
        (TOPIC, Change("retention", SET, "1"), Errors.INVALID_CONFIG),
        (TOPIC, Change("retention.ms", SET, "x"), Errors.INVALID_CONFIG),
        (TOPIC, Change("retention.ms", SET, None), Errors.INVALID_REQUEST),
        (TOPIC, Change("retention.ms", APPEND, "1"), Errors.INVALID_CONFIG),
        (TOPIC, Change("retention.ms", 9, "1"), Errors.INVALID_REQUEST),
        (TOPIC, Change("segment.ms", SET, "1" * 40_000), Errors.INVALID_CONFIG),
        ((TOPIC_RESOURCE, "gone"), Change("retention.ms", SET, "1"), Errors.UNKNOWN_TOPIC_OR_PARTITION),
        ((BROKER_RESOURCE, "²"), Change("log.retention.ms", SET, "1"), Errors.INVALID_REQUEST),
        ((BROKER_RESOURCE, "2"), Change("log.retention.ms", SET, "1"), Errors.BROKER_ID_NOT_REGISTERED),
        ((BROKER_RESOURCE, "x"), Change("log.retention.ms", SET, "1"), Errors.INVALID_REQUEST),
        (THIS_BROKER, Change("num.partitions", SET, "1"), Errors.INVALID_REQUEST),
        (THIS_BROKER, Change("log.retenton.ms", SET, "1"), Errors.INVALID_REQUEST),
        (ALL_BROKERS, Change("ssl.keystore.location", SET, "/k"), Errors.INVALID_REQUEST),
        (ALL_BROKERS, Change("log.retention.ms", SET, "x"), Errors.INVALID_REQUEST),
        (THIS_BROKER, Change("principal.builder.class", SET, "com.example.B"), Errors.INVALID_CONFIG),
        (ALL_BROKERS, Change("max.connections", SET, "-1"), Errors.INVALID_REQUEST),
        (ALL_BROKERS, Change("max.connections.per.ip.overrides", SET, "host"), Errors.INVALID_REQUEST),
        (
            THIS_BROKER,
            Change("listener.name.external.ssl.engine.factory.class", SET, "com.example.E"),
            Errors.INVALID_CONFIG,
        ),
        (THIS_BROKER, Change("principal.builder.class", SET, "com.example.B"), Errors.INVALID_CONFIG),
        (THIS_BROKER, Change("authorizer.class.name", SET, "x"), Errors.INVALID_REQUEST),
        ((99, "x"), Change("a", SET, "1"), Errors.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_is_refused(resource, change, error):
    with pytest.raises(KafkaError) as caught:
        alter(image_with(), resource, change)
    assert caught.value.error is error


def test_a_protection_that_is_not_there_is_refused_with_the_reason_and_can_be_taken_away():
    with pytest.raises(KafkaError, match=r"principal\.builder\.class=com\.example\.B is not enforced: .*"):
        alter(image_with(), THIS_BROKER, Change("principal.builder.class", SET, "com.example.B"))
    default = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    off = Change("principal.builder.class", SET, default)
    assert alter(image_with(), THIS_BROKER, off) == {"principal.builder.class": default}
    alter(image_with(), THIS_BROKER, Change("principal.builder.class", DELETE, None))


@pytest.mark.parametrize("name", sorted(PER_LISTENER))
@pytest.mark.parametrize("resource", [THIS_BROKER, ALL_BROKERS])
def test_stores_of_keys_change_only_for_a_listener(resource, name):
    with pytest.raises(KafkaError, match="only per-listener") as caught:
        alter(image_with(), resource, Change(name, SET, "PKCS12"))
    assert caught.value.error is Errors.INVALID_REQUEST
    named = f"listener.name.external.{name}"
    assert alter(image_with(), THIS_BROKER, Change(named, SET, "PKCS12")) == {named: "PKCS12"}


def test_keys_named_twice_are_refused():
    twice = Change("retention.ms", SET, "1")
    with pytest.raises(KafkaError, match="duplicate config keys"):
        alter(image_with(), TOPIC, twice, twice)


def test_contradictions_with_what_is_set_already_are_refused():
    with pytest.raises(KafkaError, match=r"min\.compaction\.lag\.ms"):
        alter(image_with(max_compaction_lag_ms="5"), TOPIC, Change("min.compaction.lag.ms", SET, "6"))


def test_broker_configs_change_at_both_levels():
    assert alter(image_with(), THIS_BROKER, Change("log.retention.ms", SET, "9")) == {"log.retention.ms": "9"}
    assert alter(image_with(), ALL_BROKERS, Change("log.cleanup.policy", APPEND, "compact")) == {
        "log.cleanup.policy": "delete,compact"
    }


def test_replacing_drops_what_is_not_named():
    image = image_with(retention_ms="5", segment_ms="6")
    records = replace(image, BrokerConfigs(), TOPIC, [("segment.ms", "7")])
    assert {record.name: record.value for record in records} == {"segment.ms": "7", "retention.ms": None}


# ------------------------------------------------------------ eligible leader replicas


def image_with_eligible_leaders() -> ClusterImage:
    image = image_with()
    image.apply(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
    image.apply(PartitionRecord(partition_id=0, topic_id=b"t" * 16, isr=[1], eligible_leader_replicas=[2]))
    return image


@pytest.mark.parametrize("resource", [TOPIC, ALL_BROKERS])
def test_another_minimum_forgets_who_was_eligible(resource):
    image = image_with_eligible_leaders()
    wanted = Change("min.insync.replicas", SET, "2")
    records = alter_incrementally(image, BrokerConfigs(), resource, [wanted])
    assert [type(each) for each in records] == [ConfigRecord, ClearElrRecord]
    image.apply_all(records)
    assert image.topics["t"].partitions[0].eligible_leaders == ()
    assert not alter_incrementally(image, BrokerConfigs(), resource, [wanted])


def test_without_the_feature_nobody_is_forgotten():
    wanted = Change("min.insync.replicas", SET, "2")
    records = alter_incrementally(image_with(), BrokerConfigs(), TOPIC, [wanted])
    assert [type(each) for each in records] == [ConfigRecord]


def test_the_minimum_of_one_broker_and_none_at_all_are_refused():
    image = image_with_eligible_leaders()
    image.apply(
        ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name="min.insync.replicas", value="1")
    )
    for resource, change in (
        (THIS_BROKER, Change("min.insync.replicas", SET, "2")),
        (ALL_BROKERS, Change("min.insync.replicas", DELETE, None)),
    ):
        with pytest.raises(KafkaError) as caught:
            alter_incrementally(image, BrokerConfigs(), resource, [change])
        assert caught.value.error is Errors.INVALID_CONFIG


def test_configs_of_any_registered_broker_change():
    image = image_with()
    change = Change("log.cleaner.threads", SET, "2")
    with pytest.raises(KafkaError) as caught:
        alter_incrementally(image, BrokerConfigs(), (BROKER_RESOURCE, "7"), [change])
    assert caught.value.error is Errors.BROKER_ID_NOT_REGISTERED
    image.apply(RegisterBrokerRecord(broker_id=7))
    assert alter_incrementally(image, BrokerConfigs(), (BROKER_RESOURCE, "7"), [change])
