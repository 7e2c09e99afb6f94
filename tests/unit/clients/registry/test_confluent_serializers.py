"""What confluent-kafka's serializers write is read here, and what is written here they read; both wire formats."""

import json

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    dual_schema_id_deserializer,
    header_schema_id_serializer,
    prefix_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import bowstring
from tests.support.protobuf_messages import person_classes
from tests.support.schema_registry_double import schema_registry

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "item", "type": ["null", "string"], "default": None},
        ],
    }
)
JSON = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "item": {"type": "string"}},
    }
)
VALUE = {"id": 7, "item": "hat"}
WIRES = {"prefix": prefix_schema_id_serializer, "headers": header_schema_id_serializer}


@pytest.fixture
def registry():
    with schema_registry() as double:
        yield double


def context(headers):
    return SerializationContext("orders", MessageField.VALUE, headers)


def pairs(serializer, deserializer, wire):
    """The configurations of a serializer and a deserializer."""
    return {"schema.id.serializer": WIRES[wire], **serializer}, {
        "schema.id.deserializer": dual_schema_id_deserializer,
        **deserializer,
    }


def as_arrow(headers):
    kind = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
    return pa.array([[{"key": name, "value": value} for name, value in headers]], kind)


def serializers(kind, client, wire):
    writing, reading = pairs({}, {}, wire)
    if kind == "AVRO":
        return AVRO, AvroSerializer(client, AVRO, conf=writing), AvroDeserializer(client, conf=reading)
    if kind == "JSON":
        return (
            JSON,
            JSONSerializer(JSON, client, conf=writing),
            JSONDeserializer(None, schema_registry_client=client, conf=reading),
        )
    _, inner = person_classes()
    writing["use.deprecated.format"] = reading["use.deprecated.format"] = False
    return inner, ProtobufSerializer(inner, client, writing), ProtobufDeserializer(inner, reading, client)


@pytest.mark.parametrize("wire", ["prefix", "headers"])
@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
def test_both_ways(registry, kind, wire):
    client = SchemaRegistryClient({"url": registry.url})
    schema, serialize, deserialize = serializers(kind, client, wire)
    value = VALUE if kind != "PROTOBUF" else schema(id=7, item="hat")
    headers = []
    theirs = serialize(value, context(headers))
    own = bowstring.Registry(registry.url).for_topic("orders", "value")
    if kind == "PROTOBUF" and wire == "headers":
        assert headers[0][1][17:], "the message's indexes are in the header"
    found, errors = own.decode_records(
        pa.array([theirs, None]), pa.concat_arrays([as_arrow(headers), as_arrow([])])
    )
    assert errors is None or kind == "PROTOBUF"
    given = bowstring.Registry(registry.url, schema=schema, wire=wire).for_topic("orders", "value")
    found, errors = given.decode_records(
        pa.array([theirs, None]), pa.concat_arrays([as_arrow(headers), as_arrow([])])
    )
    assert errors is None and found.to_pylist() == [VALUE, None]
    ours = given.encode_value(value)
    header = given.header_of(value)
    assert ours == theirs and ([] if header is None else [header]) == headers
    read = deserialize(ours, context([] if header is None else [header]))
    assert (read if kind != "PROTOBUF" else {"id": read.id, "item": read.item}) == VALUE
    assert len(registry.subjects["orders-value"]) == 1, "both register the same"
