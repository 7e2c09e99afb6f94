"""Avro values of types that contain themselves: JSON of those that are nested reasonably, errors for others."""

import json

import fastavro
import pytest

from bowstring.clients.registry.avro_depth import TYPES_DEEP_MAX
from bowstring.clients.registry.empty_values import is_endless
from bowstring.clients.registry.json_decoders import json_decoder
from bowstring.clients.registry.registered_schema import RegisteredSchema
from bowstring.clients.registry.registry_client import RegistryClient
from bowstring.clients.registry.schema_sources import UnusableSchemaError
from bowstring.clients.registry.tree_decoders import tree_decoder

CLIENT = RegistryClient("http://127.0.0.1:1")


def record(name, **fields):
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": each, "type": kind} for each, kind in fields.items()],
    }


def array(items):
    return {"type": "array", "items": items}


LIST = record("L", n=["null", "L"])
TREE = record("T", children=array("T"))
PAIR = record("A", b=["null", record("B", a=["null", "A"], id=["int", "double", "bytes"])])
MAP = record("M", of={"type": "map", "values": "M"}, e={"type": "enum", "name": "E", "symbols": ["x"]})


def trees(schema):
    """Returns the decoders of a schema to Avro's JSON and to a tree."""
    schema = RegisteredSchema("AVRO", json.dumps(schema))
    return json_decoder(CLIENT, schema), tree_decoder(CLIENT, schema)[1]


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        (LIST, b"\2" * 5000 + b"\0"),
        (TREE, b"\2" * 5000 + b"\0"),
        (TREE, b"\1\2" * 5000 + b"\0"),
        (MAP, b"\2\0" * 5000 + b"\0" * 5001),
        (LIST, b"\1" * 5000 + b"\0"),  # branch -1, which fastavro takes as the last one
        (PAIR, b"\2" * 5000 + b"\0"),
        (record("S", s="S"), b""),  # it has no end
        (LIST, b"\2" * TYPES_DEEP_MAX + b"\0"),
    ],
)
def test_values_that_are_nested_deep_are_refused(schema, data):
    for decode in trees(schema):
        with pytest.raises(ValueError, match=r"types within one another|no branch -1"):
            decode(data)


def test_types_that_only_refer_to_one_another_are_refused_too():
    chain = [record("R0", i="int")] + [record(f"R{at}", of=["null", f"R{at - 1}"]) for at in range(1, 5000)]
    for make in (json_decoder, tree_decoder):
        with pytest.raises((ValueError, UnusableSchemaError), match="within one another"):
            found = make(CLIENT, RegisteredSchema("AVRO", json.dumps(chain)))
            (found if make is json_decoder else found[1])(b"\x8e\x4e" + b"\2" * 5000)


@pytest.mark.parametrize(
    ("schema", "data", "tree"),
    [
        (LIST, b"\2\2\0", {"n": {"L": {"n": {"L": {"n": None}}}}}),
        (TREE, b"\4\0\2\0\0\0", {"children": [{"children": []}, {"children": [{"children": []}]}]}),
        (TREE, b"\1\2\0\0", {"children": [{"children": []}]}),
        (
            PAIR,
            b"\2\2\2\0\4\2\xff\0\6",
            {"b": {"B": {"a": {"A": {"b": {"B": {"a": None, "id": {"bytes": "ÿ"}}}}}, "id": {"int": 3}}}},
        ),
        (MAP, b"\2\2k\0\0\0\0", {"of": {"k": {"of": {}, "e": "x"}}, "e": "x"}),
    ],
)
def test_values_of_recursive_types_are_shown(schema, data, tree):
    in_json, in_tree = trees(schema)
    assert in_json(data) == tree
    assert in_tree(data) is not None
    for decode in (in_json, in_tree):
        for end in range(len(data)):
            with pytest.raises(ValueError, match=r"ends within|items"):
                decode(data[:end])


def test_many_uses_of_types_take_no_time():
    schema = record("R0", i="int")
    for at in range(1, 60):
        schema = record(f"R{at}", a=["null", schema], b=["null", f"R{at - 1}"])
    assert trees(schema)[0](b"\0\0") == {"a": None, "b": None}


def test_schemas_that_call_themselves_parsed_are_refused():
    schema = {**LIST, "__fastavro_parsed": True, "__named_schemas": {}}
    for each in (schema, [schema]):
        with pytest.raises(UnusableSchemaError, match="leave it out"):
            trees(each)


@pytest.mark.parametrize("schema", [{"type": "array"}, {"type": "record"}, {"type": None}, 1, {}])
def test_schemas_that_are_not_well_formed_are_named_so(schema):
    with pytest.raises(UnusableSchemaError):
        trees(schema)


def field(kind, default):
    return {"type": "record", "name": "L", "fields": [{"name": "n", "type": kind, "default": default}]}


@pytest.mark.parametrize(
    ("schema", "endless"),
    [
        (field("L", {}), True),
        (field(["L", "null"], {}), True),
        (field(array("L"), [{}]), True),
        (field({"type": "map", "values": "L"}, {"a": {}}), True),
        (field(["null", "L"], None), False),
        (field(array("L"), []), False),
        (field(array("L"), [{"n": []}]), False),
    ],
)
def test_defaults_that_need_themselves_are_found(schema, endless):
    named = {}
    assert is_endless(fastavro.parse_schema(schema, named_schemas=named), named) == endless
