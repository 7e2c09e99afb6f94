"""bowstring.Avro against fastavro: every type, schema resolution, damage, the way back."""

from __future__ import annotations

import datetime as dt
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

INNER = {
    "type": "record",
    "name": "Inner",
    "fields": [{"name": "x", "type": "int"}, {"name": "e2", "type": "E"}],
}
EVERYTHING = {
    "type": "record",
    "name": "R",
    "namespace": "ns",
    "fields": [
        {"name": "i", "type": "int"},
        {"name": "l", "type": ["null", "long"]},
        {"name": "f", "type": "float"},
        {"name": "d", "type": "double"},
        {"name": "b", "type": "boolean"},
        {"name": "s", "type": "string"},
        {"name": "by", "type": "bytes"},
        {"name": "fx", "type": {"type": "fixed", "name": "F", "size": 4}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}},
        {"name": "arr", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
        {"name": "r", "type": ["null", INNER]},
        {"name": "u", "type": ["null", "string", "long", "Inner"]},
        {"name": "u2", "type": ["string", "null"]},
        {"name": "dec", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}},
        {
            "name": "decf",
            "type": {
                "type": "fixed",
                "name": "DF",
                "size": 6,
                "logicalType": "decimal",
                "precision": 10,
                "scale": 2,
            },
        },
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tm", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "n", "type": "null"},
    ],
}


def written(schema: Any, *rows: dict[str, Any]) -> list[bytes]:
    """fastavro's encoding."""
    parsed = fastavro.parse_schema(schema)
    values = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        values.append(out.getvalue())
    return values


def random_row(seed: int) -> dict[str, Any]:
    r = random.Random(seed)
    inner = lambda: {"x": r.randint(-5, 5), "e2": r.choice("ABC")}  # noqa: E731
    return {
        "i": r.choice([0, -1, -(2**31), 2**31 - 1, r.randint(-99, 99)]),
        "l": r.choice([None, -(2**63), 2**63 - 1, r.randint(-99, 99)]),
        "f": float(r.randint(0, 100)),
        "d": r.random(),
        "b": r.random() < 0.5,
        "s": "é😀a"[: r.randint(0, 3)] * r.randint(0, 5),
        "by": r.randbytes(r.randint(0, 3)),
        "fx": r.randbytes(4),
        "e": r.choice("ABC"),
        "arr": [r.choice([None, "x"]) for _ in range(r.randint(0, 3))],
        "m": {str(j): [1] * j for j in range(r.randint(0, 3))},
        "r": r.choice([None, inner()]),
        "u": r.choice([None, "txt", r.randint(0, 9), inner()]),
        "u2": r.choice([None, "z"]),
        "dec": decimal.Decimal(r.choice([0, -1, 127, 128, -128, -129, 10**20 - 1])).scaleb(-3),
        "decf": decimal.Decimal(r.randint(-(10**10) + 1, 10**10 - 1)).scaleb(-2),
        "day": dt.date(2020, 1, 1) + dt.timedelta(r.randint(-9999, 9999)),
        "ts": dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=r.randint(0, 10**12)),
        "tm": dt.time(1, 2, 3, r.randint(0, 999999)),
        "n": None,
    }


def as_arrow(row: dict[str, Any]) -> dict[str, Any]:
    """A row as Arrow has it: maps are pairs, a union of several types is a struct."""
    u = row["u"]
    members = {"member0": u if isinstance(u, str) else None, "member1": u if isinstance(u, int) else None}
    members["member2"] = u if isinstance(u, dict) else None
    return {**row, "m": [*row["m"].items()], "u": None if u is None else members}


ROWS = [random_row(seed) for seed in range(200)]
VALUES = written(EVERYTHING, *ROWS)


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
        ("long", b"", "ends too soon in v"),
        ("long", b"\x02\x02", "something follows"),
        ("boolean", b"\x02", "neither 0 nor 1"),
        ("string", b"\x02\xff", "not UTF-8"),
        ("string", b"\x01", "a length goes beyond"),
        ("bytes", b"\x04a", "a length goes beyond"),
        (["null", "int"], b"\x04", "no such branch"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "no such symbol"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00", "more items than"),
        ({"type": "array", "items": "int"}, b"\x01\xfe\x01", "a block is larger"),
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
    structs, errors = form.decode(pa.array([b"\x02\x02\0"]))  # the decoder goes on
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
    """What fastavro makes of WRITTEN, with unions as structs."""
    rows = []
    for value in WRITTEN:
        row = fastavro.schemaless_reader(
            io.BytesIO(value), fastavro.parse_schema(WRITER), fastavro.parse_schema(READER)
        )
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
    assert "no schema is known" in errors[1].as_py() and "not framed" in errors[2].as_py()
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
    with pytest.raises(ValueEncodeError, match="row 0, e: no symbol"):
        form.encode(pa.table({"a": [1], "e": ["B"]}))
