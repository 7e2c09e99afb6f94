"""One data directory that Apache Kafka and Bowstring use in turn, and the view that clients have of it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.conformance.drivers import CODECS
from tests.support import peers
from tests.support.serving import steady_port
from tests.support.target import BowstringBroker, Broker, kafka_java
from tests.support.waiting import HANG_S, pause, wait_until

# Ignore log lines of clients that outlive their broker; tests assert what matters.
QUIET = {"log_level": 0}
INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
BIG = 1 << 20
NOT_YET = ("NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PART")


class Seen(NamedTuple):
    """A record as a consumer sees it."""

    offset: int
    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Partition(NamedTuple):
    """A partition as a consumer sees it: its bounds and every record between them."""

    low: int
    high: int
    records: tuple[Seen, ...]


class View(NamedTuple):
    """Everything that clients can see of a cluster's topics and groups."""

    committed: dict[tuple[str, int], Partition]
    uncommitted: dict[tuple[str, int], Partition]
    configs: dict[str, dict[str, str]]
    offsets: dict[str, dict[tuple[str, int], tuple[int, str]]]


class KafkaOn(Broker):
    """Apache Kafka on a given directory; a new one is formatted like `kafka-storage format --standalone`.

    Args:
        properties: A server.properties to use unchanged; else one is created from `settings`.
    """

    def __init__(
        self,
        directory: Path,
        data: Path,
        port: int,
        settings: dict[str, str] | None = None,
        properties: Path | None = None,
    ) -> None:
        super().__init__(directory, settings)
        self.data, self.port = data, port
        self._properties = properties or self._write_properties()

    def _write_properties(self) -> Path:
        controller = steady_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "3",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **self.settings,
        }
        path = self.directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def command(self) -> list[str]:
        java = [*kafka_java(), "-Xmx512m", "-cp", peers.kafka_classpath()]
        if not (self.data / "meta.properties").exists():
            tool = [
                *java,
                "kafka.tools.StorageTool",
                "format",
                "--standalone",
                "-t",
                "MkU3OEVBNTcwNTJENDM2Qg",
            ]
            subprocess.run([*tool, "-c", str(self._properties)], check=True, capture_output=True)
        return [*java, "kafka.Kafka", str(self._properties)]


class BowstringOn(BowstringBroker):
    """Bowstring on a given directory; a new one is made at the start."""

    def __init__(
        self,
        directory: Path,
        data: Path,
        port: int,
        settings: dict[str, str] | None = None,
        listeners: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(directory, settings, listeners=listeners)
        self.data, self.port = data, port


def hand_over(data: Path, to: str, into: Path, config: Path | None = None) -> Path:
    """Runs `bowstring migrate-dir`; returns the server.properties that it wrote, with the settings of `config`."""
    properties = into / f"{to}.properties"
    options = ["--to", to, "--properties", str(properties), "--controller-port", str(steady_port()), "--json"]
    options += [] if config is None else ["--config", str(config)]
    command = [sys.executable, "-m", "bowstring", "migrate-dir", str(data), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["to"] == to
    return properties


# ---------------------------------------------------------------- writing


def admin(bootstrap: str) -> AdminClient:
    """Returns a new admin client."""
    return AdminClient({"bootstrap.servers": bootstrap, **QUIET})


def create(bootstrap: str, name: str, partitions: int = 1, **configs: str) -> None:
    """Creates a topic; underscores in config names stand for dots."""
    dotted = {key.replace("_", "."): value for key, value in configs.items()}
    topic = NewTopic(name, partitions, 1, config=dotted)
    client = admin(bootstrap)  # keep a reference: its futures need it
    client.create_topics([topic])[name].result(HANG_S)


def producer(bootstrap: str, **settings: Any) -> Producer:
    """Returns a producer that fails records when it hangs."""
    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    # Records of a transaction may not take longer than it.
    patience = dict.fromkeys(("message.timeout.ms", "transaction.timeout.ms"), int(HANG_S * 1000))
    fixed = {"bootstrap.servers": bootstrap, "linger.ms": 5, **patience}
    return Producer({**fixed, **QUIET, **dotted})


def send(client: Producer, topic: str, records: Iterable[dict[str, Any]]) -> list[Message]:
    """Produces records and waits for all of them; returns the delivered ones."""
    delivered: list[Message] = []

    def done(error: Any, message: Message) -> None:
        assert error is None, error
        delivered.append(message)

    for record in records:
        client.produce(topic, on_delivery=done, **record)
    assert client.flush(HANG_S) == 0
    return delivered


def assorted(tag: str, partitions: int, count: int = 20) -> list[dict[str, Any]]:
    """Returns records with and without keys, values and headers, with explicit timestamps."""
    return [
        {
            "partition": i % partitions,
            "key": None if i % 5 == 0 else f"{tag}-k{i % 7}".encode(),
            "value": None if i % 11 == 3 else f"{tag}-v{i}".encode() * (1 + i % 9),
            "headers": [("h", f"{tag}{i}".encode()), ("null", None), ("h", b"")] if i % 3 == 0 else [],
            "timestamp": 1_700_000_000_000 + i * 1000,
        }
        for i in range(count)
    ]


def write_topics(bootstrap: str) -> None:
    """Creates topics of every kind that a broker without a transaction coordinator can have."""
    create(bootstrap, "codecs", 2, retention_ms="-1", max_message_bytes="2000000")
    for codec in CODECS:
        send(producer(bootstrap, compression_type=codec), "codecs", assorted(codec, 2))
    create(bootstrap, "append.time", 1, message_timestamp_type="LogAppendTime")
    send(producer(bootstrap, compression_type="zstd"), "append.time", assorted("a", 1))
    create(bootstrap, "empty", 3, cleanup_policy="compact,delete", min_insync_replicas="1")
    create(bootstrap, "rolled", 1, segment_bytes=str(BIG), retention_ms="-1")
    rolled = ({"value": os.urandom(BIG // 16), "partition": 0} for _ in range(40))
    send(producer(bootstrap), "rolled", rolled)
    cut = TopicPartition("rolled", 0, 21)
    client = admin(bootstrap)
    client.delete_records([cut])[cut].result(HANG_S)
    create(bootstrap, "dropped", 1)
    client.delete_topics(["dropped"])["dropped"].result(HANG_S)


def commit_offsets(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """Commits an offset for partition 0, as a group without members."""
    client = consumer(bootstrap, group)
    client.commit(offsets=[TopicPartition(topic, 0, offset, metadata=f"m{offset}")], asynchronous=False)
    client.close()


def write_transactions(bootstrap: str) -> None:
    """Writes committed and aborted transactions, one after the other and interleaved."""
    create(bootstrap, "transactions", 1)
    one, two = (producer(bootstrap, transactional_id=f"t{i}") for i in (1, 2))
    for client in (one, two):
        client.init_transactions(HANG_S)
    for index, end in enumerate(("commit", "abort", "commit", "abort")):
        one.begin_transaction()
        send(one, "transactions", [{"value": f"one-{index}-{end}-{i}".encode()} for i in range(5)])
        two.begin_transaction()
        send(two, "transactions", [{"value": f"two-{index}-{i}".encode()} for i in range(3)])
        (one.commit_transaction if end == "commit" else one.abort_transaction)(HANG_S)
        two.abort_transaction(HANG_S)


def transact(bootstrap: str, name: str, end: str) -> Producer:
    """Writes one record in a transaction of `name`, which is committed or left open."""
    client = producer(bootstrap, transactional_id=name)
    client.init_transactions(HANG_S)
    client.begin_transaction()
    send(client, "transactions", [{"value": f"{name}-{end}".encode()}])
    if end == "commit":
        client.commit_transaction(HANG_S)
    return client


def write_compacted(bootstrap: str) -> None:
    """Creates a compacted topic, and waits until the broker's cleaner has compacted it."""
    settings = {"min_cleanable_dirty_ratio": "0.01", "segment_ms": "100", "min_compaction_lag_ms": "0"}
    create(bootstrap, "compacted", 1, cleanup_policy="compact", delete_retention_ms="86400000", **settings)
    client = producer(bootstrap, compression_type="snappy")
    for round in range(6):
        values = [None if (i, round) == (3, 5) else f"{round}-{i}".encode() for i in range(8)]
        send(client, "compacted", [{"key": f"k{i}", "value": value} for i, value in enumerate(values)])
        pause(0.12, "the next record closes a segment that is old enough")
    wait_until(
        lambda: len(read_partitions(bootstrap, "read_uncommitted")["compacted", 0].records) <= 24,
        "the cleaner does nothing",
    )


def write_security(bootstrap: str) -> None:
    """Creates an access control entry and a SCRAM credential."""
    client = admin(bootstrap)
    facts = (ResourceType.TOPIC, "secret", ResourcePatternType.PREFIXED, "User:eve", "*")
    rule = AclBinding(*facts, AclOperation.READ, AclPermissionType.DENY)
    client.create_acls([rule])[rule].result(HANG_S)
    mechanism = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    credential = UserScramCredentialUpsertion("ada", mechanism, b"hunter2", b"salty")
    client.alter_user_scram_credentials([credential])["ada"].result(HANG_S)


def security(bootstrap: str) -> tuple[list[str], int]:
    """Returns the access control entries, and the iterations of ada's credential."""
    client = admin(bootstrap)
    anything = (ResourceType.ANY, None, ResourcePatternType.ANY, None, None)
    every = AclBindingFilter(*anything, AclOperation.ANY, AclPermissionType.ANY)
    rules = sorted(str(rule) for rule in client.describe_acls(every).result(HANG_S))
    ada = client.describe_user_scram_credentials(["ada"])["ada"].result(HANG_S)
    return rules, ada.scram_credential_infos[0].iterations


def join_new_protocol(bootstrap: str, group: str, topic: str) -> None:
    """Lets a member of a group of the new protocol (KIP-848) read five records, commit, and disappear."""
    client = consumer(bootstrap, group, group_protocol="consumer", auto_offset_reset="earliest")
    client.subscribe([topic])
    for _ in range(5):
        message = client.poll(HANG_S)
        assert message is not None and not message.error()
    client.commit(message=message, asynchronous=False)
    client.close()


# ---------------------------------------------------------------- reading


def consumer(bootstrap: str, group: str = "nobody", **settings: Any) -> Consumer:
    """Returns a consumer without automatic commits."""
    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    fixed = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    return Consumer({**fixed, "enable.partition.eof": True, "auto.offset.reset": "error", **QUIET, **dotted})


def bounds_of(client: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """Returns a partition's first and end offset, once the broker leads it."""

    def bounds() -> tuple[int, int] | None:
        try:
            found = client.get_watermark_offsets(TopicPartition(topic, partition), timeout=HANG_S)
        except KafkaException as error:
            # A broker answers before it has become leader of its partitions.
            if error.args[0].name() not in NOT_YET:
                raise
            return None
        assert found is not None, f"{topic}-{partition}: no answer"
        return int(found[0]), int(found[1])

    found: tuple[int, int] = wait_until(bounds, f"{topic}-{partition} has no leader", every_s=0.1)
    return found


def read_partitions(bootstrap: str, isolation: str) -> dict[tuple[str, int], Partition]:
    """Returns every record of every topic that is not internal."""
    client = consumer(bootstrap, isolation_level=isolation)
    topics = client.list_topics(timeout=HANG_S).topics
    names = [(name, each) for name in sorted(topics) for each in sorted(topics[name].partitions)]
    wanted = [(name, each) for name, each in names if name not in INTERNAL]
    bounds = {key: bounds_of(client, *key) for key in wanted}
    records: dict[tuple[str, int], list[Seen]] = {key: [] for key in wanted}
    client.assign([TopicPartition(*key, bounds[key][0]) for key in wanted])
    ended: set[tuple[str, int]] = set()
    while len(ended) < len(wanted):
        message = client.poll(HANG_S)
        assert message is not None, f"nothing more comes; missing the ends of {set(wanted) - ended}"
        key = (message.topic(), message.partition())
        if message.error():
            assert message.error().name() == "_PARTITION_EOF", message.error()
            ended.add(key)
            continue
        headers = tuple(message.headers() or ())
        seen = Seen(message.offset(), message.timestamp(), message.key(), message.value(), headers)
        records[key].append(seen)
    client.close()
    return {key: Partition(*bounds[key], tuple(records[key])) for key in wanted}


def view(bootstrap: str, groups: Iterable[str]) -> View:
    """Returns the clients' view of the cluster."""
    client = admin(bootstrap)
    topics = [name for name in client.list_topics(timeout=HANG_S).topics if name not in INTERNAL]
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
    configs = {
        resource.name: {
            name: entry.value
            for name, entry in future.result(HANG_S).items()
            if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        }
        for resource, future in client.describe_configs(resources).items()
    }
    return View(
        read_partitions(bootstrap, "read_committed"),
        read_partitions(bootstrap, "read_uncommitted"),
        configs,
        {group: group_offsets(client, group) for group in groups},
    )


def differences(found: View, wanted: View) -> list[str]:
    """Returns the differences between two views, one line each."""
    lines = []
    for name in View._fields:
        ours, theirs = getattr(found, name), getattr(wanted, name)
        for key in sorted(ours.keys() | theirs.keys(), key=str):
            one, other = ours.get(key), theirs.get(key)
            if one == other:
                continue
            if isinstance(one, Partition) and isinstance(other, Partition):
                records = sorted(set(one.records) ^ set(other.records))
                one, other = one[:2], (*other[:2], f"{len(records)} records, the first of them {records[:1]}")
            lines.append(f"{name} {key}: {one} is not {other}")
    return lines


def group_offsets(client: AdminClient, group: str) -> dict[tuple[str, int], tuple[int, str]]:
    """Returns the committed offsets of a group."""
    asked = [ConsumerGroupTopicPartitions(group)]
    found = client.list_consumer_group_offsets(asked)[group].result(HANG_S).topic_partitions
    return {(each.topic, each.partition): (each.offset, each.metadata) for each in found}
