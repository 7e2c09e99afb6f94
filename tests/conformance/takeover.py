"""One data directory that Apache Kafka and Bowstring take over from each other, and what clients see of it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
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

from tests.conformance import peers
from tests.conformance.drivers import CODECS
from tests.conformance.target import BowstringBroker, Broker, free_port

# A client that outlives its broker complains; what matters is asserted.
QUIET = {"log_level": 0}
INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
BIG = 1 << 20
NOT_YET = ("NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PART")


class Seen(NamedTuple):
    """A record as a consumer has it."""

    offset: int
    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Partition(NamedTuple):
    """A partition as a consumer has it: its bounds and every record between."""

    low: int
    high: int
    records: tuple[Seen, ...]


class View(NamedTuple):
    """All that clients can know of a cluster's topics and groups."""

    committed: dict[tuple[str, int], Partition]
    uncommitted: dict[tuple[str, int], Partition]
    configs: dict[str, dict[str, str]]
    offsets: dict[str, dict[tuple[str, int], tuple[int, str]]]


class KafkaOn(Broker):
    """Apache Kafka on a given directory; formatted as `kafka-storage format --standalone` does when it is new.

    Args:
        properties: A server.properties to start with as it is; else one is made of `settings`.
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
        controller = free_port()
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
        java = [*peers.java_command(), "-Xmx512m", "-cp", peers.kafka_classpath()]
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
    """Bowstring on a given directory."""

    def __init__(
        self, directory: Path, data: Path, port: int, settings: dict[str, str] | None = None
    ) -> None:
        super().__init__(directory, settings)
        self.data, self.port = data, port


def hand_over(data: Path, to: str, into: Path) -> Path:
    """Runs `bowstring migrate-dir`; returns the server.properties that it wrote."""
    properties = into / f"{to}.properties"
    options = ["--to", to, "--properties", str(properties), "--controller-port", str(free_port()), "--json"]
    command = [sys.executable, "-m", "bowstring", "migrate-dir", str(data), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["to"] == to
    return properties


# ---------------------------------------------------------------- writing


def admin(bootstrap: str) -> AdminClient:
    """An admin client of its own."""
    return AdminClient({"bootstrap.servers": bootstrap, **QUIET})


def create(bootstrap: str, name: str, partitions: int = 1, **configs: str) -> None:
    """Creates a topic; underscores in config names stand for dots."""
    dotted = {key.replace("_", "."): value for key, value in configs.items()}
    topic = NewTopic(name, partitions, 1, config=dotted)
    client = admin(bootstrap)  # its futures are lost with it
    client.create_topics([topic])[name].result(30)


def producer(bootstrap: str, **settings: Any) -> Producer:
    """A producer; what cannot be delivered in half a minute is an error."""
    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    fixed = {"bootstrap.servers": bootstrap, "linger.ms": 5, "message.timeout.ms": 30_000}
    return Producer({**fixed, **QUIET, **dotted})


def send(client: Producer, topic: str, records: Iterable[dict[str, Any]]) -> list[Message]:
    """Produces records and waits for all of them; returns what was delivered."""
    delivered: list[Message] = []

    def done(error: Any, message: Message) -> None:
        assert error is None, error
        delivered.append(message)

    for record in records:
        client.produce(topic, on_delivery=done, **record)
    assert client.flush(40) == 0
    return delivered


def assorted(tag: str, partitions: int, count: int = 20) -> list[dict[str, Any]]:
    """Records with and without keys, values and headers, with timestamps of their own."""
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
    """Topics of every kind that a broker without a transaction coordinator can have."""
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
    client.delete_records([cut])[cut].result(30)
    create(bootstrap, "dropped", 1)
    client.delete_topics(["dropped"])["dropped"].result(30)


def commit_offsets(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """Commits an offset for partition 0, as a group without members."""
    client = consumer(bootstrap, group)
    client.commit(offsets=[TopicPartition(topic, 0, offset, metadata=f"m{offset}")], asynchronous=False)
    client.close()


def write_transactions(bootstrap: str) -> None:
    """Committed and aborted transactions, one after the other and interleaved."""
    create(bootstrap, "transactions", 1)
    one, two = (producer(bootstrap, transactional_id=f"t{i}") for i in (1, 2))
    for client in (one, two):
        client.init_transactions(30)
    for index, end in enumerate(("commit", "abort", "commit", "abort")):
        one.begin_transaction()
        send(one, "transactions", [{"value": f"one-{index}-{end}-{i}".encode()} for i in range(5)])
        two.begin_transaction()
        send(two, "transactions", [{"value": f"two-{index}-{i}".encode()} for i in range(3)])
        (one.commit_transaction if end == "commit" else one.abort_transaction)(30)
        two.abort_transaction(30)


def transact(bootstrap: str, name: str, end: str) -> Producer:
    """One record in a transaction of `name` that ends in commit, or not at all."""
    client = producer(bootstrap, transactional_id=name)
    client.init_transactions(30)
    client.begin_transaction()
    send(client, "transactions", [{"value": f"{name}-{end}".encode()}])
    if end == "commit":
        client.commit_transaction(30)
    return client


def write_compacted(bootstrap: str) -> None:
    """A compacted topic, and waits until the broker's cleaner has been at it."""
    settings = {"min_cleanable_dirty_ratio": "0.01", "segment_ms": "100", "min_compaction_lag_ms": "0"}
    create(bootstrap, "compacted", 1, cleanup_policy="compact", delete_retention_ms="86400000", **settings)
    client = producer(bootstrap, compression_type="snappy")
    for round in range(6):
        values = [None if (i, round) == (3, 5) else f"{round}-{i}".encode() for i in range(8)]
        send(client, "compacted", [{"key": f"k{i}", "value": value} for i, value in enumerate(values)])
        time.sleep(0.12)  # a segment is closed when its time is over and the next record comes
    deadline = time.monotonic() + 30
    while len(read_partitions(bootstrap, "read_uncommitted")["compacted", 0].records) > 24:
        assert time.monotonic() < deadline, "the cleaner does nothing"
        time.sleep(0.3)


def write_security(bootstrap: str) -> None:
    """An access control entry and a SCRAM credential."""
    client = admin(bootstrap)
    facts = (ResourceType.TOPIC, "secret", ResourcePatternType.PREFIXED, "User:eve", "*")
    rule = AclBinding(*facts, AclOperation.READ, AclPermissionType.DENY)
    client.create_acls([rule])[rule].result(30)
    mechanism = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    credential = UserScramCredentialUpsertion("ada", mechanism, b"hunter2", b"salty")
    client.alter_user_scram_credentials([credential])["ada"].result(30)


def security(bootstrap: str) -> tuple[list[str], int]:
    """The access control entries, and the iterations of ada's credential."""
    client = admin(bootstrap)
    anything = (ResourceType.ANY, None, ResourcePatternType.ANY, None, None)
    every = AclBindingFilter(*anything, AclOperation.ANY, AclPermissionType.ANY)
    rules = sorted(str(rule) for rule in client.describe_acls(every).result(30))
    ada = client.describe_user_scram_credentials(["ada"])["ada"].result(30)
    return rules, ada.scram_credential_infos[0].iterations


def join_new_protocol(bootstrap: str, group: str, topic: str) -> None:
    """A member of a group of the new protocol (KIP-848) reads five records, commits and stays out of touch."""
    client = consumer(bootstrap, group, group_protocol="consumer", auto_offset_reset="earliest")
    client.subscribe([topic])
    for _ in range(5):
        message = client.poll(30)
        assert message is not None and not message.error()
    client.commit(message=message, asynchronous=False)
    client.close()


# ---------------------------------------------------------------- reading


def consumer(bootstrap: str, group: str = "nobody", **settings: Any) -> Consumer:
    """A consumer that commits nothing by itself."""
    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    fixed = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    return Consumer({**fixed, "enable.partition.eof": True, "auto.offset.reset": "error", **QUIET, **dotted})


def bounds_of(client: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """The offsets that a partition begins and ends with, once the broker leads it."""
    deadline = time.monotonic() + 30
    while True:
        try:
            found = client.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        except KafkaException as error:
            # A broker answers before it has taken up what it leads.
            if error.args[0].name() not in NOT_YET or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            assert found is not None, f"{topic}-{partition}: no answer"
            return int(found[0]), int(found[1])


def read_partitions(bootstrap: str, isolation: str) -> dict[tuple[str, int], Partition]:
    """Every record of every topic that is no coordinator's."""
    client = consumer(bootstrap, isolation_level=isolation)
    topics = client.list_topics(timeout=30).topics
    names = [(name, each) for name in sorted(topics) for each in sorted(topics[name].partitions)]
    wanted = [(name, each) for name, each in names if name not in INTERNAL]
    bounds = {key: bounds_of(client, *key) for key in wanted}
    records: dict[tuple[str, int], list[Seen]] = {key: [] for key in wanted}
    client.assign([TopicPartition(*key, bounds[key][0]) for key in wanted])
    ended: set[tuple[str, int]] = set()
    while len(ended) < len(wanted):
        message = client.poll(30)
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
    """What clients see of the cluster."""
    client = admin(bootstrap)
    topics = [name for name in client.list_topics(timeout=30).topics if name not in INTERNAL]
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
    configs = {
        resource.name: {
            name: entry.value
            for name, entry in future.result(30).items()
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
    """What two views do not agree on, one line for each thing."""
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
    """What a group has committed."""
    asked = [ConsumerGroupTopicPartitions(group)]
    found = client.list_consumer_group_offsets(asked)[group].result(30).topic_partitions
    return {(each.topic, each.partition): (each.offset, each.metadata) for each in found}
