"""Administration through every client that has it: topics, partitions, configs, records and their errors."""

from collections.abc import Callable

import pytest

from tests.conformance.drivers import CLIENTS, DriverError, Session, clients_with
from tests.support.waiting import wait_until
from tests.support.wire import wait_for_leaders

UNKNOWN_TOPIC_OR_PARTITION = 3
OFFSET_OUT_OF_RANGE = 1
INVALID_TOPIC_EXCEPTION = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_CONFIG = 40


def refused(code: int, name: str, session: Session, op: str, **args: object) -> None:
    """Asserts that the operation fails with Kafka's error, identified by its code or its name."""
    with pytest.raises(DriverError) as raised:
        session.call(op, **args)
    plain = str(raised.value).replace("_", "").replace(" ", "").lower()
    assert raised.value.code == code or name.replace("_", "").lower() in plain, raised.value


def test_topic_from_creation_to_deletion(client: Session, topic_name: str) -> None:
    client.call("create_topic", topic=topic_name, partitions=2, configs={"retention.ms": "1234567"})
    refused(
        TOPIC_ALREADY_EXISTS, "TOPIC_ALREADY_EXISTS", client, "create_topic", topic=topic_name, partitions=1
    )
    assert client.call("list_topics")["topics"][topic_name] == 2
    client.call("create_partitions", topic=topic_name, count=5)
    wait_until(lambda: client.call("list_topics")["topics"][topic_name] == 5, "five partitions")
    refused(INVALID_PARTITIONS, "INVALID_PARTITIONS", client, "create_partitions", topic=topic_name, count=3)
    client.produce(topic_name, [{"partition": 4, "value": b"in the new partition"}])
    client.call("delete_topic", topic=topic_name)
    wait_until(lambda: topic_name not in client.call("list_topics")["topics"], "the topic to go")


def test_deleted_topic_starts_anew(client: Session, topic_name: str, bootstrap: str) -> None:
    for turn in range(2):
        client.call("create_topic", topic=topic_name, partitions=1)
        wait_for_leaders(bootstrap, topic_name, 1)
        client.produce(topic_name, [{"partition": 0, "value": b"%d" % turn}] * 3)
        assert client.call("bounds", topic=topic_name, partition=0) == {"earliest": 0, "latest": 3}
        assert {each["value"] for each in client.consume(topic_name, 3)} == {b"%d" % turn}
        client.call("delete_topic", topic=topic_name)
        wait_until(lambda: topic_name not in client.call("list_topics")["topics"], "the topic to go")


def test_topic_configs(client: Session, topic_name: str) -> None:
    client.call("create_topic", topic=topic_name, partitions=1, configs={"retention.ms": "1234567"})
    configs = client.call("topic_configs", topic=topic_name)["configs"]
    assert configs["retention.ms"] == "1234567"
    assert configs["cleanup.policy"] == "delete"
    assert configs["segment.bytes"] == "1073741824"
    client.call(
        "alter_topic_configs", topic=topic_name, configs={"retention.ms": "7654321", "segment.ms": "60000"}
    )
    altered = client.call("topic_configs", topic=topic_name)["configs"]
    assert (altered["retention.ms"], altered["segment.ms"]) == ("7654321", "60000")
    assert {name for name in configs if configs[name] != altered[name]} == {"retention.ms", "segment.ms"}


def test_every_client_sees_the_same_configs(
    session: Callable[[str], Session], make_topic: Callable[..., str]
) -> None:
    topic = make_topic(max_message_bytes="54321", cleanup_policy="compact")
    seen = {name: session(name).call("topic_configs", topic=topic)["configs"] for name in CLIENTS}
    for name, configs in seen.items():
        plain = {key: value or "" for key, value in configs.items()}
        assert plain == {key: value or "" for key, value in seen["java"].items()}, name
    assert (seen["java"]["max.message.bytes"], seen["java"]["cleanup.policy"]) == ("54321", "compact")


def test_errors_of_administration(client: Session, topic_name: str) -> None:
    create = {"partitions": 1, "topic": topic_name}
    refused(
        INVALID_CONFIG, "INVALID_CONFIG", client, "create_topic", **create, configs={"retention.ms": "soon"}
    )
    refused(INVALID_CONFIG, "INVALID_CONFIG", client, "create_topic", **create, configs={"no.such.key": "1"})
    refused(INVALID_PARTITIONS, "INVALID_PARTITIONS", client, "create_topic", topic=topic_name, partitions=0)
    refused(
        INVALID_TOPIC_EXCEPTION,
        "INVALID_TOPIC",
        client,
        "create_topic",
        topic="no spaces allowed",
        partitions=1,
    )
    if client.name != "kafkajs":
        # KafkaJS looks a topic up before deleting it, which creates it.
        refused(
            UNKNOWN_TOPIC_OR_PARTITION, "UNKNOWN_TOPIC", client, "delete_topic", topic=f"{topic_name}-missing"
        )
    assert topic_name not in client.call("list_topics")["topics"]


def test_delete_records(client: Session, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    client.produce(topic, [{"partition": 0, "value": b"%d" % i} for i in range(20)])
    answer = client.call("delete_records", topic=topic, partition=0, before=12)
    if "low_watermark" not in client.client.lacks:
        assert answer["low_watermark"] == 12
    assert client.call("bounds", topic=topic, partition=0) == {"earliest": 12, "latest": 20}
    got = client.consume(topic, 8)
    assert [each["offset"] for each in got] == list(range(12, 20))
    refused(
        OFFSET_OUT_OF_RANGE,
        "OFFSET_OUT_OF_RANGE",
        client,
        "delete_records",
        topic=topic,
        partition=0,
        before=21,
    )


def test_group_seen_by_admin(client: Session, make_topic: Callable[..., str], topic_name: str) -> None:
    topic, group, handle = make_topic(2), f"group-{topic_name}", client.driver.handle()
    client.produce(topic, [{"partition": i % 2, "value": b"v"} for i in range(10)])
    client.call(
        "join",
        handle=handle,
        group=group,
        topics=[topic],
        assignor=client.client.assignor,
        session_timeout_ms=30000,
    )
    wait_until(lambda: len(client.call("member", handle=handle)["records"]) >= 10, "ten records")
    client.call("commit", handle=handle)
    assert group in client.call("list_groups")["groups"]
    assert client.call("describe_group", group=group) == {"state": "Stable", "members": 1}
    assert client.call("committed", group=group, topic=topic, partitions=[0, 1])["offsets"] == [5, 5]
    client.call("leave", handle=handle)
    wait_until(
        lambda: client.call("describe_group", group=group) == {"state": "Empty", "members": 0},
        "an empty group",
    )


@pytest.mark.parametrize("name", clients_with("delete_group"))
def test_delete_group(
    name: str, session: Callable[[str], Session], make_topic: Callable[..., str], topic_name: str
) -> None:
    client, topic, group = session(name), make_topic(), f"group-{topic_name}"
    handle = client.driver.handle()
    client.call(
        "join",
        handle=handle,
        group=group,
        topics=[topic],
        assignor=client.client.assignor,
        session_timeout_ms=30000,
    )
    wait_until(lambda: client.call("member", handle=handle)["assignment"], "an assignment")
    refused(68, "NON_EMPTY_GROUP", client, "delete_group", group=group)
    client.call("leave", handle=handle)
    wait_until(lambda: client.call("describe_group", group=group)["members"] == 0, "an empty group")
    client.call("delete_group", group=group)
    assert group not in client.call("list_groups")["groups"]


def test_cluster_topics_and_producers_as_java_sees_them(
    session: Callable[[str], Session], make_topic: Callable[..., str], bootstrap: str
) -> None:
    java, topic = session("java"), make_topic(3)
    cluster = java.call("describe_cluster")
    (node,) = cluster["nodes"]
    assert f"{node['host']}:{node['port']}" == bootstrap
    assert len(cluster["cluster_id"]) == 22
    described = java.call("describe_topic", topic=topic)
    assert [each["partition"] for each in described["partitions"]] == [0, 1, 2]
    assert {(each["leader"], each["replicas"], each["isr"]) for each in described["partitions"]} == {
        (node["id"], 1, 1)
    }
    assert described["internal"] is False
    assert len(described["topic_id"]) == 22
    java.produce(topic, [{"partition": 1, "value": b"%d" % i} for i in range(5)], idempotent=True)
    (producer,) = java.call("describe_producers", topic=topic, partition=1)["producers"]
    assert producer == {"producer_epoch": 0, "last_sequence": 4}
    assert java.call("log_dirs")["sizes"][f"{topic}-1"] > 0
    sources = java.call("topic_configs", topic=make_topic(retention_ms="5"))["sources"]
    assert (sources["retention.ms"], sources["segment.bytes"]) == ("DYNAMIC_TOPIC_CONFIG", "DEFAULT_CONFIG")
