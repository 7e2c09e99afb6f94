"""value.format=registry: both engines find the newest schema of a topic's values in a registry."""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import bowstring
from bowstring.values.protobuf_schema import descriptor_of
from tests.support.protobuf_messages import M, first_of_its_file, person_classes, wrapped_class
from tests.support.schema_registry_double import SchemaRegistryDouble, basic, schema_registry
from tests.support.waiting import HANG_S

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STOCK = {"type": "record", "name": "Stock", "namespace": "shop", "fields": [{"name": "count", "type": "int"}]}
OLDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "int"}, {"name": "stock", "type": "shop.Stock"}],
}
NEWER = OLDER | {
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "stock", "type": "shop.Stock"},
        {"name": "note", "type": "string", "default": "none"},
    ]
}
MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistryDouble]:
    with schema_registry() as double:
        yield double


def read(
    spark: SparkSession, broker: bowstring.Broker, registry: str, engine: str, topic: str, **more: str
) -> DataFrame:
    reader = spark.read.format("bowstring").option("engine", engine).option("subscribe", topic)
    reader = reader.option("kafka.bootstrap.servers", broker.bootstrap_servers)
    if registry:
        reader = reader.option("value.format", "registry").option("value.registry", registry)
    return reader.options(**more).load()


@pytest.mark.parametrize("engine", ["auto", "python"])
def test_avro_of_two_versions(
    spark: SparkSession, broker: bowstring.Broker, registry: SchemaRegistryDouble, engine: str
) -> None:
    topic = f"registered-{engine}"
    registry.add("stock", {"schema": json.dumps(STOCK)})
    for schema, value in ((OLDER, {"id": 1}), (NEWER, {"id": 2, "note": "new"})):
        form = bowstring.Registry(registry.url, schema=schema, references=[("shop.Stock", "stock", 1)])
        with bowstring.Producer(broker.bootstrap_servers, value=form) as producer:
            producer.send(topic, {**value, "stock": {"count": 3}}, partition=0).result()
            producer.send(topic, b"plain", partition=0).result()
    registry.login = basic("ann", "s3cret:@")
    address = registry.url.replace("//", "//ann:s3cret%3A%40@")
    try:
        rows = read(spark, broker, address, engine, topic).orderBy("offset").collect()
    finally:
        registry.login = None
    assert [row.value.asDict(True) if row.value else None for row in rows] == [
        {"id": 1, "stock": {"count": 3}, "note": "none"},
        None,
        {"id": 2, "stock": {"count": 3}, "note": "new"},
        None,
    ]
    assert [row._error is None for row in rows] == [True, False, True, False]
    with pytest.raises(Exception, match="refuses the user"):
        registry.login = "none"
        try:
            read(spark, broker, registry.url, engine, topic)
        finally:
            registry.login = None


def test_answers_are_kept_for_their_login(
    spark: SparkSession, broker: bowstring.Broker, registry: SchemaRegistryDouble
) -> None:
    """That there is no schema of an id is kept, too, for a short time."""
    topic, missing = "kept-answers", 99_999
    known = registry.add("kept", {"schema": json.dumps(STOCK)})
    with bowstring.Producer(broker.bootstrap_servers) as producer:
        for schema_id in (known, missing, missing, missing):
            producer.send(topic, b"\0" + schema_id.to_bytes(4, "big") + b"\6", partition=0).result()

    def counts(address: str) -> list[Any]:
        more = {"value.format": "avro", "value.framing": "confluent", "value.schema": json.dumps(STOCK)}
        # One task reads the ranges one after the other, each with a decoder of its own.
        more |= {"value.schemas": address, "maxRecordsPerPartition": "1"}
        frame = read(spark, broker, "", "auto", topic, **more).coalesce(1)
        return [row.value and row.value["count"] for row in frame.orderBy("offset").collect()]

    registry.login = basic("ann", "secret")
    try:
        assert counts(registry.url.replace("//", "//ann:secret@")) == [3, None, None, None]
        assert registry.requests.count(f"GET /schemas/ids/{missing}") == 1
        with pytest.raises(Exception, match="refuses the user"):
            counts(registry.url)
    finally:
        registry.login = None


@pytest.mark.parametrize("engine", ["auto", "python"])
def test_json_and_protobuf(
    spark: SparkSession, broker: bowstring.Broker, registry: SchemaRegistryDouble, engine: str
) -> None:
    document = {"type": "object", "properties": {"id": {"type": "integer"}, "item": {"type": "string"}}}
    customer, _ = person_classes()
    for kind, schema, value in (
        ("json", document, {"id": 1, "item": "hat"}),
        ("protobuf", customer, {"name": "Ann"}),
    ):
        topic = f"registered-{kind}-{engine}"
        form = bowstring.Registry(registry.url, schema=schema, subject=f"{kind} values")
        with bowstring.Producer(broker.bootstrap_servers, value=form) as producer:
            producer.send(topic, value).result()
        more = {"value.subject": f"{kind} values", "value.mode": "flatten"}
        row = read(spark, broker, registry.url, engine, topic, **more).select(*value).collect()[0]
        assert row.asDict() == value


@pytest.mark.parametrize("engine", ["auto", "python"])
def test_headers_name_the_schemas(
    spark: SparkSession, broker: bowstring.Broker, registry: SchemaRegistryDouble, engine: str
) -> None:
    """Also where some values begin with an id, and others have neither."""
    customer, _ = person_classes()
    topic = f"headed-{engine}"
    with bowstring.Producer(broker.bootstrap_servers) as producer:
        for wire, fields in (
            ("headers", {"id": 1}),
            ("prefix", {"id": 2}),
            ("headers", {"id": 3, "note": "x"}),
        ):
            schema = STOCK | {"fields": [{"name": "id", "type": "long"}]}
            if "note" in fields:
                schema["fields"] = [*schema["fields"], {"name": "note", "type": "string", "default": "none"}]  # type: ignore[misc]
            form = bowstring.Registry(registry.url, schema=schema, wire=wire)
            bound = form.for_topic(topic, "value")
            header = bound.header_of(fields)
            value = bound.encode_value(fields)
            producer.send(topic, value, partition=0, headers=[header] if header else None).result()
        producer.send(topic, b"bare", headers=[("other", b"x")], partition=0).result()
        unknown = [("__value_schema_id", b"\1" + bytes(15) + b"\xff")]
        producer.send(topic, b"\2", headers=unknown, partition=0).result()
    rows = read(spark, broker, registry.url, engine, topic).orderBy("offset").collect()
    found = [row.value.asDict() if row.value else None for row in rows]
    assert found == [{"id": 1, "note": "none"}, {"id": 2, "note": "none"}, {"id": 3, "note": "x"}, None, None]
    assert [row._error is None for row in rows] == [True, True, True, False, False]

    topic = f"headed-protobuf-{engine}"
    form = bowstring.Registry(registry.url, schema=customer, wire="headers")
    with bowstring.Producer(broker.bootstrap_servers, value=form) as producer:
        producer.send(topic, {"name": "Ann"}).result()
    assert read(spark, broker, registry.url, engine, topic).select("value.name").collect() == [("Ann",)]


@pytest.mark.parametrize("engine", ["auto", "python"])
def test_schemas_that_refer_to_others(
    spark: SparkSession, broker: bowstring.Broker, registry: SchemaRegistryDouble, engine: str
) -> None:
    item = {"type": "object", "properties": {"sku": {"$ref": "#/definitions/sku"}}}
    item["definitions"] = {"sku": {"type": "string"}}
    registry.add("item", {"schemaType": "JSON", "schema": json.dumps(item)})
    order = {"type": "object", "properties": {"id": {"type": "integer"}, "item": {"$ref": "item.json"}}}
    order["properties"]["sku"] = {"$ref": "item.json#/definitions/sku"}  # type: ignore[index]
    topic = f"referring-{engine}"
    form = bowstring.Registry(registry.url, schema=order, references=[("item.json", "item", 1)])
    value = {"id": 1, "item": {"sku": "hat"}, "sku": "cap"}
    with bowstring.Producer(broker.bootstrap_servers, value=form) as producer:
        producer.send(topic, value).result()
    row = read(spark, broker, registry.url, engine, topic).collect()[0]
    assert (row.value.asDict(True), row._error) == (value, None)

    wrapped = wrapped_class()
    topic = f"wrapped-{engine}"
    form = bowstring.Registry(registry.url, schema=wrapped)
    with bowstring.Producer(broker.bootstrap_servers, value=form) as producer:
        for amount in (None, 0, 7):
            producer.send(topic, {"amount": amount, "title": "t", "at": MOMENT}, partition=0).result()
    rows = read(spark, broker, registry.url, engine, topic).orderBy("offset").collect()
    assert [row.value.asDict() | {"error": row._error} for row in rows] == [
        {"amount": amount, "title": "t", "at": MOMENT.replace(tzinfo=None), "error": None}
        for amount in (None, 0, 7)
    ]


SOLD = {
    "type": "record",
    "name": "Sold",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {
            "name": "size",
            "type": {"type": "record", "name": "Size", "fields": [{"name": "w", "type": "float"}]},
        },
        {"name": "choice", "type": ["string", "null", "long"]},
        {"name": "raw", "type": {"type": "fixed", "name": "Four", "size": 4}},
        {"name": "ok", "type": "boolean"},
    ],
}
ROWS = """
    SELECT cast(id as string) key, if(id = 3, null, named_struct(
        'ok', id = 1, 'more', 'left out', 'id', cast(id as int) - 2,
        'note', if(id = 1, null, concat('ü', id)), 'at', timestamp '2026-01-02 03:04:05.678 UTC',
        'day', date '1969-12-30', 'price', cast(-1.50 + id as decimal(10, 1)),
        'tags', if(id = 0, array(), array('a', '')), 'counts', map('k', cast(id as int)),
        'kind', if(id = 1, 'A', 'B'), 'size', struct(cast(0.5 as float) w),
        'choice', named_struct('member0', if(id = 1, 'text', null), 'member1', if(id = 2, id, null)),
        'raw', unhex('00ff0102'))) value
    FROM range(4)"""


def write(frame: DataFrame, servers: str, registry: str, engine: str, topic: str, **more: str) -> None:
    writer = frame.coalesce(1).write.format("bowstring").option("engine", engine).option("topic", topic)
    writer = writer.option("kafka.bootstrap.servers", servers).option("value.format", "registry")
    writer.option("value.registry", registry).options(**more).mode("append").save()


def written(servers: str, topic: str) -> list[tuple[bytes | None, list[tuple[str, bytes | None]]]]:
    """Values and headers."""
    with bowstring.Consumer(servers, auto_offset_reset="earliest") as consumer:
        partition = bowstring.TopicPartition(topic, 0)
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        found: list[bowstring.Record] = []
        while len(found) < end:
            found += consumer.poll(HANG_S)
    return [(each.value, list(each.headers or ())) for each in found]


def same_as_ours(
    frame: DataFrame, servers: str, engine: str, topic: str, form: bowstring.Registry, **more: str
) -> None:
    """Compares what the sink writes with what the client's format makes of the same columns."""
    write(frame, servers, str(form.client.address), engine, topic, **more)
    # Without the null at the end, which PySpark cannot convert where fields are not nullable.
    values = frame.where("value is not null").toArrow().column("value").combine_chunks()
    bound = form.for_topic(topic, "value")
    header = bound.prepare().header
    names = [] if header is None else [("__value_schema_id", header)]
    expected: list[Any] = [(value, names) for value in bound.encode(values).to_pylist()]
    assert written(servers, topic) == [*expected, (None, [])]


@pytest.mark.parametrize("wire", ["prefix", "headers"])
@pytest.mark.parametrize("engine", ["auto", "python"])
def test_a_sink_writes_avro_as_clients_do(
    spark: SparkSession, broker: bowstring.Broker, registry: SchemaRegistryDouble, engine: str, wire: Any
) -> None:
    topic, servers = f"sold-{wire}-{engine}", broker.bootstrap_servers
    form = bowstring.Registry(registry.url, schema=SOLD, wire=wire)
    more = {"value.schema": json.dumps(SOLD), "value.wire": wire}
    same_as_ours(spark.sql(ROWS), servers, engine, topic, form, **more)
    rows = read(spark, broker, registry.url, engine, topic).orderBy("offset").collect()
    assert [row._error for row in rows] == [None] * 4
    assert [None if row.value is None else row.value.id for row in rows] == [-2, -1, 0, None]
    # Without a schema, the newest of the subject.
    again = spark.sql(ROWS).where("key = '1'")
    write(again, servers, registry.url, engine, topic, **{"value.wire": wire})
    assert written(servers, topic)[-1] == written(servers, topic)[1]


BOUGHT = {
    "title": "Bought",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "text": {"type": ["null", "string"]},
        "real": {"type": "number"},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "raw": {"type": "string", "contentEncoding": "base64"},
        "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "number"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "gone": {"type": "string"},
    },
}
JSON_ROWS = """
    SELECT if(id = 39, null, named_struct(
        'id', id - 5, 'text', if(id % 3 = 0, null, concat('q"\\\\/\n\t\u0001ü€', id)),
        'real', case id when 1 then 0.1D when 2 then 1e300D when 3 then -0.0D when 4 then 123456789.125D
            when 5 then 1e-7D when 6 then double('nan') when 7 then double('-inf') when 8 then 5e-324D
            when 9 then 9007199254740993D when 10 then 1/3D when 11 then 1e16D when 12 then 123456.7891234D
            else sin(id) * pow(10, id - 20) end,
        'at', timestamp_micros(id * id * id * 1000037 - if(id % 2 = 0, 1, 200000000000)),
        'day', date_add(date '1970-01-01', cast(id * 999 - 9999 as int)), 'raw', cast(concat('ab', id) as binary),
        'list', if(id = 4, array(), array(named_struct('n', cast(id as float) / 3), null)),
        'map', map('k', true, 'l', null), 'other', 1)) value
    FROM range(40)"""


@pytest.mark.parametrize("engine", ["auto", "python"])
def test_a_sink_writes_json_as_clients_do(
    spark: SparkSession, broker: bowstring.Broker, registry: SchemaRegistryDouble, engine: str
) -> None:
    form = bowstring.Registry(registry.url, schema=BOUGHT, strategy="record")
    more = {"value.schema": json.dumps(BOUGHT), "value.strategy": "record"}
    topic = f"bought-{engine}"
    same_as_ours(spark.sql(JSON_ROWS), broker.bootstrap_servers, engine, topic, form, **more)
    assert "Bought" in registry.subjects


MESSAGES = """
    SELECT if(id = 9, null, named_struct(
        {scalars}, {lists}, 'e', if(id % 2 = 0, 'RED', 'BLUE'),
        'inner', named_struct('x', cast(id as int), 's', array('a', ''), 'big', -id),
        'inners', array(named_struct('x', 0), named_struct('x', 5)),
        'c1', if(id = 1, '', null), 'c3', if(id = 2, 0, null),
        'mp', map('', 0, 'k', cast(id as int)))) value
    FROM range(10)"""


def messages() -> str:
    """Rows for the message M: zeros and limits of every type."""
    limits = {1: "-1.5D", 2: "cast(0.25 as float)", 3: "-9223372036854775808", 4: "18446744073709551615BD"}
    limits |= {5: "-2147483648", 6: "1BD", 7: "4294967295", 8: "true", 9: "'ü'", 12: "unhex('00ff')"}
    limits |= {13: "4294967295", 15: "-1", 16: "-1", 17: "-2147483648", 18: "9223372036854775807"}
    zeros = {1: "0D", 2: "cast(0 as float)", 4: "0BD", 6: "0BD", 8: "false", 9: "''", 12: "unhex('')"}

    def zero(kind: int) -> str:
        return zeros.get(kind, "0")

    chosen = "case id when 0 then {} when 1 then null else {} end"
    scalars = [f"'f{kind}', " + chosen.format(zero(kind), limits[kind]) for kind in limits]
    lists = [
        f"'r{kind}', if(id = 0, array(), array({zero(kind)}, {limits[kind]}))" for kind in (1, 3, 7, 8, 9, 17)
    ]
    return MESSAGES.format(
        scalars=", ".join(scalars), lists=", ".join([*lists, "'r14', array('GREEN', 'RED')"])
    )


@pytest.mark.parametrize("wire", ["prefix", "headers"])
@pytest.mark.parametrize("engine", ["auto", "python"])
def test_a_sink_writes_protobuf_as_clients_do(
    spark: SparkSession, broker: bowstring.Broker, registry: SchemaRegistryDouble, engine: str, wire: Any
) -> None:
    """By the newest schema of the subject."""
    file = first_of_its_file(M)
    registry.add("m", {"schemaType": "PROTOBUF", "schema": base64.b64encode(file).decode()})
    form = bowstring.Registry(registry.url, subject="m", wire=wire)
    more = {"value.subject": "m", "value.wire": wire}
    topic = f"messages-{wire}-{engine}"
    same_as_ours(spark.sql(messages()), broker.bootstrap_servers, engine, topic, form, **more)


SALE = """
// message No { }
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
option java_package = "message Neither {";
message Sale {
  int64 id = 1;
  string note = 2;
  google.protobuf.Timestamp at = 3;
  repeated string tags = 4;
  Size size = 5;
  message Size { float w = 1; }
}
message Other { int32 x = 1; }
"""
BUYER = {"type": "record", "name": "Buyer", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
SALES = """
    SELECT if(id = 2, null, struct(id)) key, if(id = 3, null, named_struct(
        'id', id - 1, 'note', concat('n', id), 'at', timestamp '2026-01-02 03:04:05 UTC',
        'tags', array('a', ''), 'size', struct(cast(0.5 as float) w))) value
    FROM range(4)"""


@pytest.fixture(scope="module")
def own_registry() -> Iterator[str]:
    """The address of Bowstring's own registry, which parses .proto texts."""
    with bowstring.Broker(registry=True) as running:
        yield str(running.registry_url)


@pytest.mark.parametrize("wire", ["prefix", "headers"])
@pytest.mark.parametrize("engine", ["auto", "python"])
def test_a_sink_writes_keys_and_given_protobuf(
    spark: SparkSession,
    broker: bowstring.Broker,
    own_registry: str,
    engine: str,
    wire: Any,
    tmp_path: Path,
) -> None:
    """Keys of Avro use the registry of values; a .proto text or its file is registered."""
    topic = f"sales-{wire}-{engine}"
    file = tmp_path / "sale.proto"
    file.write_text(SALE)
    more = {"value.schema": SALE if wire == "prefix" else str(file), "value.strategy": "topic_record"}
    more |= {"value.wire": wire, "key.wire": wire, "key.format": "registry", "key.schema": json.dumps(BUYER)}
    frame = spark.sql(SALES)
    write(frame, broker.bootstrap_servers, own_registry, engine, topic, **more)

    table = frame.where("key is not null and value is not null").toArrow()
    keys = bowstring.Registry(own_registry, schema=BUYER, wire=wire)
    values = bowstring.Registry(own_registry, schema=SALE, wire=wire, strategy="topic_record")
    expected: list[Any] = []
    columns, headers = [], []
    for field, form in (("key", keys), ("value", values)):
        bound = form.for_topic(topic, field)
        columns.append(bound.encode(table.column(field).combine_chunks()).to_pylist())
        header = bound.prepare().header
        headers.append([] if header is None else [(f"__{field}_schema_id", header)])
    expected = [(key, value, headers[0] + headers[1]) for key, value in zip(*columns, strict=True)]
    with bowstring.Consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        found: list[Any] = []
        while len(found) < 4:
            found += [(each.key, each.value, list(each.headers or ())) for each in consumer.poll(HANG_S)]
    assert found[:2] == expected
    assert [(key is None, value is None) for key, value, _ in found[2:]] == [(True, False), (False, True)]
    assert [each for _, _, each in found[2:]] == [headers[1], headers[0]]
    subjects = values.client.subjects()
    assert f"{topic}-key" in subjects and f"{topic}-shop.Sale" in subjects
    read_again = read(spark, broker, own_registry, engine, topic, **{"value.subject": f"{topic}-shop.Sale"})
    assert [row.id for row in read_again.orderBy("offset").limit(2).select("value.id").collect()] == [-1, 0]


@pytest.mark.parametrize("engine", ["auto", "python"])
def test_a_sink_writes_a_message_of_a_set_of_descriptors(
    spark: SparkSession, broker: bowstring.Broker, own_registry: str, engine: str, tmp_path: Path
) -> None:
    """The files that its file imports are registered before it."""
    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet()
    size = files.file.add(name=f"{engine}/size.proto", package="shop", syntax="proto3")
    size.message_type.add(name="Size").field.add(name="w", number=1, type=5, label=1)
    box = files.file.add(name=f"{engine}/box.proto", package="shop.box", syntax="proto3")
    box.dependency.append(size.name)
    box.message_type.add(name="Other").field.add(name="x", number=1, type=5, label=1)
    outer = box.message_type.add(name="Outer")
    outer.field.add(name="y", number=1, type=5, label=1)
    inner = outer.nested_type.add(name="Inner")
    inner.field.add(name="id", number=1, type=3, label=1)
    inner.field.add(name="size", number=2, type=11, label=1, type_name=".shop.Size")
    path = tmp_path / "box.desc"
    path.write_bytes(files.SerializeToString())
    more = {"value.schema": str(path), "value.message": "shop.box.Outer.Inner"}
    topic = f"boxes-{engine}"
    frame = spark.sql("""
        SELECT if(id = 3, null, named_struct('id', id - 1, 'size', struct(cast(id as int) w))) value
        FROM range(4)""")
    message = descriptor_of((path.read_bytes(), "shop.box.Outer.Inner"))
    write(frame, broker.bootstrap_servers, own_registry, engine, topic, **more)
    form = bowstring.Registry(own_registry, schema=message, auto_register=False)
    values = frame.where("value is not null").toArrow().column("value").combine_chunks()
    expected: list[Any] = [(each, []) for each in form.for_topic(topic, "value").encode(values).to_pylist()]
    assert written(broker.bootstrap_servers, topic) == [*expected, (None, [])]
    assert form.client.versions(size.name) == [1]
    with pytest.raises(Exception, match=r"value\.message needs value\.schema"):
        write(frame, broker.bootstrap_servers, own_registry, engine, topic, **{"value.message": "shop.Size"})


@pytest.mark.parametrize("engine", ["auto", "python"])
def test_a_sink_that_cannot_write(
    spark: SparkSession, broker: bowstring.Broker, registry: SchemaRegistryDouble, engine: str
) -> None:
    frame = spark.sql(ROWS)
    schema = {"value.schema": json.dumps(SOLD)}
    registry.login = basic("ann", "s3cret:@")
    user = {"value.registry.user": "ann", "value.registry.password": "s3cret:@"}
    try:
        for topic, more, words in (
            ("unsold", {}, "refuses the user"),
            ("unsold", {**schema, **user, "value.autoRegister": "false"}, "register it first"),
            ("unsold", user, "unsold-value"),
            ("unsold", {**schema, **user, "value.strategy": "best"}, "value.strategy"),
            ("unsold", {**schema, **user, "value.framing": "none"}, "value.framing"),
            ("unsold", {**schema, **user, "key.format": "registry", "key.wire": "best"}, "key.wire"),
            ("unsold", {**schema, **user, "key.format": "registry", "key.framing": "none"}, "key.framing"),
        ):
            with pytest.raises(Exception, match=words):
                write(frame, broker.bootstrap_servers, registry.url, engine, topic, **more)
        topic = f"unsold-{engine}"
        null = spark.sql("SELECT named_struct('id', cast(null as long)) value")
        with pytest.raises(Exception, match="id: null, which the schema does not allow"):
            write(null, broker.bootstrap_servers, registry.url, engine, topic, **schema, **user)
        registry.login = "Bearer t0ken"
        token = {"value.registry.token": "t0ken"}
        write(frame, broker.bootstrap_servers, registry.url, engine, topic, **schema, **token)
        assert len(read(spark, broker, registry.url, engine, topic, **token).collect()) == 4
        registry.login = basic("ann", "s3cret:@")
        named = {**schema, **user, "value.strategy": "topic_record"}
        write(frame, broker.bootstrap_servers, registry.url, engine, topic, **named)
    finally:
        registry.login = None
    assert f"{topic}-Sold" in registry.subjects


@pytest.mark.parametrize("engine", ["auto", "python"])
def test_what_makes_no_sense(
    spark: SparkSession, broker: bowstring.Broker, registry: SchemaRegistryDouble, engine: str
) -> None:
    for topic, more, words in (
        ("none", {}, "none-value"),
        ("a,b", {}, "needs value.subject"),
        ("a", {"value.schema": "id int"}, "value.schema is not for value.format=registry"),
        ("a", {"value.registry": "registry:8081"}, "http://registry:8081"),
    ):
        with pytest.raises(Exception, match=words):
            read(spark, broker, registry.url, engine, topic, **more)
