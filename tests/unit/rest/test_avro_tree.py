"""bowstring.rest.records.avro_tree: Avro's JSON encoding."""

import math
from io import BytesIO

import fastavro
import pytest

from bowstring.rest.records.avro_tree import avro_value


def written(schema, data):
    """What fastavro reads of the bytes; values of unions without their branches."""
    named = {}
    parsed = fastavro.parse_schema(schema, named_schemas=named)
    out = BytesIO()
    fastavro.schemaless_writer(out, parsed, avro_value(parsed, named, data))
    return out.getvalue(), fastavro.schemaless_reader(BytesIO(out.getvalue()), parsed, None)


RECORD = {
    "type": "record",
    "name": "Node",
    "namespace": "n",
    "fields": [
        {"name": "next", "type": ["null", "Node"], "default": None},
        {"name": "raw", "type": {"type": "fixed", "name": "Two", "size": 2}},
        {"name": "by", "type": {"type": "map", "values": ["null", "double"]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def test_trees_become_values():
    leaf = {"raw": "\u00ffA", "by": {"x": {"double": "NaN"}, "y": None}, "at": 0}
    _, found = written(RECORD, {**leaf, "next": {"n.Node": leaf}})
    assert found["next"]["raw"] == b"\xffA" and found["next"]["next"] is None
    assert math.isnan(found["by"]["x"]) and found["by"]["y"] is None and found["at"].year == 1970


@pytest.mark.parametrize(
    ("data", "first"),
    [({"int": 5}, 0), ({"long": 5}, 1), ({"E": "A"}, 2), ({"string": "A"}, 3), ({"bytes": "A"}, 4)],
)
def test_values_go_to_the_branch_that_is_named(data, first):
    union = ["int", "long", {"type": "enum", "name": "E", "symbols": ["A"]}, "string", "bytes"]
    assert written(union, data)[0][0] == first * 2


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ("int", 1 << 31),
        ("int", True),
        ("long", -(1 << 63) - 1),
        ("long", 1.0),
        ("double", "1"),
        ("string", 1),
        ("bytes", "\u0100"),
        ("boolean", 0),
        ("null", 0),
        (["null", "int"], 1),
        (["null", "int"], {"long": 1}),
        (["int"], None),
        ({"type": "array", "items": "int"}, {}),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"),
        ({"type": "fixed", "name": "F", "size": 2}, "A"),
        (RECORD, {"raw": "AA", "by": {}}),
    ],
)
def test_trees_that_do_not_fit(schema, data):
    with pytest.raises(ValueError):
        written(schema, data)
