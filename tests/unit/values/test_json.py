"""bowstring.Json against the json module and pyarrow: good values, bad ones in every position, the way back."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import pickle
import random
import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bowstring
from bowstring.values.errors import ValueDecodeError, ValueSchemaError
from tests.support.examples import examples

WIDE = pa.schema(
    [
        ("id", pa.int64()),
        ("u", pa.uint64()),
        ("i8", pa.int8()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("f", pa.float32()),
        ("tags", pa.list_(pa.string())),
        ("m", pa.map_(pa.string(), pa.int32())),
        ("inner", pa.struct([("x", pa.int32()), ("y", pa.list_(pa.struct([("z", pa.large_string())])))])),
        ("d", pa.decimal128(10, 2)),
        ("ts", pa.timestamp("ms", "UTC")),
        ("ns", pa.timestamp("ns")),
        ("day", pa.date32()),
        ("t", pa.time64("us")),
        ("b", pa.binary()),
        ("ok", pa.bool_()),
        ("e", pa.dictionary(pa.int32(), pa.string())),
    ]
)
FULL = (
    b'{"id":1,"u":18446744073709551615,"i8":-128,"name":"a\\u00e9\\ud83d\\ude00\\/","price":1.5e3,"f":0.1,'
    b'"tags":["x","y\\n",null],"m":{"k":3,"l":null},"inner":{"x":4,"y":[{"z":"q"},{}]},"d":1.235,'
    b'"ts":"2026-01-31T12:00:00.123Z","ns":"1969-12-31 23:59:59.123456789","day":"2026-01-31",'
    b'"t":"12:00:01.5","b":"aGk=","ok":true,"e":"RED","extra":[{"deep":[1,2]},"}"]}'
)
LAYOUTS = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.string()]


def decode(schema: pa.Schema, *values: bytes | None) -> tuple[list[object], list[str | None]]:
    structs, errors = bowstring.Json(schema).decode(pa.array(values, pa.binary()))
    structs.validate(full=True)
    return structs.to_pylist(), [None] * len(values) if errors is None else errors.to_pylist()


def error_of(schema: pa.Schema, value: bytes) -> str:
    """The error of a value; its neighbours stay as they are."""
    good = b"{}"
    rows, errors = decode(schema, good, value, good, value)
    assert rows[0] == rows[2] == {name: None for name in schema.names} and rows[1] is rows[3] is None
    assert errors[0] is errors[2] is None and errors[1] == errors[3] and errors[1] is not None
    return errors[1]


def test_every_type():
    rows, errors = decode(WIDE, FULL, None, b" {\t} ", b"null")
    assert errors == [None] * 4
    assert rows[1] is None and rows[3] is None and rows[2] == {name: None for name in WIDE.names}
    got = rows[0]
    assert got["f"] == pytest.approx(0.1)
    del got["f"], got["ns"]
    assert got == {
        "id": 1,
        "u": 2**64 - 1,
        "i8": -128,
        "name": "aé😀/",
        "price": 1500.0,
        "tags": ["x", "y\n", None],
        "m": [("k", 3), ("l", None)],
        "inner": {"x": 4, "y": [{"z": "q"}, {"z": None}]},
        "d": decimal.Decimal("1.24"),
        "ts": dt.datetime(2026, 1, 31, 12, 0, 0, 123000, tzinfo=dt.UTC),
        "day": dt.date(2026, 1, 31),
        "t": dt.time(12, 0, 1, 500000),
        "b": b"hi",
        "ok": True,
        "e": "RED",
    }
    structs, _ = bowstring.Json(WIDE).decode(pa.array([FULL]))
    assert structs.field("ns")[0].value == -876_543_211


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_layouts_and_slices(layout):
    values = [b'{"id":%d,"name":"%s"}' % (i, b"n" * (i % 30)) for i in range(100)]
    values[7] = values[60] = None
    values[9] = b"{"
    array = pa.array(values, pa.binary()).cast(layout)
    form = bowstring.Json(pa.schema({"id": pa.int64(), "name": pa.string()}))
    whole, errors = form.decode(array)
    assert errors.null_count == 99
    expected = [None if v in (None, b"{") else json.loads(v) for v in values]
    assert whole.to_pylist() == expected
    part, none = form.decode(array[10:75])
    assert part.to_pylist() == expected[10:75] and none is None
    assert form.decode(pa.chunked_array([array[:5], array[5:20]]))[0].to_pylist() == expected[:20]
    assert form.decode(array[:0])[0].to_pylist() == []


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "empty"),
        (b" ", "empty"),
        (b"{", "a string in quotes is missing"),
        (b'{"id"', "':' is missing"),
        (b'{"id":1', "',' or '}' is missing"),
        (b'{"id":1,}', "a string in quotes is missing"),
        (b'{"id":01}', "begins with 0"),
        (b'{"id":+1}', "an integer is needed for id"),
        (b'{"id":1.0}', "an integer is needed for id"),
        (b'{"id":"1"}', "an integer is needed for id"),
        (b'{"id":9223372036854775808}', "in the range of its type"),
        (b'{"i8":128}', "in the range of its type is needed for i8"),
        (b'{"i8":-129}', "in the range of its type"),
        (b'{"u":-1}', "in the range of its type"),
        (b'{"u":18446744073709551616}', "in the range of its type"),
        (b'{"price":1.}', "a number does not end"),
        (b'{"price":.5}', "a number is needed for price"),
        (b'{"price":"x"}', "a number is needed for price"),
        (b'{"price":NaN}', "a number is needed"),
        (b'{"name":1}', "a string is needed for name"),
        (b'{"name":"a\nb"}', "a control character"),
        (b'{"name":"\\x"}', "this escape is not JSON"),
        (b'{"name":"\\u12g4"}', "four hexadecimal digits"),
        (b'{"name":"\\ud800x"}', "half a surrogate pair"),
        (b'{"name":"\\udc00"}', "half a surrogate pair"),
        (b'{"name":"\xff"}', "not UTF-8"),
        (b'{"name":"\xed\xa0\x80"}', "not UTF-8"),
        (b'{"name":"\xc0\x80"}', "not UTF-8"),
        (b'{"name":"abcdefghijklmn', "a string does not end"),
        (b'{"tags":["a",1]}', "a string is needed for tags[]"),
        (b'{"tags":["a"', "',' or ']' is missing"),
        (b'{"m":{"k":"v"}}', "an integer is needed for m{}"),
        (b'{"inner":[]}', "an object is needed for inner"),
        (b'{"inner":{"y":[{"z":[]}]}}', "a string is needed for inner.y[].z"),
        (b'{"d":123456789.12}', "at most as many digits"),
        (b'{"d":"x"}', "at most as many digits"),
        (b'{"ts":"yesterday"}', "a timestamp is needed for ts"),
        (b'{"ts":"2026-02-29T00:00:00Z"}', "a timestamp"),
        (b'{"day":"2026-13-01"}', "a date"),
        (b'{"t":"25:00:00"}', "a time"),
        (b'{"b":"a=b="}', "base64"),
        (b'{"b":"a"}', "base64"),
        (b'{"ok":1}', "true or false is needed for ok"),
        (b'{"ok":tru}', "not JSON"),
        (b"[1]", "an object is needed"),
        (b"7", "an object is needed"),
        (b"nul", "not JSON"),
        (b'{"id":1} x', "text follows the value"),
        (b'{"x":' + b"[" * 2000, "nested more than 1000 deep"),
        (b'{"x":{"y":}}', "not JSON"),
    ],
)
def test_bad_values(value, reason):
    assert reason in error_of(WIDE, value)


@pytest.mark.parametrize("bad_at", [0, 1, 5, 9])
def test_a_bad_value_leaves_no_trace_in_lists(bad_at):
    schema = pa.schema(
        {"tags": pa.list_(pa.string()), "m": pa.map_(pa.string(), pa.list_(pa.int32())), "z": pa.int8()}
    )
    values = [b'{"tags":["a%d","b"],"m":{"k":[%d],"l":[1,2]},"z":1}' % (i, i) for i in range(10)]
    expected = decode(schema, *values)[0]
    values[bad_at] = b'{"tags":["lost","lost"],"m":{"k":[7,7],"j":[8]},"z":1000}'
    expected[bad_at] = None
    assert decode(schema, *values)[0] == expected


def test_names():
    schema = pa.schema({"a": pa.int64(), 'quo"te': pa.int64(), "ü": pa.int64(), "list": pa.list_(pa.int64())})
    rows, _ = decode(
        schema,
        b'{"list":[1],"\\u00fc":3,"quo\\"te":2,"\\u0061":1}',
        b'{"a":1,"a":2,"list":[1,2],"list":[3],"ab":9,"":8}',
        b'{"a":1,"a":null}',
    )
    assert rows == [
        {"a": 1, 'quo"te': 2, "ü": 3, "list": [1]},
        {"a": 2, 'quo"te': None, "ü": None, "list": [3]},
        {"a": None, 'quo"te': None, "ü": None, "list": None},
    ]


JSON_ROWS = st.fixed_dictionaries(
    {},
    optional={
        "i": st.none() | st.integers(-(2**63), 2**63 - 1),
        "x": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "s": st.none() | st.text(),
        "b": st.none() | st.booleans(),
        "l": st.none() | st.lists(st.none() | st.text(max_size=5), max_size=4),
        "o": st.none() | st.fixed_dictionaries({}, optional={"p": st.lists(st.integers(0, 9), max_size=3)}),
        "other": st.recursive(
            st.none() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
            max_leaves=5,
        ),
    },
)
ROW_SCHEMA = pa.schema(
    {
        "i": pa.int64(),
        "x": pa.float64(),
        "s": pa.string(),
        "b": pa.bool_(),
        "l": pa.list_(pa.string()),
        "o": pa.struct({"p": pa.list_(pa.int64())}),
    }
)


def as_arrow(row: dict) -> dict:
    """The row with the schema's fields and no others."""
    full = {name: row.get(name) for name in ROW_SCHEMA.names}
    full["x"] = None if full["x"] is None else float(full["x"])
    return pa.array([full], pa.struct(list(ROW_SCHEMA)))[0].as_py()


@settings(max_examples=examples(60))
@given(st.lists(JSON_ROWS, max_size=8), st.booleans(), st.sampled_from([None, 1]))
def test_reads_what_the_json_module_writes(rows, ascii_only, indent):
    values = [
        json.dumps(row, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "replace") for row in rows
    ]
    got, errors = decode(ROW_SCHEMA, *values)
    for value, mine, error in zip(values, got, errors, strict=True):
        if ascii_only and error:  # Lone surrogates are not text.
            assert "surrogate" in error and b"\\ud" in value
        else:
            assert error is None and mine == as_arrow(json.loads(value))


@settings(max_examples=examples(60))
@given(st.lists(st.none() | JSON_ROWS, max_size=8), st.booleans())
def test_the_json_module_reads_what_it_writes(rows, omit):
    structs = pa.array(
        [row and {k: v for k, v in row.items() if k != "other"} for row in rows], pa.struct(list(ROW_SCHEMA))
    )
    form = bowstring.Json(ROW_SCHEMA, omit_nulls=omit)
    values = form.encode(structs)
    values.validate(full=True)
    for value, row in zip(values.to_pylist(), structs.to_pylist(), strict=True):
        assert (value is None) == (row is None)
        if row is not None:
            assert as_arrow(json.loads(value)) == row
            assert omit or list(json.loads(value)) == ROW_SCHEMA.names
    back, errors = form.decode(values)
    assert errors is None and back.to_pylist() == structs.to_pylist()


@settings(max_examples=examples(150))
@given(
    st.binary(max_size=60) | st.text(alphabet='{}[]":,\\ntruefalsi0123.eE-+ "', max_size=40).map(str.encode)
)
def test_any_bytes_are_a_value_or_an_error(value):
    (row,), (error,) = decode(ROW_SCHEMA, value)
    try:
        parsed = json.loads(value)
    except ValueError:
        parsed = NotImplemented
    if error is None:
        assert parsed is not NotImplemented and (parsed is None or isinstance(parsed, dict))
    else:
        assert row is None


def test_numbers_come_back_the_same():
    seeded = random.Random(7)
    numbers = [struct.unpack("d", seeded.randbytes(8))[0] for _ in range(5000)]
    numbers += [
        0.0,
        -0.0,
        0.1,
        1e22,
        1e23,
        5e-324,
        1.7976931348623157e308,
        123456.789,
        2.0**53,
        2.0**53 + 2,
        math.inf,
    ]
    form = bowstring.Json(pa.schema({"x": pa.float64(), "f": pa.float32()}))
    singles = pa.array(numbers, pa.float64()).cast(pa.float32(), safe=False)
    batch = pa.RecordBatch.from_arrays([pa.array(numbers), singles], ["x", "f"])
    back, errors = form.decode(form.encode(batch))
    assert errors is None
    same = [struct.pack("d", v) for v in back.field("x").to_pylist() if v == v]
    assert same == [struct.pack("d", v) for v in numbers if v == v]
    assert [repr(v) for v in back.field("f").to_pylist()] == [repr(v) for v in singles.to_pylist()]
    read, _ = form.decode(pa.array([b'{"x":%s}' % repr(v).encode() for v in numbers if math.isfinite(v)]))
    assert read.field("x").to_pylist() == [v for v in numbers if math.isfinite(v)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", "1.00"),
        ("-0.005", "-0.01"),
        ("1.005", "1.01"),
        ("1.0049999", "1.00"),
        ("1e2", "100.00"),
        ("12345e-4", "1.23"),
        ("99999.994", "99999.99"),
        ("5e-3", "0.01"),
        ("49e-4", "0.00"),
        ("600e-6", "0.00"),
        ("0e999", "0.00"),
    ],
)
def test_decimals(text, expected):
    rows, errors = decode(pa.schema({"d": pa.decimal128(7, 2)}), b'{"d":%s}' % text.encode())
    assert errors == [None] and rows == [{"d": decimal.Decimal(expected)}]


def test_times():
    schema = pa.schema({"ts": pa.timestamp("us", "UTC"), "s": pa.timestamp("s"), "t": pa.time32("ms")})
    rows, errors = decode(
        schema,
        b'{"ts":"2026-01-31T14:00:00+02:00","s":"2026-01-31","t":"23:59:59.9999"}',
        b'{"ts":1700000000000000,"s":"1600-02-29T00:00","t":1000}',
        b'{"ts":"0001-01-01T00:00:00Z","s":"9999-12-31 23:59:59Z"}',
    )
    assert errors == [None] * 3
    assert rows[0] == {
        "ts": dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC),
        "s": dt.datetime(2026, 1, 31),
        "t": dt.time(23, 59, 59, 999000),
    }
    assert rows[1]["ts"] == dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)
    assert rows[1]["s"] == dt.datetime(1600, 2, 29) and rows[1]["t"] == dt.time(0, 0, 1)
    assert rows[2]["ts"].year == 1 and rows[2]["s"] == dt.datetime(9999, 12, 31, 23, 59, 59)
    form = bowstring.Json(schema)
    back, _ = form.decode(form.encode(form.decode(pa.array([b'{"ts":"1969-12-31T23:59:59.5Z"}']))[0]))
    assert back[0].as_py()["ts"] == dt.datetime(1969, 12, 31, 23, 59, 59, 500000, tzinfo=dt.UTC)


def test_required_fields():
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("o", pa.struct([pa.field("x", pa.int8(), nullable=False)])),
        ]
    )
    rows, errors = decode(
        schema, b'{"id":1}', b"{}", b'{"id":null}', b'{"id":1,"o":{}}', b'{"id":1,"o":null}'
    )
    assert [row is not None for row in rows] == [True, False, False, False, True]
    assert errors[1] == "at byte 2: a value is needed for id" and "o.x" in errors[3]


def test_json_schema():
    form = bowstring.Json(
        {
            "type": "object",
            "required": ["id"],
            "properties": {
                "id": {"type": "integer"},
                "at": {"type": "string", "format": "date-time"},
                "day": {"type": ["null", "string"], "format": "date"},
                "raw": {"type": "string", "contentEncoding": "base64"},
                "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "kind": {"enum": ["a", "b"]},
                "score": {"oneOf": [{"type": "null"}, {"type": "number"}]},
            },
            "$defs": {"line": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        }
    )
    assert form.schema == pa.schema(
        {
            "id": pa.int64(),
            "at": pa.timestamp("us", "UTC"),
            "day": pa.date32(),
            "raw": pa.binary(),
            "lines": pa.list_(pa.struct({"n": pa.int64()})),
            "labels": pa.map_(pa.string(), pa.string()),
            "kind": pa.string(),
            "score": pa.float64(),
        }
    )
    structs, errors = form.decode(pa.array([b'{"id":1,"lines":[{"n":2}]}', b"{}"]))
    assert structs[0].as_py()["lines"] == [{"n": 2}] and errors.to_pylist()[1].endswith("needed for id")


@pytest.mark.parametrize(
    "schema",
    [
        "{",
        "/no/such/file.json",
        {"type": "string"},
        {"type": "object", "properties": {"a": {"type": ["string", "integer"]}}},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "object", "properties": {"a": {"$ref": "http://example.com/x"}}},
        pa.schema({"a": pa.map_(pa.int64(), pa.string())}),
        pa.schema({"a": pa.dense_union([pa.field("x", pa.int8())])}),
    ],
)
def test_schemas_that_make_no_columns(schema):
    with pytest.raises(ValueSchemaError):
        bowstring.Json(schema)


def test_on_error_raise_and_framing():
    form = bowstring.Json(pa.schema({"a": pa.int64()}), on_error="raise", framing="confluent", schema_id=9)
    values = form.encode(pa.table({"a": [1, None]}))
    assert values.to_pylist() == [b'\0\0\0\0\x09{"a":1}', b'\0\0\0\0\x09{"a":null}']
    assert form.decode(values)[0].to_pylist() == [{"a": 1}, {"a": None}]
    with pytest.raises(ValueDecodeError, match=r"value 1: .*lacks Confluent") as caught:
        form.decode(pa.array([values[0].as_py(), b'{"a":1}']))
    assert caught.value.row == 1
    assert pickle.loads(pickle.dumps(form)).decode(values)[0].to_pylist() == [{"a": 1}, {"a": None}]


def test_encode_fits_columns_to_the_schema():
    form = bowstring.Json(pa.schema({"a": pa.int64(), "s": pa.string(), "new": pa.bool_()}))
    batch = pa.RecordBatch.from_pydict(
        {"gone": [1, 2], "s": pa.array(["x", None]).dictionary_encode(), "a": pa.array([1, 2], pa.int8())}
    )
    assert form.encode(batch).to_pylist() == [b'{"a":1,"s":"x","new":null}', b'{"a":2,"s":null,"new":null}']
    with pytest.raises(bowstring.ClientError, match="the field a is string"):
        form.encode(pa.table({"a": ["x"]}))
