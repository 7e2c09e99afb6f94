"""Batches that become larger than max_decompressed_batch_bytes, met by each reader."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import bowstring
from bowstring.clients.choices import Compression
from bowstring.clients.consumer.local_reader import LocalReader
from bowstring.clients.consumer.range_reader import RangeReader
from bowstring.clients.errors import ConfigError, CorruptBatchError
from tests.support.waiting import HANG_S

QUIET_S = 0.5
CODECS: tuple[Compression, ...] = ("gzip", "snappy", "lz4", "zstd")
BOMB = bytes(900_000)
LIMIT: dict[str, Any] = {"max_decompressed_batch_bytes": 500_000}
# Of a topic with a batch for each: one fetch brings them all.
AROUND = [b"first", b"second", BOMB, b"third", b"fourth"]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with a topic for each codec: one bomb."""
    data = tmp_path_factory.mktemp("bombs") / "data"
    with bowstring.Broker(data_dir=data) as broker:
        for codec in CODECS:
            with bowstring.Producer(broker.bootstrap_servers, compression=codec) as producer:
                producer.send(codec, BOMB)
                producer.flush()
        with bowstring.Producer(broker.bootstrap_servers, compression="zstd") as producer:
            for value in AROUND:
                producer.send("around", value).result(HANG_S)
        yield broker.bootstrap_servers


def polled(servers: str, topic: str, **limit: Any) -> list[bytes | None]:
    with bowstring.Consumer(servers, **limit) as consumer:
        consumer.assign([bowstring.TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        return [record.value for record in consumer.poll(HANG_S)]


def polled_as_columns(servers: str, topic: str, **limit: Any) -> list[bytes | None]:
    with bowstring.Consumer(servers, **limit) as consumer:
        consumer.assign([bowstring.TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        values: list[bytes | None] = consumer.poll_arrow(HANG_S).column("value").to_pylist()
        return values


def in_a_range(servers: str, topic: str, **limit: Any) -> list[bytes | None]:
    with RangeReader(servers, topic=topic, partition=0, start=0, end=1, **limit) as reader:
        return [value for batch in reader for value in batch.column("value").to_pylist()]


def from_files(servers: str, topic: str, **limit: Any) -> list[bytes | None]:
    with LocalReader(servers, topic=topic, partition=0, start=0, end=1, **limit) as reader:
        return [value for batch in reader for value in batch.column("value").to_pylist()]


def shared(servers: str, topic: str, **limit: Any) -> list[bytes | None]:
    group = f"{topic} {len(limit)}"
    with bowstring.Admin(servers) as admin:
        admin.alter_configs("group", group, set={"share.auto.offset.reset": "earliest"})
    with bowstring.ShareConsumer(servers, group_id=group, **limit) as consumer:
        consumer.subscribe(topic)
        return [record.value for record in consumer.poll(HANG_S)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("read", [polled, polled_as_columns, in_a_range, from_files, shared])
def test_a_batch_that_becomes_too_large(
    servers: str, codec: Compression, read: Callable[..., list[bytes | None]]
) -> None:
    with pytest.raises(CorruptBatchError) as refused:
        read(servers, codec, **LIMIT)
    assert f"{codec}-0 from offset 0" in str(refused.value)
    assert (
        f"the batch at offset 0: {codec} records decompress to more than 500000 bytes; send smaller batches, or raise "
        "max_decompressed_batch_bytes"
    ) in str(refused.value)
    assert read(servers, codec) == [BOMB]


Poll = Callable[[Any], list[tuple[int, bytes | None]]]


def records_of(consumer: Any) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in consumer.poll(HANG_S)]


def rows_of(consumer: Any) -> list[tuple[int, bytes | None]]:
    batch = consumer.poll_arrow(HANG_S)
    assert set(batch.column("topic").to_pylist()) == {"around"}
    return list(zip(batch.column("offset").to_pylist(), batch.column("value").to_pylist(), strict=True))


def all_one_by_one(consumer: Any) -> list[tuple[int, bytes | None]]:
    found = iter(consumer)
    return [(record.offset, record.value) for record in (next(found), next(found))]


@pytest.mark.parametrize("poll", [records_of, rows_of, all_one_by_one])
@pytest.mark.parametrize("check_crcs", [True, False])
def test_records_around_a_bomb(servers: str, poll: Poll, check_crcs: bool) -> None:
    with bowstring.Consumer(
        servers, auto_offset_reset="earliest", check_crcs=check_crcs, **LIMIT
    ) as consumer:
        consumer.assign([("around", 0)])
        assert poll(consumer) == [(0, b"first"), (1, b"second")]
        for _ in range(2):
            with pytest.raises(
                CorruptBatchError, match=r"around-0 from offset 2: .*; seek\(\) to 3 to continue"
            ):
                poll(consumer)
            assert consumer.position(("around", 0)) == 2
        consumer.seek(("around", 0), 3)
        assert poll(consumer) == [(3, b"third"), (4, b"fourth")]


@pytest.mark.parametrize("reader", [RangeReader, LocalReader])
def test_a_range_with_a_bomb(servers: str, reader: type[RangeReader | LocalReader]) -> None:
    with reader(servers, topic="around", partition=0, start=0, end=5, **LIMIT) as batches:
        rows = next(batches)
        assert rows.column("value").to_pylist() == [b"first", b"second"]
        assert rows.column("topic").to_pylist() == ["around"] * 2
        with pytest.raises(CorruptBatchError, match=r"around-0 from offset 2: .* (to|at) 3 to continue"):
            next(batches)


@pytest.mark.parametrize("poll", [records_of, rows_of])
def test_shared_records_around_a_bomb(servers: str, poll: Poll) -> None:
    group = f"around {poll.__name__}"
    with bowstring.Admin(servers) as admin:
        admin.alter_configs("group", group, set={"share.auto.offset.reset": "earliest"})
    with bowstring.ShareConsumer(servers, group_id=group, **LIMIT) as consumer:
        consumer.subscribe("around")
        assert poll(consumer) == [(0, b"first"), (1, b"second"), (3, b"third"), (4, b"fourth")]
        with pytest.raises(
            CorruptBatchError, match=r"around-0 from offset 2 to 2: .*the records are rejected"
        ):
            poll(consumer)
    with bowstring.ShareConsumer(servers, group_id=group) as consumer:
        consumer.subscribe("around")
        assert consumer.poll(QUIET_S) == [], "all are accepted or rejected"


@pytest.mark.parametrize("client", [bowstring.Consumer, bowstring.ShareConsumer])
@pytest.mark.parametrize("limit", [0, -1, 1 << 31])
def test_limits_out_of_range(client: type, limit: int) -> None:
    with pytest.raises(ConfigError, match="max_decompressed_batch_bytes"):
        client("localhost:1", group_id="g", max_decompressed_batch_bytes=limit)
