"""Decoders to Python objects against Arrow: each value, good or bad, is what `decode` and `to_pylist()` give."""

from __future__ import annotations

import gc
import json
import random
import sys
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bowstring
from bowstring._native.base.object_decoder import Undecodable
from bowstring.values.errors import ValueDecodeError, ValueEncodeError, ValueSchemaError
from bowstring.values.format import ValueFormat
from tests.support.avro_values import EVERYTHING as AVRO_SCHEMA
from tests.support.avro_values import VALUES as AVRO_VALUES
from tests.support.examples import examples
from tests.support.protobuf_messages import Keyed, M
from tests.support.protobuf_values import VALUES as PROTOBUF_VALUES

LEAVES = {
    "b": pa.bool_(),
    "i": pa.int64(),
    "i8": pa.int8(),
    "u": pa.uint64(),
    "f": pa.float32(),
    "h": pa.float16(),
    "x": pa.float64(),
    "s": pa.string(),
    "large": pa.large_string(),
    "word": pa.dictionary(pa.int32(), pa.string()),
    "raw": pa.binary(),
    "d": pa.decimal128(20, 3),
    "e": pa.decimal128(38, -2),
    "day": pa.date32(),
    "day64": pa.date64(),
    "t": pa.time32("ms"),
    "t64": pa.time64("us"),
    "at": pa.timestamp("us"),
    "utc": pa.timestamp("ms", "UTC"),
    "there": pa.timestamp("s", "Europe/Berlin"),
    "ns": pa.timestamp("ns"),
}
NESTED = {
    **LEAVES,
    "list": pa.list_(pa.decimal128(9, 2)),
    "lists": pa.list_(pa.list_(pa.int32())),
    "map": pa.map_(pa.string(), pa.float64()),
    "days": pa.map_(pa.string(), pa.date32()),
    "in": pa.struct([("x", pa.int32()), ("deep", pa.list_(pa.struct(list(LEAVES.items()))))]),
}
WIDE = bowstring.Json(pa.schema(list(NESTED.items())))
STRICT = bowstring.Json(
    pa.schema(
        [
            pa.field("i", pa.int64(), nullable=False),
            ("s", pa.string()),
            pa.field("in", pa.struct([pa.field("x", pa.float64(), nullable=False), ("y", pa.int8())])),
        ]
    )
)


def by_arrow(form: ValueFormat, value: bytes) -> tuple[Any, str | None]:
    """The object and the error that Arrow's columns have."""
    array, errors = form.decode(pa.array([value], pa.binary()))
    return array.to_pylist(maps_as_pydicts="lossy")[0], None if errors is None else errors[0].as_py()


def agree(form: ValueFormat, values: list[bytes]) -> int:
    """Compares objects and reasons of all values, also by their types; returns how many are good."""
    decoder = form.object_decoder()
    good = 0
    for value in values:
        made = decoder(value)
        try:
            expected, reason = by_arrow(form, value)
        except (OverflowError, ValueError):
            # Arrow has a date that Python cannot hold.
            assert isinstance(made, Undecodable), value
            continue
        if isinstance(made, Undecodable):
            assert made.reason == reason
            continue
        assert reason is None and repr(made) == repr(expected), value
        good += 1
    return good


TEXT = st.text(max_size=20) | st.sampled_from(
    ["", "NaN", "Infinity", "aGk=", "aGk", "12:30:01.5", "2026-01-31"]
)
MOMENTS = st.datetimes().map(lambda at: at.isoformat() + "Z") | st.dates().map(str) | st.times().map(str)
NUMBERS = (
    st.integers(-(2**65), 2**65)
    | st.integers(-300, 300)
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(allow_nan=False, allow_infinity=False).map(float)
)
ANY = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT | MOMENTS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(sorted(NESTED)) | TEXT, inner, max_size=5)
    ),
    max_leaves=8,
)
FITTING = {
    "b": st.booleans(),
    "i": st.integers(-(2**63), 2**63 - 1),
    "i8": st.integers(-128, 127),
    "u": st.integers(0, 2**64 - 1),
    "s": TEXT,
    "word": st.sampled_from(["new", "paid"]),
    "x": st.floats(allow_nan=False, allow_infinity=False),
    "f": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "h": st.integers(-1000, 1000),
    "d": st.decimals(-(10**9), 10**9, places=3).map(str),
    "day": st.dates().map(str),
    "at": st.datetimes().map(lambda at: at.isoformat()),
    "utc": st.datetimes().map(lambda at: at.isoformat() + "Z"),
    "t64": st.times().map(str),
    "list": st.lists(st.none() | st.integers(-(10**6), 10**6), max_size=4),
    "lists": st.lists(st.none() | st.lists(st.integers(0, 9), max_size=2), max_size=3),
    "map": st.dictionaries(TEXT, st.none() | st.integers(0, 9), max_size=3),
    "days": st.dictionaries(TEXT, st.dates().map(str), max_size=3),
}
INNER = st.fixed_dictionaries({}, optional={name: FITTING[name] for name in FITTING if name in LEAVES})
GOOD = st.fixed_dictionaries(
    {},
    optional={
        **FITTING,
        "extra": ANY,
        "in": st.fixed_dictionaries(
            {}, optional={"x": st.integers(0, 9), "deep": st.lists(INNER, max_size=2)}
        ),
    },
)
WRITING = st.sampled_from([{}, {"indent": 1}, {"separators": (",", ":")}, {"ensure_ascii": False}])


@settings(max_examples=examples(250), deadline=None)
@given(GOOD, st.dictionaries(st.sampled_from(sorted(NESTED)), ANY, max_size=2), WRITING, st.randoms())
def test_json_of_a_schema(good, wrong, how, dice):
    fields = list(good.items())
    dice.shuffle(fields)
    values = [json.dumps(each, **how).encode() for each in (dict(fields), good | wrong, wrong)]
    twice = values[0].rstrip()[:-1] + b"," + values[2].lstrip()[1:]
    cut = dice.randrange(len(values[0]))
    damaged = values[0][:cut] + bytes([dice.randrange(256)]) + values[0][cut + 1 :]
    assert agree(WIDE, [*values, twice, values[0][:cut], damaged, values[0] + b" x", b"null"]) > 0


@settings(max_examples=examples(100), deadline=None)
@given(st.dictionaries(st.sampled_from(["i", "s", "in", "x", "y"]), ANY, max_size=4), WRITING)
def test_json_with_required_fields(row, how):
    inner = {"i": 1, "in": row}
    agree(STRICT, [json.dumps(each, **how).encode() for each in (row, inner, {"i": 1, "in": {"x": 1.5}})])


@settings(max_examples=examples(200), deadline=None)
@given(ANY, WRITING, st.randoms())
def test_json_without_a_schema(row, how, dice):
    decoder = bowstring.Json().object_decoder()
    value = json.dumps(row, **how).encode()
    assert repr(decoder(value)) == repr(json.loads(value)) == repr(decoder(b" " + value + b"\n"))
    cut = dice.randrange(len(value))
    for damaged in (value[:cut], value + b"]", value[:cut] + bytes([dice.randrange(256)]) + value[cut + 1 :]):
        made = decoder(damaged)
        try:
            expected = json.loads(damaged.decode())
        except ValueError:
            assert isinstance(made, Undecodable)
        else:
            assert isinstance(made, Undecodable) or repr(made) == repr(expected)


def test_json_without_a_schema_names_what_is_wrong():
    decoder = bowstring.Json(framing="confluent").object_decoder()
    assert decoder(b'\0\0\0\0\x07{"a": []}') == {"a": []}
    assert decoder(b'{"a": []}').reason.endswith("Confluent's framing: a zero byte and the schema's id")
    decoder = bowstring.Json().object_decoder()
    assert decoder(b"").reason == "at byte 0: empty"
    assert decoder(b"[NaN]").reason == "at byte 1: not JSON"
    assert decoder(b"[" * 2000).reason == "at byte 1000: nested more than 1000 deep"
    assert decoder(b"9" * 5000).reason == "at byte 5000: a shorter number is needed"
    with pytest.raises(ValueSchemaError, match="give a schema"):
        bowstring.Json().decode(pa.array([b"{}"]))


@pytest.mark.parametrize(
    ("form", "values"),
    [
        (bowstring.Avro(AVRO_SCHEMA), AVRO_VALUES),
        (bowstring.Protobuf(M), PROTOBUF_VALUES),
        (bowstring.Protobuf(Keyed), PROTOBUF_VALUES),
        (bowstring.Text(), ["é".encode(), b"", b"hat", b"\xff", b"a\xe2\x82"]),
    ],
    ids=["avro", "protobuf", "protobuf of others' values", "text"],
)
def test_other_formats(form, values):
    dice = random.Random(5)
    values = list(values)
    for value in values[:40]:
        for _ in range(5):
            cut = dice.randrange(len(value) + 1)
            values += [value[:cut], value[:cut] + bytes([dice.randrange(256)]) + value[cut + 1 :]]
    assert agree(form, values) > 0


def test_objects_of_schemas_by_id():
    old = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
    new = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "id", "type": "long"}, {"name": "s", "type": "string"}],
    }
    reader = {**new, "fields": [new["fields"][0], {**new["fields"][1], "default": "?"}]}
    asked = []

    def schema(schema_id):
        asked.append(schema_id)
        return {1: old, 2: new}.get(schema_id)

    decoder = bowstring.Avro(reader, framing="confluent", schemas=schema).object_decoder()
    for _ in range(3):
        assert decoder(b"\0\0\0\0\x01\x02") == {"id": 1, "s": "?"}
        assert decoder(b"\0\0\0\0\x02\x02\x04hi") == {"id": 1, "s": "hi"}
        assert (
            decoder(b"\0\0\0\0\x03\x02").reason == "at byte 5: no schema is known for the value's schema id"
        )
    assert asked == [1, 2, 3]


def test_dates_that_python_does_not_have_are_reasons():
    form = bowstring.Json(pa.schema({"day": pa.date32(), "n": pa.int8()}))
    decoder = form.object_decoder()
    assert decoder(b'{"day": 2000000000}').reason.startswith("no Python object has this value")
    assert decoder(b'{"day": 1}') == {"day": decoder(b'{"day": "1970-01-02"}')["day"], "n": None}


def test_nothing_is_leaked():
    decoders = [
        WIDE.object_decoder(),
        bowstring.Json().object_decoder(),
        bowstring.Avro(AVRO_SCHEMA).object_decoder(),
    ]
    values = [
        b'{"s":"abcdef%d","list":[1,2],"map":{"a":1},"in":{"x":1,"deep":[{"s":"y"}]},"zz":1}' % i
        for i in range(99)
    ]
    values += [value[: 3 * i] for i, value in enumerate(values[:20])] + list(AVRO_VALUES)

    def run() -> int:
        for decoder in decoders:
            for value in values:
                decoder(value)
        gc.collect()
        return sys.getallocatedblocks()

    run()
    before = run()
    assert run() - before < 50


def test_single_values_are_encoded_and_decoded():
    for form, values in ((bowstring.Text(), ["é", ""]), (bowstring.Json(), [{"é": [1, 2.5, None]}, [], "x"])):
        decoder = form.object_decoder()
        assert [decoder(form.encode_value(value)) for value in values] == values
        assert form.encode_value(None) is None and form.encode_value(b"?") == b"?"
    for form, value in ((bowstring.Text(), 5), (bowstring.Text(), "\ud800"), (bowstring.Json(), {1, 2})):
        with pytest.raises(ValueEncodeError):
            form.encode_value(value)


def test_text_in_arrow():
    form = bowstring.Text()
    for layout in (pa.binary(), pa.large_binary(), pa.binary_view()):
        texts, errors = form.decode(
            pa.array([b"hat", None, b"\xffz", "é".encode() * 9], pa.binary()).cast(layout)[1:]
        )
        assert texts.to_pylist() == [None, None, "é" * 9] and texts.type == pa.string()
        assert errors.to_pylist() == [None, "at byte 0: not UTF-8", None]
    assert form.encode(pa.chunked_array([["hat", None]])).to_pylist() == [b"hat", None]
    with pytest.raises(ValueDecodeError, match="at byte 1: not UTF-8"):
        bowstring.Text(on_error="raise").decode(pa.array([b"a\xff"]))
