"""bowstring._native.rest.record_lines: Arrow batches to JSON lines, CSV and events."""

import base64
import csv
import io
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring._native.rest.record_lines import RecordLines

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
PARTS = st.none() | st.binary(max_size=40) | st.text(max_size=30).map(str.encode)
ROWS = st.lists(
    st.tuples(
        PARTS, PARTS, st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=2)
    ),
    max_size=20,
)


def batch_of(rows):
    """Rows of (key, value, headers); the first has offset 7."""
    return pa.record_batch(
        {
            "partition": pa.array([3] * len(rows), pa.int32()),
            "offset": pa.array(range(7, 7 + len(rows)), pa.int64()),
            "timestamp": pa.array([1_700_000_000_123] * len(rows), pa.timestamp("ms", "UTC")),
            "key": pa.array([row[0] for row in rows], pa.binary()),
            "value": pa.array([row[1] for row in rows], pa.binary()),
            "headers": pa.array([[{"key": k, "value": v} for k, v in row[2]] for row in rows], HEADERS),
        }
    )


def text_of(data):
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def part_of(found, name):
    """The bytes that a member of a line stands for."""
    if f"{name}_base64" in found:
        return base64.b64decode(found[f"{name}_base64"])
    return None if found[name] is None else found[name].encode()


@given(ROWS)
def test_lines_keep_every_byte(rows):
    lines = RecordLines("ndjson", "string", "string").lines(batch_of(rows)).split(b"\n")
    assert lines.pop() == b""
    found = [json.loads(line) for line in lines]
    assert [each["offset"] for each in found] == list(range(7, 7 + len(rows)))
    for each, (key, value, headers) in zip(found, rows, strict=True):
        assert (each["partition"], each["timestamp"]) == (3, 1_700_000_000_123)
        assert (part_of(each, "key"), part_of(each, "value")) == (key, value)
        encoded = [[n, None if v is None else base64.b64encode(v).decode()] for n, v in headers]
        assert each.get("headers", []) == encoded


@given(ROWS)
def test_cells_keep_every_byte(rows):
    lines = RecordLines("csv", "string", "base64")
    text = (lines.head() + lines.lines(batch_of(rows))).decode()
    found = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(found) == len(rows)
    for each, (key, value, _) in zip(found, rows, strict=True):
        if key is None or text_of(key) is None:
            assert each["key"] == ""
        else:
            assert each["key"] == key.decode()
        assert base64.b64decode(each["key_base64"]) == (
            b"" if key is None or text_of(key) is not None else key
        )
        assert base64.b64decode(each["value_base64"]) == (value or b"")


def test_null_and_empty_text_differ_in_csv():
    lines = RecordLines("csv", "string", "string").lines(batch_of([(None, b"", [])]))
    assert lines == b'3,7,1700000000123,,"",,,\r\n'


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (b' {"a": [1, 2]} ', '"value":{"a": [1, 2]}'),
        (b"12", '"value":12'),
        (b"null", '"value":null'),
        (b'{"a":\n1}', '"value_base64":"eyJhIjoKMX0="'),
        (b"{", '"value_base64":"ew=="'),
        (b"1 2", '"value_base64":"MSAy"'),
        (b"", '"value_base64":""'),
        (b"[" * 5000, f'"value_base64":"{base64.b64encode(b"[" * 5000).decode()}"'),
    ],
)
def test_json_stays_as_it_is(value, line):
    found = RecordLines("ndjson", "base64", "json").lines(batch_of([(b"k", value, [])])).decode()
    assert line in found and '"key":"aw=="' in found
    json.loads(found)


def test_events_have_an_id_at_the_end():
    found = RecordLines("events", "string", "string").lines(
        batch_of([(None, b"a", []), (None, b"b", [])]), b"id: 3:9\n"
    )
    first, second, end = found.split(b"\n\n")
    assert first.startswith(b'data: {"partition":3,"offset":7,')
    assert second.startswith(b'id: 3:9\ndata: {"partition":3,"offset":8,')
    assert end == b""


def test_a_slice_begins_where_it_does():
    rows = [(None, str(number).encode(), [("n", str(number).encode())]) for number in range(20)]
    lines = RecordLines("ndjson", "string", "string").lines(batch_of(rows).slice(11, 3))
    found = [json.loads(line) for line in lines.splitlines()]
    assert [(each["offset"], each["value"]) for each in found] == [(18, "11"), (19, "12"), (20, "13")]
    assert [base64.b64decode(each["headers"][0][1]) for each in found] == [b"11", b"12", b"13"]


def test_other_columns_are_refused():
    with pytest.raises(ValueError, match="no column partition"):
        RecordLines("ndjson", "string", "string").lines(pa.record_batch({"a": pa.array([1])}))
    with pytest.raises(KeyError):
        RecordLines("xml", "string", "string")
