"""Formats of topics by themselves: mixed schemas in one array, layouts, references, what columns cannot represent."""

import dataclasses
import datetime
import json
import pickle
import struct
import threading

import pyarrow as pa
import pytest

import bowstring
from bowstring._native.values.schema_keys import key_bytes
from bowstring.clients.registry.schema_keys import with_header
from tests.support.protobuf_messages import person_classes
from tests.support.schema_registry_double import schema_registry

LONG = {"type": "record", "name": "V", "fields": [{"name": "id", "type": "long"}]}
WIDER = {
    "type": "record",
    "name": "V",
    "fields": [*LONG["fields"], {"name": "n", "type": "int", "default": 3}],
}
TREE = {"type": "record", "name": "T", "fields": [{"name": "next", "type": ["null", "T"]}]}


@pytest.fixture(scope="module")
def registry():
    with schema_registry() as double:
        yield double


def framed(number, data):
    return struct.pack(">bI", 0, number) + data


@pytest.mark.parametrize("layout", [pa.binary(), pa.large_binary(), pa.binary_view()])
def test_schemas_that_take_turns(registry, layout):
    first, second = (registry.add("turns-value", {"schema": json.dumps(each)}) for each in (LONG, WIDER))
    values = [
        None if i % 7 == 6 else framed(first, b"\2") if i % 2 else framed(second, b"\4\6") for i in range(50)
    ]
    values[9], values[20] = framed(first, b"\2\2"), b"x"
    array = pa.array([b"left out", *values], pa.binary()).cast(layout).slice(1)
    form = bowstring.Registry(registry.url).for_topic("turns", "value")
    found, errors = form.decode(array)
    own = [None if i % 7 == 6 else {"id": 1, "n": 3} if i % 2 else {"id": 2, "n": 3} for i in range(50)]
    own[9] = own[20] = None
    assert found.to_pylist() == own
    assert [row for row, reason in enumerate(errors.to_pylist()) if reason] == [9, 20]
    decoder = bowstring.Registry(registry.url, schema=WIDER).for_topic("turns", "value").object_decoder()
    assert [decoder(value) for i, value in enumerate(values) if value and i not in (9, 20)] == [
        v for v in own if v
    ]
    empty, none = form.decode(array.slice(0, 0))
    assert len(empty) == 0 and none is None and empty.type == found.type


def test_types_that_columns_do_not_have(registry):
    number = registry.add("tree-value", {"schema": json.dumps(TREE)})
    form = bowstring.Registry(registry.url).for_topic("tree", "value")
    assert form.object_decoder()(framed(number, b"\2\2\0")) == {"next": {"next": {"next": None}}}
    with pytest.raises(bowstring.ValueSchemaError, match=r"contains itself.*poll\(\)"):
        form.decode(pa.array([framed(number, b"\0")]))


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"type": "record"}', '{"type":"enum","name":"E"}', "5", '{"type":"array","items":' * 3000],
)
def test_schemas_that_are_none(registry, text):
    number = len(registry.schemas) + 1
    registry.schemas[number] = {"schema": text}
    form = bowstring.Registry(registry.url, schema=LONG).for_topic("wrong", "value")
    found, errors = form.decode(pa.array([framed(number, b"\0")]))
    assert found.to_pylist() == [None] and errors[0].as_py().startswith(f"schema {number}: ")
    own = bowstring.Registry(registry.url).for_topic("wrong", "value").object_decoder()
    assert own(framed(number, b"\0")).reason


def test_references(registry):
    registry.add(
        "item",
        {
            "schema": json.dumps(
                {
                    "type": "object",
                    "properties": {"sku": {"$ref": "#/$defs/s"}},
                    "$defs": {"s": {"type": "string"}},
                }
            ),
            "schemaType": "JSON",
        },
    )
    document = {
        "type": "object",
        "properties": {"item": {"$ref": "item.json"}, "sku": {"$ref": "item.json#/$defs/s"}},
    }
    given = [("item.json", "item", 1)]
    form = bowstring.Registry(registry.url, schema=document, references=given).for_topic("refs", "value")
    value = {"item": {"sku": "a"}, "sku": "b"}
    data = form.encode_value(value)
    found, errors = bowstring.Registry(registry.url).for_topic("refs", "value").decode(pa.array([data]))
    assert errors is None and found.to_pylist() == [value]
    registry.add(
        "round", {"schema": json.dumps(LONG), "references": [{"name": "r", "subject": "round", "version": 1}]}
    )
    circular = bowstring.Registry(registry.url, subject="round").decode(pa.array([b"\0\0\0\0\0"]))
    assert circular[0].to_pylist() == [None]


def test_keys():
    for data, indexed, size in (
        (b"\0\0\0\0\1", False, 5),
        (b"\0\0\0\0", False, 0),
        (b"\1" + bytes(16), False, 17),
        (b"\1" + bytes(15), False, 0),
        (b"\2\0\0\0\0", False, 0),
        (b"\0\0\0\0\1\0", True, 6),
        (b"\0\0\0\0\1\4\2\0x", True, 8),
        (b"\0\0\0\0\1", True, 0),
        (b"\0\0\0\0\1\4\2", True, 0),
        (b"\0\0\0\0\1\1", True, 0),
        (b"\0\0\0\0\1" + b"\xff" * 12, True, 0),
    ):
        assert key_bytes(data, indexed) == size, data


@pytest.mark.parametrize("kind", ["list", "map"])
def test_headers_are_added(kind):
    pairs = [[("a", b"1"), ("b", None)], [], [("c", b"")]]
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    if kind == "map":
        given = pa.array(pairs, pa.map_(pa.string(), pa.binary()))
    else:
        given = pa.array([[{"key": k, "value": v} for k, v in each] for each in pairs], pa.list_(header))
    mask = pa.array([True, True, False])
    made = with_header(given, mask, "h", b"x").to_pylist()
    found = [[(each["key"], each["value"]) for each in row] for row in made]
    assert found == [[*pairs[0], ("h", b"x")], [("h", b"x")], pairs[2]]
    assert with_header(None, mask, "h", b"x").to_pylist() == [[{"key": "h", "value": b"x"}]] * 2 + [[]]
    assert with_header(None, mask.slice(0, 0), "h", b"x").to_pylist() == []


def test_another_process_and_many_threads(registry):
    form = pickle.loads(pickle.dumps(bowstring.Registry(registry.url, schema=LONG, user="ann", password="x")))
    assert form.for_topic("p", "value").encode_value({"id": 1})[5:] == b"\2"
    several = bowstring.Registry(["http://127.0.0.1:9", registry.url], schema=LONG)
    made = []
    threads = [
        threading.Thread(target=lambda: made.append(several.for_topic("t", "value").encode_value({"id": 1})))
        for _ in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(set(made)) == 1 and len(made) == 8
    assert sum("t-value" in each for each in registry.requests) == 1


def test_a_message_and_columns(registry):
    _, order = person_classes()
    form = bowstring.Registry(registry.url, schema=order, wire="headers").for_topic("m", "value")
    rows = pa.Table.from_pylist([{"id": 1, "item": "a"}])
    assert (
        form.encode(rows).to_pylist() == [form.encode_value(order(id=1, item="a"))] == [b"\x08\x01\x12\x01a"]
    )
    with pytest.raises(bowstring.ConfigError, match="no guids"):
        registry.has_guids = False
        try:
            bowstring.Registry(registry.url, schema=order, wire="headers").for_topic("g", "value").prepare()
        finally:
            registry.has_guids = True


def test_json_schemas_beyond_columns(registry):
    document = {"type": "object", "properties": {"id": {"oneOf": [{"type": "integer"}, {"type": "string"}]}}}
    form = bowstring.Registry(registry.url, schema=document).for_topic("open", "value")
    values = [form.encode_value({"id": given, "more": [1]}) for given in (1, "x")]
    own = bowstring.Registry(registry.url).for_topic("open", "value")
    for each in (form, own):
        assert [each.object_decoder()(value) for value in values] == [
            {"id": 1, "more": [1]},
            {"id": "x", "more": [1]},
        ]
        with pytest.raises(bowstring.ValueSchemaError, match=r"poll\(\)"):
            each.decode(pa.array(values))


@dataclasses.dataclass
class Person:
    name: str
    born: datetime.date


def test_a_class_as_json(registry):
    form = bowstring.Registry(registry.url, schema=Person, kind="JSON").for_topic("people", "value")
    person = Person("Ann", datetime.date(1990, 1, 2))
    data = form.encode_value(person)
    assert json.loads(data[5:]) == {"name": "Ann", "born": "1990-01-02"}
    assert form.object_decoder()(data) == person
    assert registry.schemas[registry.subjects["people-value"][0]]["schemaType"] == "JSON"
    found, _ = bowstring.Registry(registry.url).for_topic("people", "value").decode(pa.array([data]))
    assert found.to_pylist() == [dataclasses.asdict(person)]
