"""Typed values through brokers and back, on Apache Kafka as on Bowstring; confluent-kafka at the other end."""

from __future__ import annotations

import asyncio
import io
import json
import time
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import confluent_kafka
import fastavro
import pyarrow as pa
import pytest

import bowstring
from bowstring import aio
from bowstring.values import ValueDecodeError, ValueFormat
from tests.support import avro_values, protobuf_values
from tests.support.protobuf_messages import M
from tests.support.topics import made
from tests.support.waiting import HANG_S

PATIENCE_S = HANG_S
ROW_COUNT = 120
KEYS = bowstring.Json(pa.schema({"k": pa.int64()}))
ORDERS = bowstring.Json(
    pa.schema(
        {
            "id": pa.int64(),
            "item": pa.string(),
            "at": pa.timestamp("us", "UTC"),
            "price": pa.decimal128(9, 2),
            "lines": pa.list_(pa.struct({"sku": pa.string(), "n": pa.int32()})),
        }
    )
)
_AVRO = fastavro.parse_schema(avro_values.EVERYTHING)


class Case(NamedTuple):
    """A format, what another library wrote in it, how that library reads, and a value that is none."""

    form: ValueFormat
    values: list[bytes]
    read: Callable[[Any], Any]
    bad: bytes


def _order(i: int) -> bytes:
    lines = [{"sku": "é😀\n"[:j], "n": -j} for j in range(i % 4)]
    order = {
        "id": i,
        "item": None if i % 5 == 0 else f"item {i}",
        "at": f"2026-01-31T12:00:{i % 60:02}.000001Z",
    }
    return json.dumps({**order, "price": i / 100, "lines": lines}).encode()


CASES = {
    "json": Case(ORDERS, [_order(i) for i in range(ROW_COUNT)], json.loads, b'{"id":'),
    "avro": Case(
        bowstring.Avro(avro_values.EVERYTHING),
        avro_values.VALUES[:ROW_COUNT],
        lambda value: fastavro.schemaless_reader(io.BytesIO(value), _AVRO),
        b"\x80",
    ),
    "protobuf": Case(bowstring.Protobuf(M), protobuf_values.VALUES[:ROW_COUNT], M.FromString, b"\x00"),
}
# Where bad values and nulls stand among the good ones.
BAD, NULL = (0, 7, ROW_COUNT + 2), (3, 50)


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    """Each format in turn."""
    return CASES[request.param]


def mixed(case: Case) -> list[bytes | None]:
    """The good values with bad ones and nulls among them."""
    values: list[bytes | None] = list(case.values)
    for place in sorted((*BAD, *NULL)):
        values.insert(place, case.bad if place in BAD else None)
    return values


def send_confluent(where: str, topic: str, values: list[bytes | None]) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": where, "compression.type": "lz4", "linger.ms": 5}
    )
    for i, value in enumerate(values):
        producer.produce(topic, value, b'{"k":%d}' % i, 0, headers=[("own", b"%d" % i)])
    assert producer.flush(PATIENCE_S) == 0


def read_confluent(where: str, topic: str, count: int) -> list[confluent_kafka.Message]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": where, "group.id": uuid.uuid4().hex})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[confluent_kafka.Message] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), PATIENCE_S)
        assert messages, f"{count - len(found)} records are missing"
        found += messages
    consumer.close()
    return found


def expected(case: Case) -> list[Any]:
    """Rows of `mixed`; that the structs are right is what tests/unit/values shows."""
    rows = iter(case.form.decode(pa.array(case.values))[0].to_pylist())
    places = range(len(mixed(case)))
    return [None if place in (*BAD, *NULL) else next(rows) for place in places]


def poll(consumer: bowstring.Consumer, count: int, **form: Any) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    deadline = time.monotonic() + PATIENCE_S
    while sum(batch.num_rows for batch in batches) < count:
        assert time.monotonic() < deadline, "records are missing"
        batches.append(consumer.poll_arrow(1, max_records=50, **form))
    return pa.Table.from_batches(batches)


WAYS = [("json", "argument"), ("avro", "producer"), ("protobuf", "asyncio")]


@pytest.mark.parametrize(("name", "way"), WAYS)
def test_others_read_what_we_encode(where: str, name: str, way: str) -> None:
    topic, case = made(where, 1), CASES[name]
    structs, _ = case.form.decode(pa.array(case.values))
    typed = pa.Table.from_struct_array(structs)
    keyed = typed.append_column("k", pa.array(range(ROW_COUNT), pa.int64()))
    if way == "argument":
        with bowstring.Producer(where, compression="zstd") as producer:
            producer.send_arrow(topic, typed, value=case.form).result(PATIENCE_S)
    elif way == "producer":
        with bowstring.Producer(where, value=case.form, key=KEYS) as producer:
            producer.send_arrow(topic, keyed).result(PATIENCE_S)
    else:

        async def main() -> None:
            async with aio.Producer(where, value=case.form, key=KEYS) as producer:
                await producer.send_arrow(topic, keyed.to_reader())

        asyncio.run(main())
    found = read_confluent(where, topic, ROW_COUNT)
    keys = [None if way == "argument" else b'{"k":%d}' % i for i in range(ROW_COUNT)]
    assert [message.key() for message in found] == keys
    if case.form is ORDERS:  # times and decimals may be written in several ways
        again, errors = case.form.decode(pa.array([message.value() for message in found]))
        assert errors is None and again.equals(structs)
        assert [case.read(message.value())["id"] for message in found] == list(range(ROW_COUNT))
    else:
        assert [case.read(message.value()) for message in found] == [*map(case.read, case.values)]


def test_bad_values_have_an_error_beside_them(where: str, case: Case) -> None:
    topic, values = made(where, 1), mixed(case)
    send_confluent(where, topic, values)
    tables = [bowstring.read(topic, bootstrap_servers=where, value=case.form, key=KEYS).to_arrow()]
    group: dict[str, Any] = {"group_id": uuid.uuid4().hex, "auto_offset_reset": "earliest"}
    with bowstring.Consumer(where, **group, value=case.form, key=KEYS) as consumer:
        consumer.subscribe([topic])
        tables.append(poll(consumer, len(values), layout="binary_view"))
    for table in tables:
        table.validate(full=True)
        assert table["offset"].to_pylist() == list(range(len(values)))
        assert table["key"].to_pylist() == [{"k": i} for i in range(len(values))]
        assert table["value"].to_pylist() == expected(case)
        errors = table["value_error"].to_pylist()
        assert [i for i, error in enumerate(errors) if error] == list(BAD)
        assert table["key_error"].null_count == len(values)


def test_bad_values_go_to_a_dead_letter_topic(where: str, case: Case) -> None:
    topic, dead, values = made(where, 1), made(where, 1), mixed(case)
    send_confluent(where, topic, values)
    with bowstring.Producer(where) as producer:
        form = case.form.with_on_error(bowstring.DeadLetter(dead, producer))
        with bowstring.Consumer(where, auto_offset_reset="earliest", value=form) as consumer:
            consumer.assign([(topic, 0)])
            found = poll(consumer, len(values), layout="binary_view")
            assert found["value"].to_pylist() == expected(case)
    for message, place in zip(read_confluent(where, dead, len(BAD)), BAD, strict=True):
        assert (message.key(), message.value()) == (b'{"k":%d}' % place, case.bad)
        own, error, *known = message.headers() or []
        assert own == ("own", b"%d" % place) and error[0] == "__error" and error[1]
        assert known == [("__topic", topic.encode()), ("__partition", b"0"), ("__offset", b"%d" % place)]


def test_nothing_is_skipped_where_a_bad_value_raises(where: str) -> None:
    case = CASES["json"]
    topic, group = made(where, 1), uuid.uuid4().hex
    send_confluent(where, topic, [*case.values[:5], case.bad, *case.values[5:]])
    given: dict[str, Any] = {"group_id": group, "auto_offset_reset": "earliest"}
    with bowstring.Consumer(where, **given, value=case.form.with_on_error("raise")) as consumer:
        consumer.subscribe([topic])
        for _ in range(2):
            with pytest.raises(ValueDecodeError, match="on_error='column' to get null"):
                poll(consumer, ROW_COUNT)
        assert consumer.position((topic, 0)) == 0
    with bowstring.Producer(where) as closed:
        form = case.form.with_on_error(bowstring.DeadLetter("dead", closed))
    with bowstring.Consumer(where, **given, value=form) as consumer:
        consumer.subscribe([topic])
        with pytest.raises(bowstring.ClientError, match="closed"):
            poll(consumer, ROW_COUNT)
    with bowstring.Consumer(where, **given, value=case.form) as consumer:
        consumer.subscribe([topic])
        assert poll(consumer, ROW_COUNT + 1)["offset"].to_pylist() == list(range(ROW_COUNT + 1))
