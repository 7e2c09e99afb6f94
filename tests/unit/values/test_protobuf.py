"""bowstring.Protobuf against the protobuf package: every type, merging, damage, the way back."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError

import bowstring
from bowstring.values.errors import ValueEncodeError, ValueSchemaError
from tests.support.protobuf_messages import FILES, Deep, Keyed, M, Old, Tree
from tests.support.protobuf_values import MAPS, MESSAGES, VALUES, plain


def rows_of(structs: pa.StructArray) -> list[Any]:
    rows = structs.to_pylist()
    return [row and {name: dict(v) if name in MAPS else v for name, v in row.items()} for row in rows]


def test_every_type_and_the_way_back():
    form = bowstring.Protobuf(M)
    structs, errors = form.decode(pa.array([*VALUES, None]))
    structs.validate(full=True)
    assert errors is None and rows_of(structs) == [*map(plain, MESSAGES), None]
    encoded = form.encode(structs).to_pylist()
    assert encoded[-1] is None
    assert [M.FromString(value) for value in encoded[:-1]] == MESSAGES


def test_messages_one_behind_the_other_are_merged():
    values = [a + b for a, b in itertools.pairwise(VALUES)]
    structs, errors = bowstring.Protobuf(M).decode(pa.array(values))
    assert errors is None
    for row, value in zip(rows_of(structs), values, strict=True):
        assert row == plain(M.FromString(value))


def keyed(r: random.Random) -> Any:
    message = Keyed()
    for _ in range(r.choice([0, 1, 2, 3, 40])):
        key = r.randint(-9, 9)
        message.numbers[key] = "é" * r.randint(0, 3)
        message.flags[key > 0] = r.random() < 0.5
        message.times[key].seconds = r.randint(0, 10**9)
        words = message.words[f"w{key}" * r.randint(0, 2)]
        words.tags.append("t" * r.randint(0, 2))
        words.counts["n" * r.randint(0, 2)] = key
    return message


def keyed_row(message: Any) -> dict[str, Any]:
    """A message in the form of Arrow's rows, the entries of maps as dictionaries."""
    words = {key: {"counts": dict(each.counts), "tags": [*each.tags]} for key, each in message.words.items()}
    times = {key: each.seconds for key, each in message.times.items()}
    return {
        "numbers": dict(message.numbers), "flags": dict(message.flags), "words": words, "times": times
    }  # fmt: skip


def test_of_entries_with_the_same_key_the_last_one_stays():
    r = random.Random(4)
    parts = [keyed(r).SerializeToString() for _ in range(60)]
    values = [b"", *(b"".join(r.choices(parts, k=r.randint(1, 6))) for _ in range(200)), None, b"\x0a\x05"]
    form = bowstring.Protobuf(Keyed)
    structs, errors = form.decode(pa.array(values))
    structs.validate(full=True)
    assert errors is not None and errors.null_count == len(values) - 1
    for row, value in zip(structs.to_pylist()[:-2], values, strict=False):
        for words in (each for _, each in row["words"]):
            assert len(dict(words["counts"])) == len(words["counts"])
            words["counts"] = dict(words["counts"])
        row["times"] = [(key, round(time.timestamp())) for key, time in row["times"]]
        assert all(len(dict(entries)) == len(entries) for entries in row.values())
        assert {name: dict(entries) for name, entries in row.items()} == keyed_row(Keyed.FromString(value))


def test_damage_stays_where_it_is():
    form = bowstring.Protobuf(M)
    first = plain(MESSAGES[0])
    r = random.Random(2)
    agreed = 0
    for _ in range(1500):
        value = bytearray(r.choice(VALUES)) or bytearray(1)
        for _ in range(r.randint(1, 3)):
            value[r.randrange(len(value))] = r.randrange(256)
        value = value[: r.randrange(len(value) + 1)] if r.random() < 0.5 else value
        structs, errors = form.decode(pa.array([VALUES[0], bytes(value), VALUES[0]]))
        structs.validate(full=True)
        rows = rows_of(structs.take(pa.array([0, 2])))
        assert rows == [first, first]
        try:
            message = M.FromString(bytes(value))
            expected = plain(message)
        except DecodeError:
            assert errors is not None and not structs[1].is_valid
            continue
        except OverflowError:  # Python's datetime ends sooner.
            continue
        if errors is not None:
            assert "9999" in errors[1].as_py()
            continue
        # The package drops entries of maps that have other fields, too.
        mine = {name: v for name, v in rows_of(structs[1:2])[0].items() if name not in MAPS}
        assert str(mine).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc") == str(
            {name: v for name, v in expected.items() if name not in MAPS}
        )
        agreed += 1
    assert agreed > 100


def test_descriptors_and_names():
    by_class = bowstring.Protobuf(M)
    for same in (M.DESCRIPTOR, (FILES.SerializeToString(), "t.M")):
        form = bowstring.Protobuf(same)
        assert form.schema == by_class.schema and repr(form) == "Protobuf(t.M)"
    assert by_class.schema.field("ts").type == pa.timestamp("us", "UTC")
    assert by_class.schema.field("mm").type.item_type == by_class.schema.field("inner").type
    with pytest.raises(ValueSchemaError, match=r"no message t\.Missing"):
        bowstring.Protobuf((FILES.SerializeToString(), "t.Missing"))
    with pytest.raises(ValueSchemaError, match="cannot be read"):
        bowstring.Protobuf(("/no/such/file", "t.M"))
    with pytest.raises(ValueSchemaError, match="contains itself"):
        bowstring.Protobuf(Tree)


def test_proto2_groups_presence_and_closed_enums():
    message = Old(n=0, unpacked=[1, 2])
    message.g.a = "in a group"
    message.gs.add().a = "x"
    message.gs.add()
    form = bowstring.Protobuf(Old)
    value = message.SerializeToString()
    structs, errors = form.decode(pa.array([value, b"", b"\x10\x05", b"\x10\x01", b"\x1b", b"\x1c"]))
    full = {
        "n": 0,
        "kind": None,
        "g": {"a": "in a group"},
        "gs": [{"a": "x"}, {"a": None}],
        "unpacked": [1, 2],
    }
    empty = {"n": None, "kind": None, "g": None, "gs": [], "unpacked": []}
    assert structs.to_pylist() == [full, empty, empty, {**empty, "kind": "ONE"}, None, None]
    assert "a group does not end" in errors[4].as_py() and "without having begun" in errors[5].as_py()
    assert Old.FromString(form.encode(structs[:1])[0].as_py()) == message


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\x00", "a field number is out of range"),
        (b"\x0f", "an unknown wire type"),
        (b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "more than ten bytes"),
        (b"\x18", "is truncated"),
        (b"\x09\x00", "is truncated in f1"),
        (b"\x4a\x05a", "a length exceeds"),
        (b"\x4a\x01\xff", "not UTF-8 in f9"),
        (b"\xf3\x3f" * 150, "more than 100 deep"),
    ],
)
def test_bad_values(value, reason):
    structs, errors = bowstring.Protobuf(M).decode(pa.array([b"", value]))
    assert structs[0].is_valid and not structs[1].is_valid and reason in errors[1].as_py()


def test_confluent_framing():
    form = bowstring.Protobuf(Deep, framing="confluent", schema_id=3)
    value = form.encode(pa.table({"v": pa.array([5], pa.int32())}))[0].as_py()
    assert value == b"\0\0\0\0\x03\x04\x02\x06\x08\x05"  # two indexes: the file's second message, its fourth
    structs, errors = form.decode(pa.array([value, b"\0\0\0\0\x03\0\x08\x05", b"\x08\x05"]))
    assert structs.to_pylist() == [{"v": 5}, None, None]
    assert "another message" in errors[1].as_py() and "lacks Confluent" in errors[2].as_py()


def test_encode_says_what_does_not_fit():
    form = bowstring.Protobuf(M)
    enums = pa.table({"e": ["GREEN", "99", "-3", None]})
    assert [M.FromString(v.as_py()).e for v in form.encode(enums)] == [1, 99, -3, 0]
    with pytest.raises(ValueEncodeError, match="row 1, e: the text is not a name of the enum"):
        form.encode(pa.table({"e": ["RED", "PINK"]}))
    with pytest.raises(ValueEncodeError, match="row 0, r9: null in a repeated field"):
        form.encode(pa.table({"r9": [["a", None]]}))
