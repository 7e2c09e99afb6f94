"""Kafka's own command-line classes, run as they are against the broker and over its files."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bowstring.audit.count_table import CountTable
from bowstring.audit.counts_reader import CountsReader, now_ms
from bowstring.audit.jar import jar_path
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from bowstring.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.conformance.drivers import CLIENTS, CODECS, Driver, Session
from tests.support import peers
from tests.support.first_levels import write_first_levels
from tests.support.java_tools import TOOLS, java_tool
from tests.support.secured_nodes import key_files
from tests.support.target import BowstringBroker, Broker, target_class
from tests.support.waiting import wait_until
from tests.support.wire import wait_for_leaders
from tests.support.wire_client import WireClient

CONSOLE_PRODUCER = f"{TOOLS}.ConsoleProducer"
CONSOLE_CONSUMER = f"{TOOLS}.consumer.ConsoleConsumer"
TOPICS = f"{TOOLS}.TopicCommand"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
CONFIGS = "org.apache.kafka.tools.ConfigCommand"
CLIENT_METRICS = f"{TOOLS}.ClientMetricsCommand"
ALL_GROUPS = f"{TOOLS}.GroupsCommand"
SHARE_GROUPS = f"{TOOLS}.consumer.group.ShareGroupCommand"
FEATURES = f"{TOOLS}.FeatureCommand"


@pytest.fixture
def at(bootstrap: str) -> list[str]:
    """The option every tool takes."""
    return ["--bootstrap-server", bootstrap]


def test_kafka_configs_sets_quotas(at: list[str]) -> None:
    quotas = (
        "producer_byte_rate=1024,consumer_byte_rate=2048.0,request_percentage=25.5,controller_mutation_rate=3"
    )
    for entity in (
        ["--entity-type", "clients", "--entity-name", "tool"],
        ["--entity-type", "users", "--entity-name", "alice", "--entity-type", "clients", "--entity-default"],
    ):
        java_tool(CONFIGS, *at, "--alter", *entity, "--add-config", quotas)
    described = java_tool(CONFIGS, *at, "--describe", "--entity-type", "clients")
    assert re.search(r"Quota configs for client-id 'tool' are ", described)
    assert "request_percentage=25.5" in described
    java_tool(CONFIGS, *at, "--alter", "--ip", "127.0.0.9", "--add-config", "connection_creation_rate=50")
    assert "connection_creation_rate=50.0" in java_tool(CONFIGS, *at, "--describe", "--entity-type", "ips")
    java_tool(
        CONFIGS,
        *at,
        "--alter",
        "--client",
        "tool",
        "--delete-config",
        "producer_byte_rate,request_percentage",
    )
    described = java_tool(CONFIGS, *at, "--describe", "--client", "tool")
    assert "consumer_byte_rate=2048.0" in described
    assert "producer_byte_rate" not in described


def test_kafka_topics(at: list[str], topic_name: str) -> None:
    create = ["--create", "--topic", topic_name, "--partitions", "3", "--replication-factor", "1"]
    assert f"Created topic {topic_name}" in java_tool(TOPICS, *at, *create, "--config", "retention.ms=12345")
    assert topic_name in java_tool(TOPICS, *at, "--list").split()
    described = java_tool(TOPICS, *at, "--describe", "--topic", topic_name)
    assert "PartitionCount: 3" in described
    assert "retention.ms=12345" in described
    assert len(re.findall(r"Partition: \d\tLeader: \d+\tReplicas: \d+\tIsr: \d+", described)) == 3
    java_tool(TOPICS, *at, "--alter", "--topic", topic_name, "--partitions", "4")
    assert "PartitionCount: 4" in java_tool(TOPICS, *at, "--describe", "--topic", topic_name)
    java_tool(TOPICS, *at, "--delete", "--topic", topic_name)


def test_kafka_configs(at: list[str], make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    entity = ["--entity-type", "topics", "--entity-name", topic]
    java_tool(
        CONFIGS, *at, "--alter", *entity, "--add-config", "retention.ms=4242,cleanup.policy=[compact,delete]"
    )
    described = java_tool(CONFIGS, *at, "--describe", *entity)
    assert "retention.ms=4242" in described
    assert "cleanup.policy=compact,delete" in described
    java_tool(CONFIGS, *at, "--alter", *entity, "--delete-config", "retention.ms")
    assert "retention.ms" not in java_tool(CONFIGS, *at, "--describe", *entity)
    broker = ["--entity-type", "brokers", "--entity-default"]
    java_tool(CONFIGS, *at, "--alter", *broker, "--add-config", "log.cleaner.threads=2")
    assert "log.cleaner.threads=2" in java_tool(CONFIGS, *at, "--describe", *broker)
    java_tool(CONFIGS, *at, "--alter", *broker, "--delete-config", "log.cleaner.threads")


def test_kafka_topics_shows_no_config_that_kafka_does_not_have(at: list[str], topic_name: str) -> None:
    java_tool(TOPICS, *at, "--create", "--topic", topic_name, "--config", "retention.ms=12345")
    described = java_tool(TOPICS, *at, "--describe", "--topic", topic_name)
    assert "bowstring" not in described
    entity = ["--entity-type", "topics", "--entity-name", topic_name]
    assert "bowstring" not in java_tool(CONFIGS, *at, "--describe", *entity, "--all")
    java_tool(TOPICS, *at, "--delete", "--topic", topic_name)


def test_kafka_configs_of_groups(at: list[str], topic_name: str) -> None:
    group = ["--entity-type", "groups", "--entity-name", topic_name]
    assert "doesn't exist and doesn't have dynamic config" in java_tool(CONFIGS, *at, "--describe", *group)
    defaults = java_tool(CONFIGS, *at, "--describe", *group, "--all")
    assert "consumer.session.timeout.ms=45000" in defaults
    java_tool(CONFIGS, *at, "--alter", *group, "--add-config", "consumer.session.timeout.ms=50000")
    described = java_tool(CONFIGS, *at, "--describe", *group)
    assert "consumer.session.timeout.ms=50000" in described
    assert "DYNAMIC_GROUP_CONFIG" in described
    assert topic_name in java_tool(CONFIGS, *at, "--describe", "--entity-type", "groups")
    java_tool(CONFIGS, *at, "--alter", *group, "--delete-config", "consumer.session.timeout.ms")
    assert topic_name not in java_tool(CONFIGS, *at, "--describe", "--entity-type", "groups")


def test_kafka_client_metrics(at: list[str], topic_name: str) -> None:
    name = ["--name", topic_name]
    wanted = ["--metrics", "org.apache.kafka.producer.", "--interval", "5000", "--match", "client_id=a.*"]
    assert "Altered client metrics config" in java_tool(CLIENT_METRICS, *at, "--alter", *name, *wanted)
    assert topic_name in java_tool(CLIENT_METRICS, *at, "--list").split()
    described = java_tool(CLIENT_METRICS, *at, "--describe", *name)
    assert "interval.ms=5000" in described and "match=client_id=a.*" in described
    entity = ["--entity-type", "client-metrics", "--entity-name", topic_name]
    java_tool(CONFIGS, *at, "--alter", *entity, "--add-config", "interval.ms=7000")
    assert "interval.ms=7000" in java_tool(CONFIGS, *at, "--describe", *entity)
    assert "Deleted client metrics config" in java_tool(CLIENT_METRICS, *at, "--delete", *name)
    assert topic_name not in java_tool(CLIENT_METRICS, *at, "--list").split()


def test_kafka_groups(at: list[str], make_topic: Callable[..., str], topic_name: str) -> None:
    topic = make_topic()
    java_tool(CONSOLE_PRODUCER, *at, "--topic", topic, text="1\n")
    reading = ["--topic", topic, "--from-beginning", "--max-messages", "1", "--group", topic_name]
    java_tool(CONSOLE_CONSUMER, *at, *reading)
    rows = [line.split() for line in java_tool(ALL_GROUPS, *at, "--list").splitlines()]
    assert [topic_name, "Classic", "consumer"] in rows
    assert topic_name not in java_tool(ALL_GROUPS, *at, "--list", "--share")


def test_console_producer_and_consumer(at: list[str], make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    keyed = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=:"]
    lines = [f"key{i}:value {i}" for i in range(50)]
    written = "\n".join(lines) + "\n"
    java_tool(CONSOLE_PRODUCER, *at, "--topic", topic, "--compression-codec", "zstd", *keyed, text=written)
    shown = ["--formatter-property", "print.key=true", "--formatter-property", "key.separator=:"]
    reading = ["--topic", topic, "--from-beginning", "--max-messages", "50", "--timeout-ms", "20000"]
    assert java_tool(CONSOLE_CONSUMER, *at, *reading, *shown).splitlines() == lines


def test_consumer_groups(at: list[str], make_topic: Callable[..., str], topic_name: str) -> None:
    topic, group = make_topic(), f"group-{topic_name}"
    java_tool(CONSOLE_PRODUCER, *at, "--topic", topic, text="".join(f"{i}\n" for i in range(10)))
    reading = ["--topic", topic, "--from-beginning", "--max-messages", "6", "--timeout-ms", "20000"]
    java_tool(CONSOLE_CONSUMER, *at, *reading, "--group", group)
    assert group in java_tool(GROUPS, *at, "--list").split()
    described = java_tool(GROUPS, *at, "--describe", "--group", group)
    # GROUP TOPIC PARTITION LEADER-EPOCH CURRENT-OFFSET LOG-END-OFFSET LAG
    (row,) = [line.split() for line in described.splitlines() if line.startswith(group)]
    assert (row[1], row[2], row[-6:-3]) == (topic, "0", ["6", "10", "4"]), described
    reset = ["--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute"]
    java_tool(GROUPS, *at, *reset)
    again = java_tool(CONSOLE_CONSUMER, *at, "--topic", topic, "--group", group, "--max-messages", "10")
    assert again.split() == [str(i) for i in range(10)]
    java_tool(GROUPS, *at, "--delete", "--group", group)
    assert group not in java_tool(GROUPS, *at, "--list").split()


class ShareMember:
    """A member of a share group that only sends heartbeats."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.client = WireClient(int(port), host)
        self.group, self.topic, self.epoch = group, topic, 0
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        wait_until(lambda: self.client.ask(request).coordinators[0].error_code == 0)

    def beat(self, epoch: int | None = None) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id="member",
            member_epoch=self.epoch if epoch is None else epoch,
            subscribed_topic_names=[self.topic],
        )
        answer: ShareGroupHeartbeatResponse = self.client.ask(request, 1)
        self.epoch = answer.member_epoch
        return answer

    def has_partitions(self) -> bool:
        answer = self.beat()
        return bool(answer.assignment and answer.assignment.topic_partitions)


def test_share_groups(at: list[str], make_topic: Callable[..., str], topic_name: str, bootstrap: str) -> None:
    topic, group = make_topic(), f"group-{topic_name}"
    java_tool(CONSOLE_PRODUCER, *at, "--topic", topic, text="".join(f"{i}\n" for i in range(10)))
    member = ShareMember(bootstrap, group, topic)
    wait_until(member.has_partitions)
    of_group = ["--group", group]

    def row(*options: str) -> list[str]:
        printed = java_tool(SHARE_GROUPS, *at, *options)
        rows = [line.split() for line in printed.splitlines() if line.startswith(group)]
        assert len(rows) == 1, printed
        return rows[0]

    assert row("--list") == [group]
    assert row("--list", "--state") == [group, "Stable"]
    # GROUP COORDINATOR (ID) STATE #MEMBERS
    assert row("--describe", *of_group, "--state")[-2:] == ["Stable", "1"]
    # GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS ASSIGNMENT
    described = row("--describe", *of_group, "--members")
    assert (described[1], described[-2:]) == ("member", ["1", f"{topic}:0"])
    # GROUP TOPIC PARTITION START-OFFSET LAG
    assert row("--describe", *of_group)[1:] == [topic, "0", "-", "-"]
    member.beat(-1)
    member.client.close()
    reset = ["--reset-offsets", *of_group, "--topic", topic, "--to-earliest", "--execute"]
    assert row(*reset)[1:] == [topic, "0", "0"]
    assert row("--describe", *of_group, "--offsets", "--verbose")[1:] == [topic, "0", "0", "0", "10"]
    java_tool(SHARE_GROUPS, *at, "--delete-offsets", *of_group, "--topic", topic)
    assert "has no offset information" in java_tool(SHARE_GROUPS, *at, "--describe", *of_group)
    java_tool(SHARE_GROUPS, *at, "--delete", *of_group)
    assert group not in java_tool(SHARE_GROUPS, *at, "--list").split()


def test_offsets_records_and_log_dirs(at: list[str], make_topic: Callable[..., str], tmp_path: Path) -> None:
    topic = make_topic(2)
    java_tool(CONSOLE_PRODUCER, *at, "--topic", topic, text="".join(f"{i}\n" for i in range(20)))
    latest = java_tool(f"{TOOLS}.GetOffsetShell", *at, "--topic", topic).split()
    assert sum(int(line.rsplit(":", 1)[1]) for line in latest) == 20
    where = max(latest, key=lambda line: int(line.rsplit(":", 1)[1]))
    partition = where.split(":")[1]
    request = tmp_path / "delete.json"
    request.write_text(
        f'{{"version": 1, "partitions": [{{"topic": "{topic}", "partition": {partition}, "offset": 3}}]}}'
    )
    deleted = java_tool(f"{TOOLS}.DeleteRecordsCommand", *at, "--offset-json-file", str(request))
    assert "low_watermark: 3" in deleted
    earliest = java_tool(f"{TOOLS}.GetOffsetShell", *at, "--topic", topic, "--time", "-2").split()
    assert f"{topic}:{partition}:3" in earliest
    described = java_tool(f"{TOOLS}.LogDirsCommand", *at, "--describe", "--topic-list", topic)
    assert f'"partition":"{topic}-{partition}"' in described
    versions = java_tool(f"{TOOLS}.BrokerApiVersionsCommand", *at)
    assert re.search(r"Produce\(0\): 0 to 1[3-9]", versions), versions
    assert re.search(r"Fetch\(1\): 4 to 1[89]", versions), versions


def test_performance_tools(at: list[str], make_topic: Callable[..., str], bootstrap: str) -> None:
    topic = make_topic(2)
    load = ["--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "-1"]
    produced = java_tool(f"{TOOLS}.ProducerPerformance", *load, *at)
    assert "20000 records sent" in produced
    consumed = java_tool(f"{TOOLS}.ConsumerPerformance", *at, "--topic", topic, "--num-records", "20000")
    assert consumed.splitlines()[-1].split(", ")[4] == "20000", consumed
    latency = java_tool(
        f"{TOOLS}.EndToEndLatency", *at, "--topic", make_topic(), "--num-records", "200",
        "--producer-acks", "all", "--record-size", "100",
    )  # fmt: skip
    assert re.search(r"Percentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+", latency), latency


def test_verifiable_producer_and_consumer(
    at: list[str], make_topic: Callable[..., str], topic_name: str
) -> None:
    topic = make_topic()
    produced = java_tool(f"{TOOLS}.VerifiableProducer", *at, "--topic", topic, "--max-messages", "500")
    assert '"acked":500' in produced.replace(" ", ""), produced[-500:]
    group = ["--group-id", topic_name, "--max-messages", "500"]
    consumed = java_tool(f"{TOOLS}.VerifiableConsumer", *at, "--topic", topic, *group)
    counted = re.findall(r'"name":"records_consumed".*?"count":(\d+)', consumed)
    assert sum(map(int, counted)) == 500, consumed[-500:]


def test_kafka_features_of_an_old_data_directory(tmp_path: Path) -> None:
    """A broker whose data directory an old release made gets the features of this one."""
    write_first_levels(tmp_path / "broker" / "data", {"metadata.version": 20})
    broker = BowstringBroker(tmp_path / "broker")
    broker.start()
    at = ["--bootstrap-server", broker.bootstrap]

    def levels() -> dict[str, str]:
        described = java_tool(FEATURES, *at, "describe")
        return dict(re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)\s", described))

    try:
        old = levels()
        assert (old["metadata.version"], old["group.version"]) == ("3.8-IV0", "0")
        upgraded = java_tool(FEATURES, *at, "upgrade", "--release-version", "4.3")
        assert "group.version was upgraded to 1." in upgraded
        new = levels()
        assert new["metadata.version"] == "4.3-IV0"
        assert {name: level for name, level in new.items() if name != "metadata.version"} == {
            **dict.fromkeys(("group.version", "kraft.version", "share.version", "streams.version"), "1"),
            "eligible.leader.replicas.version": "1",
            "transaction.version": "2",
        }
        lower = ["downgrade", "--feature", "transaction.version=1", "--dry-run"]
        assert "transaction.version can be downgraded to 1." in java_tool(FEATURES, *at, *lower)
        assert "was disabled" in java_tool(FEATURES, *at, "disable", "--feature", "streams.version")
        broker.stop()
        broker.start()
        assert levels() == new | {"streams.version": "0"}
    finally:
        broker.stop()


def test_dump_log_segments_reads_our_files(own_broker: Broker, drivers: Callable[[str], Driver]) -> None:
    sessions = {name: Session(drivers(name), own_broker.bootstrap) for name in CLIENTS}
    java = sessions["java"]
    java.call("create_topic", topic="mixed", partitions=1, configs={"segment.bytes": str(1 << 20)})
    stamped = {"message.timestamp.type": "LogAppendTime", "segment.bytes": str(1 << 20)}
    java.call("create_topic", topic="stamped", partitions=1, configs=stamped)
    for topic in ("mixed", "stamped"):
        wait_for_leaders(own_broker.bootstrap, topic, 1)
        for client in sessions.values():
            for codec in CODECS:
                records = [{"partition": 0, "key": b"k", "value": b"v" * 500} for _ in range(20)]
                client.produce(topic, records, compression=codec)
        java.flood(topic, 1, 20000, size=200)
    total = 20 * len(CODECS) * len(CLIENTS) + 20000
    assert java.call("bounds", topic="mixed", partition=0)["latest"] == total
    assert own_broker.stop() in (0, 143)
    for topic in ("mixed", "stamped"):
        directory = own_broker.data / f"{topic}-0"
        logs, indexes = sorted(directory.glob("*.log")), sorted(directory.glob("*.*index"))
        assert len(logs) > 1, "the topic rolled"
        files = ",".join(map(str, logs))
        dumped = java_tool(f"{TOOLS}.DumpLogSegments", "--deep-iteration", "--files", files)
        assert dumped.count("| offset: ") == total
        assert dumped.count("isvalid: true") == dumped.count("baseOffset: ")
        assert f"lastOffset: {total - 1} " in dumped
        times = "LogAppendTime" if topic == "stamped" else "CreateTime"
        assert f"{times}: " in dumped
        checked = java_tool(
            f"{TOOLS}.DumpLogSegments", "--index-sanity-check", "--files", ",".join(map(str, indexes))
        )
        complaints = [line for line in checked.splitlines() if "Found" in line or "Mismatch" in line]
        assert not complaints, complaints
        verified = java_tool(
            f"{TOOLS}.DumpLogSegments", "--verify-index-only", "--files", ",".join(map(str, indexes))
        )
        complaints = [line for line in verified.splitlines() if "Found" in line or "Mismatch" in line]
        assert not complaints, complaints


def test_kafka_configs_of_users_clients_and_addresses(at: list[str], topic_name: str) -> None:
    """Quotas; the names of entities are unlike any other, so that parallel tests do not mix."""

    def described(*entity: str) -> str:
        return java_tool(CONFIGS, *at, "--describe", *entity)

    user = ["--entity-type", "users", "--entity-name", topic_name]
    client = ["--entity-type", "clients", "--entity-name", topic_name]
    address = ["--entity-type", "ips", "--entity-name", "127.0.0.99"]
    java_tool(CONFIGS, *at, "--alter", *user, "--add-config", "producer_byte_rate=1024,request_percentage=50")
    java_tool(CONFIGS, *at, "--alter", *user, *client, "--add-config", "consumer_byte_rate=2048")
    java_tool(CONFIGS, *at, "--alter", *client, "--add-config", "controller_mutation_rate=10")
    java_tool(CONFIGS, *at, "--alter", *address, "--add-config", "connection_creation_rate=7")
    assert f"Quota configs for user-principal '{topic_name}' are " in described(*user)
    assert "producer_byte_rate=1024.0" in described(*user) and "request_percentage=50.0" in described(*user)
    assert "consumer_byte_rate=2048.0" in described(*user, *client)
    assert "controller_mutation_rate=10.0" in described(*client)
    assert "connection_creation_rate=7.0" in described(*address)
    java_tool(CONFIGS, *at, "--alter", *user, "--delete-config", "producer_byte_rate,request_percentage")
    java_tool(CONFIGS, *at, "--alter", *user, *client, "--delete-config", "consumer_byte_rate")
    java_tool(CONFIGS, *at, "--alter", *client, "--delete-config", "controller_mutation_rate")
    java_tool(CONFIGS, *at, "--alter", *address, "--delete-config", "connection_creation_rate")
    assert topic_name not in described("--entity-type", "users") + described("--entity-type", "clients")
    assert "127.0.0.99" not in described("--entity-type", "ips")


PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
# `admin` may do everything, and logs in through TLS.
GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",  # who the controller listener lets in
    "delegation.token.secret.key": "known to all brokers",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.guarded.plain.sasl.jaas.config": (
        f'{PLAIN_MODULE} required user_admin="admin-secret" user_alice="alice-secret";'
    ),
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The options of tools for a broker with an authorizer behind TLS, as the user `admin`."""
    folder = tmp_path_factory.mktemp("guarded")
    broker = target_class()(folder / "broker", GUARDED | key_files(folder), listeners={"GUARDED": "SASL_SSL"})
    broker.start()
    client = folder / "client.properties"
    login = f'{PLAIN_MODULE} required username="admin" password="admin-secret";'
    client.write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={folder / 'trust.pem'}\n",
        encoding="utf-8",
    )
    yield ["--bootstrap-server", f"{broker.host}:{broker.ports['GUARDED']}", "--command-config", str(client)]
    broker.kill()


def test_kafka_acls_and_scram_users(guarded: list[str]) -> None:
    def acls(*arguments: str) -> str:
        return java_tool(f"{TOOLS}.AclCommand", *guarded, *arguments)

    alice = ["--allow-principal", "User:alice"]
    acls("--add", *alice, "--producer", "--topic", "orders", "--transactional-id", "t", "--idempotent")
    acls(
        "--add",
        *alice,
        "--consumer",
        "--topic",
        "audit-",
        "--group",
        "g",
        "--resource-pattern-type",
        "prefixed",
    )
    acls(
        "--add",
        "--deny-principal",
        "User:*",
        "--deny-host",
        "10.0.0.1",
        "--operation",
        "Delete",
        "--topic",
        "*",
    )
    listed = acls("--list", "--topic", "orders")
    assert "resourceType=TOPIC, name=orders, patternType=LITERAL" in listed, listed
    for operation in ("WRITE", "DESCRIBE", "CREATE"):
        assert f"(principal=User:alice, host=*, operation={operation}, permissionType=ALLOW)" in listed
    matching = acls("--list", "--topic", "audit-1", "--resource-pattern-type", "match")
    assert "name=audit-, patternType=PREFIXED" in matching and "permissionType=DENY" in matching, matching
    assert "operation=IDEMPOTENT_WRITE" in acls("--list", "--cluster")
    of_alice = acls("--list", "--principal", "User:alice")
    assert "name=orders" in of_alice and "permissionType=DENY" not in of_alice, of_alice
    acls("--remove", "--force", *alice, "--operation", "Write", "--topic", "orders")
    assert "operation=WRITE" not in acls("--list", "--topic", "orders")
    acls("--remove", "--force", "--topic", "orders")
    assert "name=orders" not in acls("--list")

    user = ["--entity-type", "users", "--entity-name", "bob"]
    scram = "SCRAM-SHA-256=[iterations=8192,password=bob-secret],SCRAM-SHA-512=[password=bob-secret]"
    for each in scram.split("],"):  # a request changes one credential of a user
        java_tool(CONFIGS, *guarded, "--alter", *user, "--add-config", each.removesuffix("]") + "]")
    described = java_tool(CONFIGS, *guarded, "--describe", *user)
    assert "SCRAM-SHA-256=iterations=8192" in described and "SCRAM-SHA-512=iterations=4096" in described
    java_tool(CONFIGS, *guarded, "--alter", *user, "--delete-config", "SCRAM-SHA-256")
    java_tool(CONFIGS, *guarded, "--alter", *user, "--add-config", "producer_byte_rate=1024")
    described = java_tool(CONFIGS, *guarded, "--describe", "--entity-type", "users")
    assert "Quota configs for user-principal 'bob' are producer_byte_rate=1024.0" in described
    assert "SCRAM credential configs for user-principal 'bob' are SCRAM-SHA-512=iterations=4096" in described
    java_tool(CONFIGS, *guarded, "--alter", *user, "--delete-config", "producer_byte_rate")
    java_tool(CONFIGS, *guarded, "--alter", *user, "--delete-config", "SCRAM-SHA-512")
    assert "bob" not in java_tool(CONFIGS, *guarded, "--describe", "--entity-type", "users")


@pytest.mark.parametrize(
    ("entity", "shown", "name"),
    [
        (["--user-defaults"], "the default user-principal", "consumer_byte_rate"),
        (["--client-defaults"], "the default client-id", "request_percentage"),
        (["--user-defaults", "--client-defaults"], "the default user-principal, the default client-id", ""),
        (["--user", "bob", "--client-defaults"], "user-principal 'bob', the default client-id", ""),
        (["--ip-defaults"], "the default ip", "connection_creation_rate"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else None,
)
def test_kafka_configs_of_defaults(guarded: list[str], entity: list[str], shown: str, name: str) -> None:
    name = name or "producer_byte_rate"
    java_tool(CONFIGS, *guarded, "--alter", *entity, "--add-config", f"{name}=7")
    described = java_tool(CONFIGS, *guarded, "--describe", *entity)
    assert f"Quota configs for {shown} are {name}=7.0" in described
    java_tool(CONFIGS, *guarded, "--alter", *entity, "--delete-config", name)
    assert name not in java_tool(CONFIGS, *guarded, "--describe", *entity)


def test_kafka_delegation_tokens(guarded: list[str]) -> None:
    def tokens(*arguments: str) -> str:
        return java_tool(f"{TOOLS}.DelegationTokenCommand", *guarded, *arguments)

    created = tokens("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:alice")
    (id,) = re.findall(r"tokenId : (\S+)", created)
    (row,) = [line.split() for line in created.splitlines() if line.startswith(id)]
    assert row[2:5] == ["User:admin", "User:admin", "[User:alice]"], created
    hmac = ["--hmac", row[1]]
    assert "Completed renew operation" in tokens("--renew", "--renew-time-period", "-1", *hmac)
    assert "Total number of tokens : 1" in tokens("--describe", "--owner-principal", "User:admin")
    assert "Completed expire operation" in tokens("--expire", "--expiry-time-period", "-1", *hmac)
    of_admin = ("--describe", "--owner-principal", "User:admin")
    wait_until(lambda: "Total number of tokens : 0" in tokens(*of_admin), "the token is still there")
    of_alice = ("--owner-principal", "User:alice")
    created = tokens("--create", "--max-life-time-period", "60000", *of_alice)
    (row,) = [line.split() for line in created.splitlines() if "User:alice" in line]
    assert row[2:4] == ["User:alice", "User:admin"], created
    wait_until(lambda: row[0] in tokens("--describe", *of_alice), "the token of alice is missing")


def test_java_interceptors_count_for_the_audit(at: list[str], bootstrap: str, tmp_path: Path) -> None:
    libraries = Path(peers.kafka_classpath()).parent
    jar = jar_path(libraries, tmp_path / "audit.jar")
    assert jar_path(target=jar) == jar  # is built once
    settings = f"audit.tier=java\naudit.topic=java-counts\naudit.bootstrap.servers={bootstrap}\n"
    files = {}
    for role in ("Producer", "Consumer"):
        files[role] = tmp_path / f"{role}.properties"
        files[role].write_text(f"interceptor.classes=bowstring.audit.Counting{role}Interceptor\n{settings}")
    topic = ["--topic", "java-audited"]
    sends = [*topic, "--command-config", str(files["Producer"])]
    java_tool(CONSOLE_PRODUCER, *at, *sends, text="a\nb\nc\n", jar=jar)
    reads = [*topic, "--from-beginning", "--max-messages", "3", "--group", "java-readers"]
    reads += ["--command-config", str(files["Consumer"])]
    assert java_tool(CONSOLE_CONSUMER, *at, *reads, jar=jar).split() == ["a", "b", "c"]
    table = CountTable()
    with CountsReader([bootstrap], "java-counts", table) as reader:
        reader.read_all()
    assert reader.undecodable == 0
    found: dict[str, int] = {}
    for row in table.rows(now_ms()):
        found[str(row.stage)] = found.get(str(row.stage), 0) + row.records
    assert found == {"java": 3, "java/java-readers": 3}
