"""bowstring.clients.registry.json_growth: few bytes that would become much text are refused before they do."""

import json

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

from bowstring.clients.registry.json_growth import avro_growth, check_growth, protobuf_growth

LONG = "n" * 10_000
FLAG = {"type": "record", "name": "R", "fields": [{"name": LONG, "type": "boolean"}]}
NULLS = [{"name": f"{LONG}{at}", "type": "null"} for at in range(9)]


def growth_of(schema):
    named = {}
    return avro_growth(fastavro.parse_schema(json.loads(json.dumps(schema)), named_schemas=named), named)


@pytest.mark.parametrize(
    ("schema", "least"),
    [
        ({"type": "array", "items": FLAG}, 10_000),
        ({"type": "array", "items": {**FLAG, "fields": [*FLAG["fields"], *NULLS]}}, 100_000),
        (["null", {"type": "enum", "name": LONG, "symbols": ["a"]}], 10_000),
        ({"type": "map", "values": {"type": "enum", "name": "E", "symbols": [LONG]}}, 10_000),
    ],
)
def test_long_names_count(schema, least):
    growth = growth_of(schema)
    assert least <= growth < 2 * least
    check_growth(100, growth)
    with pytest.raises(ValueError, match="characters as JSON"):
        check_growth(1 << 20, growth)


def test_schemas_of_people_let_large_values_through():
    fields = [{"name": f"column_{at}", "type": "long"} for at in range(50)]
    tree = {"name": "children", "type": {"type": "array", "items": "Row"}}
    schema = {"type": "record", "name": "Row", "fields": [*fields, tree, {"name": "text", "type": "string"}]}
    check_growth(1 << 20, growth_of(schema))


def test_messages_count_with_their_defaults():
    file = descriptor_pb2.FileDescriptorProto(name="f.proto", syntax="proto3")
    inner = file.message_type.add(name="Inner")
    for number in range(1, 101):
        inner.field.add(name=f"{'n' * 100}{number}", number=number, type=5, label=1)
    outer = file.message_type.add(name="Outer")
    outer.field.add(name="all", number=1, type=11, label=3, type_name=".Inner")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    assert protobuf_growth(pool.FindFileByName("f.proto")) > 5000
