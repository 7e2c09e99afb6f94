"""bowstring.Avro against fastavro: every type, schema resolution, damage, the way back."""

from __future__ import annotations

import decimal
import io
import json
import pickle
import random
from typing import Any

import fastavro
import pyarrow as pa
import pytest

import bowstring
from bowstring.values.errors import ValueEncodeError, ValueSchemaError, ValuesTooLargeError
from tests.support.avro_values import EVERYTHING, ROWS, VALUES, as_arrow, written


def test_every_type_and_the_way_back():
    form = bowstring.Avro(EVERYTHING)
    structs, errors = form.decode(pa.array([*VALUES, None], pa.binary_view()))
    structs.validate(full=True)
    assert errors is None
    assert structs.to_pylist() == [*map(as_arrow, ROWS), None]
    encoded = form.encode(structs)
    parsed = fastavro.parse_schema(EVERYTHING)
    assert [fastavro.schemaless_reader(io.BytesIO(v), parsed) for v in encoded.to_pylist()[:-1]] == ROWS
    assert encoded.to_pylist()[-1] is None
    assert pickle.loads(pickle.dumps(form)).decode(encoded)[0].equals(structs)


def test_damage_stays_where_it_is():
    form = bowstring.Avro(EVERYTHING)
    first, last = as_arrow(ROWS[0]), as_arrow(ROWS[1])
    parsed = fastavro.parse_schema(EVERYTHING)
    r = random.Random(1)
    agreed = 0
    for _ in range(1500):
        value = bytearray(r.choice(VALUES))
        for _ in range(r.randint(1, 3)):
            value[r.randrange(len(value))] = r.randrange(256)
        value = value[: r.randrange(len(value))] if r.random() < 0.5 else value
        structs, errors = form.decode(pa.array([VALUES[0], bytes(value), VALUES[1]]))
        structs.validate(full=True)
        assert structs[0].as_py() == first and structs[2].as_py() == last
        if errors is not None:
            assert errors[0].as_py() is None and errors[1].as_py() and not structs[1].is_valid
            continue
        try:  # What fastavro reads to the end is the same.
            source = io.BytesIO(value)
            row = fastavro.schemaless_reader(source, parsed)
            mine = structs[1].as_py()
        except (OverflowError, ValueError, decimal.InvalidOperation):
            continue
        if source.tell() == len(value) and len(row["m"]) == len(mine["m"]):
            # As text, because NaN is in it.
            utc = str(mine).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc")
            assert utc == str(as_arrow(row))
            agreed += 1
    assert agreed > 100


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        ("int", b"\x80\x80\x80\x80\x80\x01", "more than 32 bits"),
        ("long", b"\xff" * 11, "more than ten bytes"),
        ("long", b"", "is truncated in v"),
        ("long", b"\x02\x02", "bytes follow"),
        ("boolean", b"\x02", "neither 0 nor 1"),
        ("string", b"\x02\xff", "not UTF-8"),
        ("string", b"\x01", "a length exceeds"),
        ("bytes", b"\x04a", "a length exceeds"),
        (["null", "int"], b"\x04", "no branch of this number"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "no symbol of this number"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00", "more items than"),
        ({"type": "array", "items": "int"}, b"\x01\xfe\x01", "a block exceeds"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0},
            b"\x02\x7f",
            "too many digits",
        ),
    ],
)
def test_bad_values(schema, value, reason):
    record = {"type": "record", "name": "R", "fields": [{"name": "v", "type": schema}]}
    structs, errors = bowstring.Avro(record).decode(pa.array([value]))
    assert not structs[0].is_valid and reason in errors[0].as_py()


def test_two_gibibytes_of_strings_are_a_named_error():
    # Small on the wire: each item is one byte that stands for a long symbol.
    symbols = ["x" * 1_000_000, "y"]
    items = {"type": "array", "items": {"type": "enum", "name": "E", "symbols": symbols}}
    record = {"type": "record", "name": "R", "fields": [{"name": "a", "type": items}]}
    form = bowstring.Avro(record)
    value = b"\xc0\xb8\x02" + bytes(20000) + b"\0"  # a block of 20,000 items
    with pytest.raises(ValuesTooLargeError, match="2 GiB"):
        form.decode(pa.array([value]))
    structs, errors = form.decode(pa.array([b"\x02\x02\0"]))  # the decoder continues
    assert errors is None and structs.to_pylist() == [{"a": ["y"]}]


def test_blocks_with_sizes_are_read_and_read_over():
    record = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": {"type": "array", "items": "int"}}, {"name": "z", "type": "int"}],
    }
    value = pa.array([b"\x03\x04\x02\x04\x02\x06\x00\x08"])  # two items in two bytes, one item, the end
    assert bowstring.Avro(record).decode(value)[0].to_pylist() == [{"a": [1, 2, 3], "z": 4}]
    narrow = {**record, "fields": record["fields"][1:]}
    assert bowstring.Avro(narrow, writer_schema=record).decode(value)[0].to_pylist() == [{"z": 4}]


WRITER = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "a", "type": "int"},
        {"name": "gone", "type": {"type": "map", "values": {"type": "array", "items": "string"}}},
        {"name": "old", "type": "string"},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["X", "Y"]}},
        {"name": "u", "type": ["int", "string"]},
    ],
}
DEFAULT = {
    "type": "record",
    "name": "D",
    "fields": [{"name": "z", "type": "int"}, {"name": "y", "type": {"type": "array", "items": "string"}}],
}
READER = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["Q", "X"], "default": "Q"}},
        {"name": "new", "aliases": ["old"], "type": "bytes"},
        {"name": "a", "type": ["null", "double"]},
        {"name": "dflt", "type": DEFAULT, "default": {"z": 7, "y": ["p", "q"]}},
        {"name": "u", "type": ["null", "string", "long"]},
        {"name": "k", "type": ["null", "int"], "default": None},
    ],
}
WRITTEN = written(
    WRITER,
    {"a": 5, "gone": {"k": ["a", "b"]}, "old": "héllo", "e": "Y", "u": 3},
    {"a": -1, "gone": {}, "old": "", "e": "X", "u": "s"},
)


def resolved() -> list[dict[str, Any]]:
    """WRITTEN as fastavro decodes it, with unions as structs."""
    rows = []
    for value in WRITTEN:
        row = fastavro.schemaless_reader(
            io.BytesIO(value), fastavro.parse_schema(WRITER), fastavro.parse_schema(READER)
        )
        assert isinstance(row, dict)
        u = row["u"]
        rows.append(
            {
                **row,
                "u": {
                    "member0": u if isinstance(u, str) else None,
                    "member1": u if isinstance(u, int) else None,
                },
            }
        )
    return rows


def test_schema_resolution():
    structs, errors = bowstring.Avro(READER, writer_schema=WRITER).decode(pa.array(WRITTEN))
    assert errors is None and structs.to_pylist() == resolved()


def test_confluent_framing_with_schemas_by_id():
    asked = []

    def registry(schema_id: int) -> Any:
        asked.append(schema_id)
        return {7: WRITER, 8: json.dumps(READER)}.get(schema_id)

    form = bowstring.Avro(READER, framing="confluent", schemas=registry, schema_id=8)
    own = form.encode(form.decode(pa.array([b"\0\0\0\0\x07" + WRITTEN[0]]))[0])
    assert own[0].as_py()[:5] == b"\0\0\0\0\x08"
    values = [b"\0\0\0\0\x07" + WRITTEN[1], b"\0\0\0\0\x09x", WRITTEN[0], own[0].as_py(), b""]
    structs, errors = form.decode(pa.array(values))
    assert [row and row["u"] for row in structs.to_pylist()] == [
        resolved()[1]["u"],
        None,
        None,
        resolved()[0]["u"],
        None,
    ]
    assert "no schema is known" in errors[1].as_py() and "lacks Confluent" in errors[2].as_py()
    form.decode(pa.array(values))
    assert sorted(asked) == [7, 8, 9]
    same = bowstring.Avro(WRITER, framing="confluent")
    assert same.decode(pa.array([b"\0\0\0\x01\x02" + WRITTEN[0]]))[1] is None


@pytest.mark.parametrize(
    "schema",
    [
        "{",
        '"string"',
        {"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]},
        {"type": "record", "name": "R", "fields": [{"name": "r", "type": "Missing"}]},
        {"type": "record", "fields": []},
        {
            "type": "record",
            "name": "R",
            "fields": [{"name": "r", "type": "int", "default": "x"}, {"name": "q", "type": 5}],
        },
    ],
)
def test_schemas_that_make_no_columns(schema):
    with pytest.raises(ValueSchemaError):
        bowstring.Avro(schema)


def of_field(kind):
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        (
            {"type": "record", "name": "R", "fields": [{"name": "a"}]},
            "the field a of the Avro record R lacks its type",
        ),
        (
            {"type": "record", "name": "R", "fields": [{"type": "int"}]},
            "a field of the Avro record R lacks its name",
        ),
        (
            {"type": "record", "name": "R", "fields": 3},
            "the Avro record R: fields is '3', it must be an array",
        ),
        (
            {"type": "record", "name": "R", "fields": [3]},
            "the Avro record R has a field that is no JSON object: 3",
        ),
        ({"type": "record", "name": 3}, "an Avro record: name is '3', it must be a string"),
        (of_field({"type": "enum", "name": "E"}), "the Avro enum E lacks its symbols"),
        (of_field({"type": "fixed", "name": "F"}), "the Avro fixed F lacks its size"),
        (
            of_field({"type": "fixed", "name": "F", "size": "3"}),
            "the Avro fixed F: size is '3', it must be a number",
        ),
        (of_field({"type": "fixed", "name": "F", "size": -1}), "the Avro fixed F has a negative size, -1"),
        (of_field({"type": "array"}), "an Avro array lacks its items"),
    ],
)
def test_what_is_wrong_with_a_schema(schema, error):
    with pytest.raises(ValueSchemaError) as found:
        bowstring.Avro(schema)
    assert str(found.value) == error


@pytest.mark.parametrize("depth", [90, 101, 50_000])
def test_types_in_types(depth):
    text = '{"type":"array","items":' * depth + '"int"' + "}" * depth
    text = f'{{"type":"record","name":"R","fields":[{{"name":"a","type":{text}}}]}}'
    if depth <= 90:
        bowstring.Avro(text)
        return
    with pytest.raises(ValueSchemaError, match=r"more than 100 types in one another|nested too deeply"):
        bowstring.Avro(text)


def test_wrong_logical_types_are_ignored():
    kind = {"type": "long", "logicalType": ["timestamp-millis"], "precision": "x"}
    structs, _ = bowstring.Avro(of_field(kind)).decode(pa.array([b"\x02"]))
    assert structs.to_pylist() == [{"a": 1}]


def test_schemas_that_do_not_resolve():
    reader = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    writer = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}
    with pytest.raises(ValueSchemaError, match="a is written as string and cannot be read as int"):
        bowstring.Avro(reader, writer_schema=writer)


def test_encode_says_what_does_not_fit():
    record = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "a", "type": "int"},
            {"name": "e", "type": ["null", {"type": "enum", "name": "E", "symbols": ["A"]}]},
        ],
    }
    form = bowstring.Avro(record)
    assert form.encode(pa.table({"a": [1], "e": ["A"]})).to_pylist() == [b"\x02\x02\x00"]
    with pytest.raises(ValueEncodeError, match="row 1, a: null"):
        form.encode(pa.table({"a": [1, None]}))
    with pytest.raises(ValueEncodeError, match="row 0, e: the text is not a symbol"):
        form.encode(pa.table({"a": [1], "e": ["B"]}))
