"""Reading as Arrow from Apache Kafka: real transactions, real compaction, every codec."""

import time
import uuid
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

import bowstring
from bowstring import Admin, Consumer, Producer, TopicPartition
from bowstring.clients.choices import Layout
from bowstring.clients.consumer.range_reader import RangeReader
from bowstring.clients.errors import OffsetOutOfRangeError, UnknownTopicError
from tests.support.target import KafkaBroker
from tests.support.waiting import HANG_S, wait_until

PATIENCE_S = HANG_S


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Apache Kafka with an eager cleaner."""
    settings = {"log.retention.ms": "-1", "log.cleaner.backoff.ms": "100", "log.initial.task.delay.ms": "100"}
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"), settings)
    broker.start()
    yield broker.bootstrap
    broker.stop()


def made(where: str, partitions: int = 1, **configs: str) -> str:
    name = f"a-{uuid.uuid4().hex[:10]}"
    with Admin(where) as admin:
        admin.create_topic(name, partitions, configs={k.replace("_", "."): v for k, v in configs.items()})
        wait_until(lambda: name in admin.topics())
    return name


def values(where: str, topic: str, **options: Any) -> list[bytes]:
    table = bowstring.read(topic, bootstrap_servers=where, columns=["value"], **options)
    found: list[bytes] = table["value"].to_pylist()
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("layout", ["binary", "binary_view"])
def test_what_librdkafka_wrote(kafka: str, codec: str, layout: Layout) -> None:
    topic = made(kafka, 2)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka, "compression.type": codec, "linger.ms": 20}
    )
    for i in range(400):
        headers = [("n", b"%d" % i), ("none", None)] if i % 3 == 0 else None
        key = b"" if i % 2 else None
        producer.produce(topic, b"value %d" % i, key, i % 2, timestamp=1000 + i, headers=headers)
    producer.flush()
    table = bowstring.read(topic, bootstrap_servers=kafka, layout=layout)
    table.to_arrow().validate(full=True)
    assert table["value"].to_pylist() == [b"value %d" % (2 * o + p) for p in range(2) for o in range(200)]
    assert table["key"].to_pylist() == [None] * 200 + [b""] * 200
    assert table["headers"][0].as_py() == [{"key": "n", "value": b"0"}, {"key": "none", "value": None}]
    assert table["timestamp"].cast("int64").to_pylist()[:2] == [1000, 1002]


@pytest.fixture(scope="module")
def transactions(kafka: str) -> tuple[str, list[bytes], int]:
    """A topic with committed and aborted transactions of two producers; its committed values, its end."""
    topic = made(kafka)
    settings = {"bootstrap.servers": kafka, "linger.ms": 0}
    producers = [confluent_kafka.Producer({**settings, "transactional.id": f"{topic}-{i}"}) for i in range(2)]
    for producer in producers:
        producer.init_transactions(PATIENCE_S)
    partition, end, committed = TopicPartition(topic, 0), 0, []
    for number in range(12):
        producer = producers[number % 2]
        producer.begin_transaction()
        batch = [b"%d/%d" % (number, i) for i in range(20)]
        for value in batch:
            producer.produce(topic, value)
        producer.flush()
        if number % 3 == 1:
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
            committed += batch
        deadline = time.monotonic() + PATIENCE_S
        with Consumer(kafka, isolation_level="read_committed") as consumer:
            # A marker comes a moment after the commit: the other producer's records must not come before it.
            while end < (number + 1) * 21 and time.monotonic() < deadline:
                end = consumer.end_offsets([partition])[partition]
    return topic, committed, end


@pytest.mark.parametrize("layout", ["binary", "binary_view"])
def test_read_committed(kafka: str, transactions: tuple[str, list[bytes], int], layout: Layout) -> None:
    topic, committed, end = transactions
    assert end == 12 * 21, "with a marker each"
    assert values(kafka, topic, isolation_level="read_committed", layout=layout) == committed
    assert len(values(kafka, topic, layout=layout)) == 12 * 20
    with Consumer(kafka, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        consumer.assign([(topic, 0)])
        found: list[bytes] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < len(committed) and time.monotonic() < deadline:
            found += consumer.poll_arrow(max_records=7, columns=["value"], layout=layout)["value"].to_pylist()
        assert found == committed
        consumer.poll_arrow(timeout=0.2)
        assert consumer.position((topic, 0)) == end
    with RangeReader(
        kafka,
        topic=topic,
        partition=0,
        start=10,
        end=end - 30,
        isolation_level="read_committed",
        layout=layout,
    ) as reader:
        offsets = [offset for batch in reader for offset in batch["offset"].to_pylist()]
    assert offsets == [o for o in range(10, end - 30) if o % 21 != 20 and o // 21 % 3 != 1]


def test_an_open_transaction_is_where_read_committed_ends(kafka: str) -> None:
    topic = made(kafka)
    with Producer(kafka) as producer:
        producer.send(topic, b"before").result(HANG_S)
    writer = confluent_kafka.Producer({"bootstrap.servers": kafka, "transactional.id": f"{topic}-open"})
    writer.init_transactions(PATIENCE_S)
    writer.begin_transaction()
    writer.produce(topic, b"open")
    writer.flush()
    assert values(kafka, topic, isolation_level="read_committed") == [b"before"]
    assert values(kafka, topic) == [b"before", b"open"]
    writer.abort_transaction(PATIENCE_S)


def test_compaction_leaves_gaps(kafka: str) -> None:
    topic = made(
        kafka,
        cleanup_policy="compact",
        segment_bytes="1048576",
        min_cleanable_dirty_ratio="0.001",
        max_compaction_lag_ms="100",
    )
    with Producer(kafka, batch_size=4096) as producer:
        for i in range(20_000):
            producer.send(topic, b"%0100d" % i, key=b"%d" % (i % 50))
    partition = TopicPartition(topic, 0)

    def fewer() -> list[int] | None:
        found = read_offsets(kafka, topic)
        return found if len(found) < 20_000 else None

    offsets = wait_until(fewer, "compaction did not come", every_s=0.2)
    assert offsets == sorted(set(offsets)) and offsets[-1] == 19_999
    with Consumer(kafka) as consumer:
        assert consumer.end_offsets([partition])[partition] == 20_000
    with RangeReader(kafka, topic=topic, partition=0, start=1, end=19_000, columns=["offset"]) as reader:
        ranged = [offset for batch in reader for offset in batch["offset"].to_pylist()]
    assert set(ranged) <= set(range(1, 19_000)) and len(ranged) < 19_000


def read_offsets(where: str, topic: str) -> list[int]:
    table = bowstring.read(topic, bootstrap_servers=where, columns=["offset"])
    found: list[int] = table["offset"].to_pylist()
    return found


def test_named_errors(kafka: str) -> None:
    topic = made(kafka)
    with pytest.raises(UnknownTopicError, match=r"nowhere"):
        bowstring.read("nowhere", bootstrap_servers=kafka)
    reader = RangeReader(kafka, topic=topic, partition=0, start=50, end=60)
    with reader, pytest.raises(OffsetOutOfRangeError, match=r"offset 50 is not in the log"):
        list(reader)
