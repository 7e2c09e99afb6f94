"""Our clients on Apache Kafka as on Bowstring, and both ways with confluent-kafka and kafka-python."""

import asyncio
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import kafka
import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from bowstring import (
    Admin,
    AuthenticationError,
    Consumer,
    Producer,
    ShareConsumer,
    TlsError,
    TopicPartition,
    aio,
)
from bowstring.cli.cluster_status import collect
from bowstring.clients.admin.scram_users import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from bowstring.clients.choices import Compression
from bowstring.clients.errors import (
    GroupError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    TopicExistsError,
    UnknownTopicError,
)
from bowstring.console.app import create_app
from bowstring.console.options import ConsoleOptions
from bowstring.operations.partition_state import MIN_ISR
from tests.conformance.guard import PASSWORD, Guard, login
from tests.support.certificates import foreign_authority
from tests.support.console_patience import be_patient
from tests.support.target import Broker
from tests.support.topics import made
from tests.support.waiting import HANG_S, wait_until, wait_until_async

CODECS: list[Compression] = ["none", "gzip", "snappy", "lz4", "zstd"]
Row = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]

# Empty and null, every byte, non-ASCII text, a record that fills a batch, an earlier timestamp.
ROWS: list[Row] = [
    (b"key", b"value", (), 1_700_000_000_000),
    (None, b"", (("h", b"1"), ("h", b"2")), 1_700_000_000_007),
    (b"", None, (("empty", b""), ("none", None), ("ünï", "ç".encode())), 1_699_999_999_999),
    (bytes(range(256)), bytes(reversed(range(256))) * 3, (), 0),
    *((b"%d" % i, bytes(300), (), 1_700_000_001_000 + i) for i in range(60)),
]


@pytest.fixture
def topic(where: str) -> Iterator[str]:
    """A topic of one partition."""
    yield made(where, 1)


# ------------------------------------------------------------ writers


def send(where: str, topic: str, partition: int, codec: Compression) -> None:
    with Producer(where, compression=codec) as producer:
        for key, value, headers, timestamp in ROWS:
            producer.send(topic, value, key, headers=headers, timestamp=timestamp, partition=partition)


def send_arrow(where: str, topic: str, partition: int, codec: Compression) -> None:
    pairs = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
    table = pa.table(
        {
            "key": pa.array([row[0] for row in ROWS], pa.binary()),
            "value": pa.array([row[1] for row in ROWS], pa.binary()),
            "headers": pa.array([[{"key": k, "value": v} for k, v in row[2]] for row in ROWS], pairs),
            "timestamp": pa.array([row[3] for row in ROWS], pa.timestamp("ms", "UTC")),
            "partition": pa.array([partition] * len(ROWS), pa.int32()),
        }
    )
    with Producer(where, compression=codec) as producer:
        producer.send_arrow(topic, table).result(HANG_S)


def send_asyncio(where: str, topic: str, partition: int, codec: Compression) -> None:
    async def main() -> None:
        async with aio.Producer(where, compression=codec) as producer:
            sent = [
                producer.send(topic, value, key, headers=headers, timestamp=timestamp, partition=partition)
                for key, value, headers, timestamp in ROWS
            ]
            assert [each.offset for each in await asyncio.gather(*sent)] == list(range(len(ROWS)))

    asyncio.run(main())


def send_confluent(where: str, topic: str, partition: int, codec: Compression) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": where, "compression.type": codec, "linger.ms": 5}
    )
    for key, value, headers, timestamp in ROWS:
        # A timestamp of 0 means now.
        producer.produce(topic, value, key, partition, headers=list(headers), timestamp=timestamp or 1)
    assert producer.flush(HANG_S) == 0


def send_kafka_python(where: str, topic: str, partition: int, codec: Compression) -> None:
    compression = None if codec == "none" else codec
    producer = kafka.KafkaProducer(bootstrap_servers=where, compression_type=compression, linger_ms=5)
    for key, value, headers, timestamp in ROWS:
        # kafka-python cannot send null headers.
        producer.send(topic, value, key, [(k, v or b"") for k, v in headers], partition, timestamp)
    producer.flush(HANG_S)
    producer.close()


WRITERS = [send, send_arrow, send_asyncio, send_confluent, send_kafka_python]

# ------------------------------------------------------------ readers

Read = dict[int, list[Row]]


def poll(where: str, topic: str, partitions: int, count: int) -> Read:
    found: Read = {}
    with Consumer(where, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for(topic))
        while count > 0:
            records = consumer.poll(timeout=HANG_S)
            assert records, f"{count} records are missing"
            for record in records:
                row = (record.key, record.value, record.headers, record.timestamp)
                found.setdefault(record.partition, []).append(row)
            count -= len(records)
    return found


def _take_in(found: Read, batch: pa.RecordBatch) -> None:
    for row in batch.to_pylist():
        headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
        milliseconds = round(row["timestamp"].timestamp() * 1000)
        found.setdefault(row["partition"], []).append((row["key"], row["value"], headers, milliseconds))


def poll_arrow(where: str, topic: str, partitions: int, count: int) -> Read:
    found: Read = {}
    with Consumer(where, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, number) for number in range(partitions)])
        while count > 0:
            batch = consumer.poll_arrow(timeout=HANG_S)
            assert batch.num_rows, f"{count} records are missing"
            _take_in(found, batch)
            count -= batch.num_rows
    return found


def poll_asyncio(where: str, topic: str, partitions: int, count: int) -> Read:
    found: Read = {}

    async def main() -> None:
        async with aio.Consumer(where, auto_offset_reset="earliest") as consumer:
            await consumer.assign(await consumer.partitions_for(topic))
            for _ in range(count):
                record = await asyncio.wait_for(anext(consumer), HANG_S)
                row = (record.key, record.value, record.headers, record.timestamp)
                found.setdefault(record.partition, []).append(row)

    asyncio.run(main())
    return found


def poll_confluent(where: str, topic: str, partitions: int, count: int) -> Read:
    found: Read = {}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": where, "group.id": uuid.uuid4().hex})
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(partitions)])
    while count > 0:
        messages = consumer.consume(count, HANG_S)
        assert messages, f"{count} records are missing"
        for message in messages:
            assert message.error() is None, message.error()
            row = (message.key(), message.value(), tuple(message.headers() or ()), message.timestamp()[1])
            found.setdefault(message.partition(), []).append(row)
        count -= len(messages)
    consumer.close()
    return found


def poll_kafka_python(where: str, topic: str, partitions: int, count: int) -> Read:
    found: Read = {}
    consumer = kafka.KafkaConsumer(bootstrap_servers=where, auto_offset_reset="earliest")
    consumer.assign([kafka.TopicPartition(topic, number) for number in range(partitions)])
    while count > 0:
        by_partition = consumer.poll(timeout_ms=int(HANG_S * 1000))
        assert by_partition, f"{count} records are missing"
        for partition, records in by_partition.items():
            rows = [(each.key, each.value, tuple(each.headers), each.timestamp) for each in records]
            found.setdefault(partition.partition, []).extend(rows)
            count -= len(rows)
    consumer.close()
    return found


READERS = [poll, poll_arrow, poll_asyncio, poll_confluent, poll_kafka_python]


@pytest.fixture(scope="module")
def written(where: str) -> tuple[str, list[tuple[str, str]]]:
    """A topic with one partition per writer and codec; also returns which writer wrote which partition."""
    cases = [(writer, codec) for codec in CODECS for writer in WRITERS]
    topic = made(where, len(cases))
    for partition, (writer, codec) in enumerate(cases):
        writer(where, topic, partition, codec)
    return topic, [(writer.__name__, codec) for writer, codec in cases]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_all_read_what_all_wrote(where: str, written: tuple[str, list[tuple[str, str]]], reader: Any) -> None:
    topic, cases = written
    found = reader(where, topic, len(cases), len(cases) * len(ROWS))
    assert set(found) == set(range(len(cases)))
    for partition, (writer, codec) in enumerate(cases):
        expected = ROWS
        if writer == "send_confluent":
            expected = [(*row[:3], row[3] or 1) for row in ROWS]
        if writer == "send_kafka_python":
            expected = [(*row[:2], tuple((k, v or b"") for k, v in row[2]), row[3]) for row in ROWS]
        assert found[partition] == expected, f"{writer} with {codec}"


# ------------------------------------------------------------ groups, offsets, errors


def test_a_group_of_three_clients_shares_its_partitions(where: str) -> None:
    """Our two consumers and confluent-kafka's, with the range assignor, which all three support."""
    topic, group = made(where, 6), uuid.uuid4().hex
    with Producer(where) as producer:
        for i in range(60):
            producer.send(topic, str(i), partition=i % 6)
    seen: dict[str, set[int]] = {"ours": set(), "asyncio": set(), "confluent": set()}
    over = threading.Event()

    def whole() -> bool:
        shares = list(seen.values())
        return all(len(share) == 2 for share in shares) and len(set.union(*shares)) == 6

    def ours() -> None:
        with Consumer(where, group_id=group, assignors=("range",)) as consumer:
            consumer.subscribe([topic])
            while not over.is_set():
                consumer.poll(timeout=0.05)
                seen["ours"] = {partition.partition for partition in consumer.assignment()}

    async def awaited() -> None:
        async with aio.Consumer(where, group_id=group, assignors=("range",)) as consumer:
            await consumer.subscribe([topic])
            while not over.is_set():
                await consumer.poll(timeout=0.05)
                seen["asyncio"] = {partition.partition for partition in consumer.assignment()}

    def confluent() -> None:
        config = {"bootstrap.servers": where, "group.id": group, "partition.assignment.strategy": "range"}
        consumer = confluent_kafka.Consumer({**config, "heartbeat.interval.ms": 300})
        consumer.subscribe([topic])
        while not over.is_set():
            consumer.poll(0.05)
            seen["confluent"] = {partition.partition for partition in consumer.assignment()}
        consumer.close()

    threads = [threading.Thread(target=each) for each in (ours, confluent, lambda: asyncio.run(awaited()))]
    for thread in threads:
        thread.start()
    wait_until(whole)
    shares = dict(seen)
    over.set()
    for thread in threads:
        thread.join(HANG_S)
    assert all(len(share) == 2 for share in shares.values()), shares
    assert set.union(*shares.values()) == set(range(6))


def test_offsets_stored_by_one_are_the_others(where: str, topic: str) -> None:
    group = uuid.uuid4().hex
    partition = TopicPartition(topic, 0)
    theirs = confluent_kafka.TopicPartition(topic, 0, 11)
    config = {"bootstrap.servers": where, "group.id": group}
    consumer = confluent_kafka.Consumer(config)
    consumer.commit(offsets=[theirs], asynchronous=False)
    with Consumer(config, enable_auto_commit=False) as mine:
        assert mine.committed([partition])[partition].offset == 11  # type: ignore[union-attr]
        mine.commit({partition: 12})
    assert consumer.committed([theirs], HANG_S)[0].offset == 12
    consumer.close()
    with Admin({"bootstrap.servers": where}) as admin:
        assert admin.committed_offsets(group)[partition].offset == 12
        assert admin.group_lag(group)[0].log_end_offset == 0
        admin.alter_offsets(group, {partition: 3})
        admin.delete_offsets(group, [partition])
        assert admin.committed_offsets(group) == {}
        admin.delete_groups([group])
        with pytest.raises(GroupError):
            admin.describe_group(group)


def test_errors_are_the_same_everywhere(where: str) -> None:
    small = made(where, 1, max_message_bytes="1000")
    with (
        Admin(where) as admin,
        Producer(where, allow_auto_create=False, max_block_ms=int(HANG_S * 1000)) as producer,
    ):
        with pytest.raises(TopicExistsError):
            admin.create_topic(small)
        with pytest.raises(UnknownTopicError):
            producer.send("there-is-none", b"v")
    with Producer(where) as producer:
        with pytest.raises(RecordTooLargeError):
            producer.send(small, bytes(5000)).result(HANG_S)
        assert producer.send(small, b"fits").result(HANG_S).offset == 0
        with pytest.raises(RecordTooLargeError):
            producer.send_arrow(small, pa.table({"value": [bytes(5000)]})).result(HANG_S)
    with Consumer(where, auto_offset_reset="none") as consumer:
        consumer.assign([(small, 0)])
        consumer.seek((small, 0), 77)
        with pytest.raises(OffsetOutOfRangeError):
            while True:
                consumer.poll(timeout=0.1)


def test_admin_for_asyncio(where: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with aio.Admin(where) as admin:
            name = f"a-{uuid.uuid4().hex[:8]}"
            await admin.create_topic(name, 2, configs={"retention.ms": "-1"})
            # Kafka answers CreateTopics before its brokers have the topic.

            async def has_partitions(count: int) -> bool:
                topics = await admin.topics()
                return name in topics and len(topics[name].partitions) == count

            await wait_until_async(lambda: has_partitions(2))
            assert (await admin.describe_configs("topic", name))["retention.ms"].value == "-1"
            await admin.alter_configs("topic", name, set={"retention.ms": "5000"})
            await admin.create_partitions({name: 4})
            await wait_until_async(lambda: has_partitions(4))
            brokers = (await admin.describe_cluster()).brokers
            assert set(await admin.describe_log_dirs()) == {broker.id for broker in brokers}
            ends = await admin.end_offsets([TopicPartition(name, i) for i in range(4)])
            assert set(ends.values()) == {0}
            await admin.delete_topics([name])

    asyncio.run(asyncio.wait_for(main(), HANG_S))


def test_status_of_a_cluster(where: str, topic: str) -> None:
    with Producer(where) as producer:
        producer.send(topic, b"x").result(HANG_S)
    partition = TopicPartition(topic, 0)
    with Admin(where, timeout_ms=int(HANG_S * 1000)) as admin:
        assert admin.replica_ends([partition]) == {partition: {1: 1}}
        assert admin.topic_configs([topic], MIN_ISR) == {topic: "1"}
        found = collect(admin).as_json()
    (node,) = found["nodes"]
    assert (node["roles"], node["fenced"], node["quorum"]) == (["broker", "controller"], False, "leader")
    assert found["quorum"]["leader_id"] == node["id"] and found["troubled"] == []


# ------------------------------------------------------------ TLS and SASL


@pytest.fixture
def trust(both: Broker) -> dict[str, str]:
    """Security of clients that trust the listener's certificate."""
    return {"security.protocol": "SASL_SSL", "ssl.ca.location": str(both.directory / "trust.pem")}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_clients_that_log_in(both: Broker, trust: dict[str, str], mechanism: str, topic: str) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512)
    with Admin(both.bootstrap) as admin:
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion("alice", info, PASSWORD)])
        admin.alter_configs("group", f"s-{topic}", set={"share.auto.offset.reset": "earliest"})
        wait_until(lambda: "alice" in admin.describe_user_scram_credentials())
    where = f"localhost:{both.ports['SECURED']}"
    alice = trust | login(mechanism, "alice", PASSWORD)
    with Producer(where, security=alice) as producer:
        for i in range(100):
            producer.send(topic, b"%d" % i)
        producer.flush(HANG_S)
    with Consumer(where, security=alice, group_id=f"g-{topic}", auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        found: list[Any] = []
        while len(found) < 100:
            found += consumer.poll(HANG_S)
        assert [record.value for record in found] == [b"%d" % i for i in range(100)]
    with ShareConsumer(where, security=alice, group_id=f"s-{topic}") as sharer:
        sharer.subscribe(topic)
        assert sharer.poll(HANG_S)[0].value == b"0"

    async def awaited() -> None:
        async with aio.Producer(where, security=alice) as producer:
            assert (await producer.send(topic, b"last")).offset == 100
        async with aio.Admin(where, security=alice) as admin:
            assert topic in await admin.topics()

    asyncio.run(awaited())
    with (
        pytest.raises(AuthenticationError),
        Admin(where, security=trust | login(mechanism, "alice", "no")) as no,
    ):
        no.topics()
    foreign = both.directory / "foreign.pem"
    foreign.write_bytes(foreign_authority().certificate)
    with pytest.raises(TlsError), Admin(where, security=alice | {"ssl.ca.location": str(foreign)}) as no:
        no.topics()


def test_administration_of_security(both: Broker, trust: dict[str, str]) -> None:
    guard = Guard(both.ports["SECURED"], **{name.replace(".", "_"): value for name, value in trust.items()})
    before = guard.view()
    token = guard.add("guarded")
    view = guard.view()
    assert len(view.rules) == len(before.rules) + 2
    assert view.users["guarded"] == [ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)]
    assert view.quotas[frozenset({("user", "guarded"), ("client-id", None)})] == {"producer_byte_rate": 1e6}
    assert view.tokens[token.token_id] == token
    assert (token.owner, token.renewers) == ("User:alice", ("User:guarded",))
    assert guard.lets_in("guarded", token) == (True, True)
    guard.remove("guarded", token)
    assert guard.lets_in("guarded", token) == (False, False)
    after = guard.view()
    assert (after.rules, after.users, after.tokens) == (before.rules, before.users, before.tokens)


def test_the_console_shows_groups_transactions_and_access(
    where: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts that the cluster does not offer say so; no page fails."""
    be_patient(monkeypatch)
    group = f"of-console-{topic}"
    with Admin(where) as admin:
        admin.alter_offsets(group, {TopicPartition(topic, 0): 0})
    app = create_app(ConsoleOptions(bootstrap_servers=where))
    with TestClient(app, base_url="http://localhost:8080") as client:
        for path in ("/share-groups", "/transactions", "/transactions/hanging", "/users", "/acls", "/quotas"):
            assert client.get(path).status_code == 200, path
        assert group in client.get(f"/groups?q={group}").text
        assert f"/topics/{topic}" in client.get(f"/groups/one?name={group}").text
        assert "<h2>Preview</h2>" in client.get(f"/groups/one/reset?name={group}&way=latest").text
