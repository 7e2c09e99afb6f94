"""value.format=registry: both engines find the newest schema of a topic's values in a registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import bowstring
from tests.support.protobuf_messages import person_classes
from tests.support.schema_registry_double import SchemaRegistryDouble, basic, schema_registry

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


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistryDouble]:
    with schema_registry() as double:
        yield double


def read(
    spark: SparkSession, broker: bowstring.Broker, registry: str, engine: str, topic: str, **more: str
) -> DataFrame:
    reader = spark.read.format("bowstring").option("engine", engine).option("subscribe", topic)
    reader = reader.option("kafka.bootstrap.servers", broker.bootstrap_servers)
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
