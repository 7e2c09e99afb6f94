"""Producers and consumers with schemas of a registry: both wire formats, schemas that evolve, columns and objects."""

import asyncio
import dataclasses
import json

import pyarrow as pa
import pytest

import bowstring
from bowstring.clients.registry.topic_format import NO_KEY
from tests.support.schema_registry_double import schema_registry
from tests.support.waiting import HANG_S

NEWER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "item", "type": "string"},
            {"name": "count", "type": "int", "default": 7},
        ],
    }
)


@dataclasses.dataclass
class Order:
    id: int
    item: str


@pytest.fixture(scope="module")
def servers():
    with bowstring.Broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def registry():
    with schema_registry() as double:
        yield double


def polled(servers, topic, count, **settings):
    with bowstring.Consumer(servers, auto_offset_reset="earliest", **settings) as consumer:
        consumer.assign([(topic, 0)])
        records = []
        while len(records) < count:
            records += consumer.poll(HANG_S)
        return records


def read(servers, topic, **settings):
    return bowstring.read(topic, bootstrap_servers=servers, **settings).to_arrow().to_pylist()


def produced(servers, topic, url, wire):
    """Five records, the last of a newer schema."""
    text = bowstring.Registry(url, schema='"string"', wire=wire)
    with bowstring.Producer(
        servers, value=bowstring.Registry(url, schema=Order, wire=wire), key=text
    ) as producer:
        producer.send(topic, Order(1, "hat"), "a")
        producer.send(topic, {"id": 2, "item": "cap"}, "b").result()
        producer.send_arrow(
            topic, pa.table({"id": [3, 4], "item": ["bow", "tie"], "key": ["c", "d"]})
        ).result()
    with bowstring.Producer(servers, value=bowstring.Registry(url, schema=NEWER, wire=wire)) as producer:
        producer.send(topic, {"id": 5, "item": "sock", "count": 9}, headers={"h": b"1"}).result()


ITEMS = ["hat", "cap", "bow", "tie", "sock"]
COUNTS = [7, 7, 7, 7, 9]


@pytest.mark.parametrize("wire", ["prefix", "headers"])
def test_records_of_two_schemas(servers, registry, wire):
    topic, url = f"orders-{wire}", registry.url
    produced(servers, topic, url, wire)
    assert registry.subjects == {f"{topic}-value": [1, 3], f"{topic}-key": [2]} or registry.subjects == {
        f"{topic}-value": [2, 3],
        f"{topic}-key": [1],
    }
    form = bowstring.Registry(url)
    own = polled(servers, topic, 5, value=form, key=form)
    assert [record.key for record in own] == ["a", "b", "c", "d", None]
    rows = [{"id": i, "item": item} for i, item in enumerate(ITEMS, 1)]
    assert [record.value for record in own] == [*rows[:4], {**rows[4], "count": 9}]
    names = ["__key_schema_id", "__value_schema_id"] if wire == "headers" else []
    assert [name for name, _ in own[0].headers] == [name for name, _ in own[2].headers] == names
    assert [name for name, _ in own[4].headers] == ["h", *names[1:]]
    given = polled(servers, topic, 5, value=bowstring.Registry(url, schema=Order))
    assert [record.value for record in given] == [Order(i, item) for i, item in enumerate(ITEMS, 1)]
    newest = [{**row, "count": count} for row, count in zip(rows, COUNTS, strict=True)]
    assert [
        record.value for record in polled(servers, topic, 5, value=bowstring.Registry(url, use_latest=True))
    ] == newest
    table = read(servers, topic, columns=["value", "key"], value=form, key=form)
    assert [row["value"] for row in table] == newest and {row["value_error"] for row in table} == {None}
    assert [row["key"] for row in table] == ["a", "b", "c", "d", None]
    assert list(table[0]) == ["value", "value_error", "key", "key_error"]


def test_a_table_is_written_by_the_newest_schema(servers, registry):
    registry.add("stock-value", {"schema": NEWER})
    form = bowstring.Registry(registry.url)
    rows = pa.table({"id": [8], "item": ["scarf"], "count": pa.array([2], pa.int32())})
    assert bowstring.write("stock", rows, value=form, bootstrap_servers=servers) == 1
    assert read(servers, "stock", columns=["value"], value=form)[0]["value"] == rows.to_pylist()[0]
    with (
        bowstring.Producer(servers, value=form) as producer,
        pytest.raises(bowstring.SchemaRegistryError, match="give schema="),
    ):
        producer.send("nothing", {"id": 1})


def test_values_that_no_schema_fits_are_bad(servers, registry):
    url = registry.url
    with bowstring.Producer(servers, value=bowstring.Registry(url, schema=Order)) as producer:
        for value in (Order(1, "hat"), b"plain", b"\0\0\0\0\x63abc", b"\0\0\0\0\1\2", None, b""):
            producer.send("mixed", value)
    form = bowstring.Registry(url)
    rows = read(servers, "mixed", columns=["value"], value=form)
    assert [row["value"] for row in rows] == [{"id": 1, "item": "hat"}, None, None, None, None, None]
    reasons = [row["value_error"] for row in rows]
    assert reasons[0] is reasons[4] is None and reasons[1] == reasons[5] == NO_KEY
    assert "schema 99: it has none" in reasons[2] and "truncated" in reasons[3]
    with bowstring.Consumer(servers, value=form, auto_offset_reset="earliest") as consumer:
        consumer.assign([("mixed", 0)])
        assert [record.value for record in consumer.poll(HANG_S)] == [{"id": 1, "item": "hat"}]
        with pytest.raises(bowstring.UndecodableRecordError, match="neither Confluent's framing"):
            consumer.poll(HANG_S)
    skipped = polled(servers, "mixed", 2, value=form, on_undecodable="skip")
    assert [record.offset for record in skipped] == [0, 4]
    with pytest.raises(bowstring.ValueDecodeError, match="offset 1"):
        read(servers, "mixed", value=bowstring.Registry(url, on_error="raise"))


def test_a_registry_that_is_away_or_refuses_loses_no_record(servers, registry):
    with bowstring.Producer(servers, value=bowstring.Registry(registry.url, schema=Order)) as producer:
        producer.send("kept", Order(1, "hat")).result()
    registry.failure = (503, 50003, "no leader")
    form = bowstring.Registry(registry.url)
    with bowstring.Consumer(servers, value=form, auto_offset_reset="earliest") as consumer:
        consumer.assign([("kept", 0)])
        for _ in range(2):
            with pytest.raises(bowstring.SchemaRegistryError, match="HTTP 503") as caught:
                consumer.poll(HANG_S)
            assert caught.value.status == 503 and caught.value.code == 50003
        with pytest.raises(bowstring.SchemaRegistryError, match="HTTP 503"):
            consumer.poll_arrow(HANG_S)
        assert len(registry.requests) == 3, "a failure is kept for a while"
    registry.failure, registry.login = None, "Bearer t0ken"
    with pytest.raises(bowstring.SchemaRegistryError, match="check the schema registry's settings") as caught:
        polled(servers, "kept", 1, value=bowstring.Registry(registry.url, token="s3cret"))
    assert "s3cret" not in str(caught.value)
    held = bowstring.Registry(registry.url, token="t0ken")
    assert polled(servers, "kept", 1, value=held)[0].value == {"id": 1, "item": "hat"}
    assert "t0ken" not in repr(held)


def test_an_address_where_nothing_listens(servers):
    form = bowstring.Registry("http://127.0.0.1:9", schema=Order)
    with bowstring.Producer(servers, value=form) as producer:
        for _ in range(2):
            with pytest.raises(bowstring.SchemaRegistryError, match="check its address and that it runs"):
                producer.send("nowhere", Order(1, "hat"))


@pytest.mark.parametrize(
    ("settings", "subject"),
    [
        ({}, "events-value"),
        ({"strategy": "record"}, "shop.Order"),
        ({"strategy": "topic_record"}, "events-shop.Order"),
        ({"subject": "mine"}, "mine"),
        ({"subject": lambda topic, field, name: f"{topic}/{field}/{name}"}, "events/value/shop.Order"),
    ],
)
def test_subjects(servers, registry, settings, subject):
    schema = {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "long"}],
    }
    with bowstring.Producer(
        servers, value=bowstring.Registry(registry.url, schema=schema, **settings)
    ) as producer:
        producer.send("events", {"id": 1}).result()
    assert list(registry.subjects) == [subject]


def test_a_schema_that_must_be_registered(servers, registry):
    form = bowstring.Registry(registry.url, schema=NEWER, auto_register=False)
    with bowstring.Producer(servers, value=form) as producer:
        with pytest.raises(bowstring.SchemaRegistryError, match="auto_register=True"):
            producer.send("strict", {"id": 1, "item": "hat", "count": 1})
        registry.add("strict-value", {"schema": NEWER})
        other = bowstring.Registry(registry.url, schema=NEWER, auto_register=False)
    with bowstring.Producer(servers, value=other) as producer:
        producer.send("strict", {"id": 1, "item": "hat", "count": 1}).result()


def test_wrong_arguments():
    for arguments, words in (
        ({"url": "registry:8081"}, "http://registry:8081"),
        ({"url": "http://r", "schema": 5}, "an Avro schema or a JSON Schema"),
        ({"url": "http://r", "strategy": "name"}, "topic_record"),
        ({"url": "https://r", "ca_file": "/none"}, "cannot be used"),
        ({"url": "http://r", "on_error": "skip"}, "DeadLetter"),
    ):
        with pytest.raises((bowstring.ConfigError, bowstring.ValueSchemaError), match=words):
            bowstring.Registry(**arguments)


def test_asyncio(servers, registry):
    async def main():
        form = bowstring.Registry(registry.url, schema=Order, wire="headers")
        async with bowstring.aio.Producer(servers, value=form) as producer:
            sent = [producer.send("async", Order(i, "hat"), b"k") for i in range(5)]
            sent += [producer.send("async", Order(5, "tie"), partition=0)]
            assert [(await each).offset for each in sent] == list(range(6))
            registry.failure = (500, 50001, "store")
            with pytest.raises(bowstring.SchemaRegistryError):
                await producer.send("another", Order(1, "hat"))
            await producer.send("another", b"bytes")
        registry.failure = None
        async with bowstring.aio.Consumer(servers, value=form, auto_offset_reset="earliest") as consumer:
            await consumer.assign([("async", 0)])
            records = []
            while len(records) < 6:
                records += await consumer.poll(HANG_S)
        assert [record.value for record in records] == [*(Order(i, "hat") for i in range(5)), Order(5, "tie")]
        assert [len(record.headers) for record in records] == [1] * 6

    asyncio.run(main())


def test_share_consumers(servers, registry):
    form = bowstring.Registry(registry.url, schema=Order)
    with bowstring.Producer(servers, value=form) as producer:
        producer.send("shared", Order(1, "hat")).result()
    with bowstring.Admin(servers) as admin:
        admin.alter_configs("group", "sharers", set={"share.auto.offset.reset": "earliest"})
    reading = bowstring.Registry(registry.url)
    with bowstring.ShareConsumer(servers, group_id="sharers", value=reading) as consumer:
        consumer.subscribe(["shared"])
        records = []
        while not records:
            records = consumer.poll(HANG_S)
        assert [record.value for record in records] == [{"id": 1, "item": "hat"}]
        with bowstring.Producer(
            servers, value=bowstring.Registry(registry.url, schema=Order, wire="headers")
        ) as producer:
            producer.send("shared", Order(2, "cap")).result()
        batch = consumer.poll_arrow(HANG_S, columns=["value"])
        while not batch.num_rows:
            batch = consumer.poll_arrow(HANG_S, columns=["value"])
        assert batch.to_pylist() == [{"value": {"id": 2, "item": "cap"}, "value_error": None}]
