import json

import pytest

from bowstring.schemas.avro import parse
from bowstring.schemas.resolved_reference import ResolvedReference


def field(of, name="f", **more):
    return {"name": name, "type": of, **more}


def normal(schema, *references):
    found = [ResolvedReference(str(n), "s", 1, each) for n, each in enumerate(references)]
    return parse(json.dumps(schema), found).normalized().canonical


def normal_default(of, default):
    schema = {"type": "record", "name": "R", "fields": [field(of, default=default)]}
    written = normal(schema).removeprefix('{"type":"record","name":"R","fields":[{"name":"f","type":')
    _, _, text = written.rpartition('"default":')
    return text.removesuffix("}]}")


# Each text is what Confluent's normalization makes of the schema, with Avro 1.12.
@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (
            {
                "type": "error",
                "name": "a.E",
                "doc": "",
                "fields": [field("int", doc="", z=1, b=[{"y": 1, "x": 2}])],
            },
            '{"type":"record","name":"E","namespace":"a","fields":'
            '[{"name":"f","type":"int","doc":"","b":[{"x":2,"y":1}],"z":1}]}',
        ),
        (
            {"type": "fixed", "name": "F", "size": 4, "aliases": ["z.B", "A"], "doc": "d", "z": 1, "b": 2},
            '{"type":"fixed","name":"F","doc":"d","size":4,"b":2,"z":1,"aliases":["A","z.B"]}',
        ),
        (
            {"type": "bytes", "scale": 2, "a": 1, "precision": 8, "logicalType": "decimal"},
            '{"type":"bytes","logicalType":"decimal","precision":8,"scale":2,"a":1}',
        ),
        (
            {"type": "bytes", "scale": 0, "a": 1, "precision": 8, "logicalType": "decimal"},
            '{"type":"bytes","logicalType":"decimal","precision":8,"a":1,"scale":0}',
        ),
        (
            {"type": "int", "a": 1, "precision": 8, "logicalType": "decimal"},
            '{"type":"int","a":1,"logicalType":"decimal","precision":8}',
        ),
        (
            {"type": "long", "a": 1, "Z": 2, "logicalType": "timestamp-millis"},
            '{"type":"long","logicalType":"timestamp-millis","Z":2,"a":1}',
        ),
        (
            {"type": "map", "values": {"type": "array", "items": "int", "b": None, "a": True}, "z": 0.001},
            '{"type":"map","values":{"type":"array","items":"int","a":true,"b":null},"z":0.001}',
        ),
        (
            {"type": "enum", "name": "E", "symbols": ["B", "A"], "default": "A", "default2": {}},
            '{"type":"enum","name":"E","symbols":["B","A"],"default":"A","default2":{}}',
        ),
        (
            [
                "null",
                {"type": "record", "name": "x.R", "fields": [field("R")], "aliases": ["y.B", "x.A", "C"]},
            ],
            '["null",{"type":"record","name":"R","namespace":"x","fields":[{"name":"f","type":"R"}],'
            '"aliases":["A","C","y.B"]}]',
        ),
    ],
)
def test_normal_texts_are_confluents(schema, text):
    assert normal(schema) == text
    assert parse(text).normalized().canonical == text


@pytest.mark.parametrize(
    ("of", "default", "text"),
    [
        ("double", 1, "1.0"),
        ("float", 0.1, "0.1"),
        ("float", 3.14159265358979, "3.1415927"),
        ("float", 16777217, "1.6777216E7"),
        ("double", "NaN", '"NaN"'),
        ("float", 1e300, '"Infinity"'),
        ("int", 1, "1"),
        ("bytes", "\u00ff", '"\u00ff"'),
        (["null", "double"], 1, "1.0"),
        (["null", "double"], None, "null"),
        ({"type": "map", "values": "double"}, {"b": 1, "a": 2}, '{"a":2.0,"b":1.0}'),
        ({"type": "array", "items": "float"}, [1, 2.5], "[1.0,2.5]"),
        (
            {"type": "record", "name": "I", "fields": [field("double", "d"), field("string", "a")]},
            {"d": 1, "a": "x"},
            '{"a":"x","d":1.0}',
        ),
    ],
)
def test_normal_defaults_have_the_form_of_their_type(of, default, text):
    assert normal_default(of, default) == text


def test_references_stay_references():
    inner = '{"type":"fixed","name":"a.F","size":1}'
    assert normal({"type": "array", "items": "a.F"}, inner) == '{"type":"array","items":"a.F"}'


def test_equivalent_schemas_differ_in_order_only():
    def schema(**more):
        return parse(json.dumps({"type": "fixed", "name": "F", "size": 1, **more}))

    assert schema(a=1, b=2, aliases=["A", "B"]).equivalent(schema(aliases=["B", "A"], b=2, a=1))
    assert schema(a={"x": 1, "y": 2}).equivalent(schema(a={"y": 2, "x": 1}))
    assert not schema(a=1).equivalent(schema(a=2))
    assert not schema(doc="").equivalent(schema())
    assert not schema(aliases=["A"]).equivalent(schema())
