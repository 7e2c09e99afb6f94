"""bowstring.read and bowstring.scan: bounded tables, and what other libraries make of them."""

import datetime
import io
import sys

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bowstring
from bowstring import tables
from bowstring.clients.errors import (
    ConfigError,
    CorruptBatchError,
    MissingPackageError,
    OffsetOutOfRangeError,
    UnknownTopicError,
)
from tests.support.arrow_formats import Lengths
from tests.support.arrow_reference import marker
from tests.support.fetch_log import FetchLog
from tests.support.numbered_records import fill, numbered


@pytest.fixture(scope="module")
def topic(bootstrap, admin):
    """900 records in three partitions, ten milliseconds apart in each."""
    name = "table-of-records"
    admin.create_topic(name, 3)
    fill(bootstrap, name, 900, 3)
    yield name
    admin.delete_topics([name])


def pairs(table):
    return list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


EVERYTHING = [(p, o) for p in range(3) for o in range(300)]


@pytest.mark.parametrize("layout", ["binary", "binary_view"])
def test_everything_in_order(bootstrap, topic, layout):
    table = bowstring.read(topic, bootstrap_servers=bootstrap, layout=layout)
    assert isinstance(table, bowstring.Records) and len(table) == table.num_rows == 900
    assert pairs(table) == EVERYTHING
    assert table["value"].to_pylist() == [b"value %06d" % (3 * o + p) for p, o in EVERYTHING]
    assert "900 rows" in repr(table)
    assert table == table.to_arrow() and table == bowstring.read(
        topic, bootstrap_servers=bootstrap, layout=layout
    )


def local(ms):
    return datetime.datetime.fromtimestamp(ms / 1000)


def utc(ms):
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)


@pytest.mark.parametrize(
    ("start", "end", "wanted"),
    [
        (-2, "latest", {p: (298, 300) for p in range(3)}),
        (290, 295, {p: (290, 295) for p in range(3)}),
        ("earliest", -290, {p: (0, 10) for p in range(3)}),
        (295, 1000, {p: (295, 300) for p in range(3)}),
        ("latest", "latest", {}),
        (-1000, -299, {p: (0, 1) for p in range(3)}),
        ({0: 298, 1: "latest", 2: -1}, "latest", {0: (298, 300), 2: (299, 300)}),
        ({0: "latest", 1: "latest"}, {2: 2}, {2: (0, 2)}),
        (utc(1000 + 3 * 100), utc(1000 + 3 * 110), {p: (100, 110) for p in range(3)}),
        (local(1000 + 3 * 100), local(5000), {p: (100, 300) for p in range(3)}),
        (
            pd.Timestamp(1300, unit="ms", tz="UTC"),
            {0: 101, 1: 101, 2: 101},
            {p: (100, 101) for p in range(3)},
        ),
        (utc(10_000), "latest", {}),
    ],
)
def test_bounds(bootstrap, topic, start, end, wanted):
    table = bowstring.read(topic, start, end, bootstrap_servers=bootstrap, columns=["partition", "offset"])
    assert pairs(table) == [(p, o) for p, (first, last) in wanted.items() for o in range(first, last)]


def test_partitions_and_topics(bootstrap, topic, new_topic):
    other = new_topic()
    fill(bootstrap, other, 5)
    table = bowstring.read(
        topic, bootstrap_servers=bootstrap, partitions=[2, 0], columns=["partition", "offset"]
    )
    assert pairs(table) == [pair for pair in EVERYTHING if pair[0] != 1]
    both = bowstring.read([other, topic], -1, bootstrap_servers=bootstrap, columns=["topic"])
    assert both["topic"].to_pylist() == [other, topic, topic, topic]
    with pytest.raises(ConfigError, match=r"\[7\]"):
        bowstring.read(topic, bootstrap_servers=bootstrap, partitions=[7])


def test_what_was_produced_after_the_call_is_not_read(bootstrap, new_topic):
    topic = new_topic()
    fill(bootstrap, topic, 10)
    reader = bowstring.scan(topic, bootstrap_servers=bootstrap, columns=["offset"])
    fill(bootstrap, topic, 10)
    assert reader.read_all()["offset"].to_pylist() == list(range(10))


def test_servers_of_the_environment(bootstrap, topic, monkeypatch):
    monkeypatch.setenv("BOWSTRING_BOOTSTRAP_SERVERS", bootstrap)
    assert bowstring.read(topic, -1, columns=["offset"]).num_rows == 3


@pytest.mark.parametrize("layout", ["binary", "binary_view"])
def test_other_libraries(bootstrap, topic, layout):
    records = bowstring.read(topic, bootstrap_servers=bootstrap, layout=layout)
    frame = records.to_polars()
    assert frame.shape == (900, 8)
    assert frame["value"][0] == b"value 000000"
    assert pl.DataFrame(records).equals(frame)
    assert records.to_pandas()["value"][899] == b"value 000899"
    counted = duckdb.sql(
        "SELECT partition, count(*), max(value) FROM records GROUP BY 1 ORDER BY 1"
    ).fetchall()
    assert counted == [(p, 300, b"value %06d" % (897 + p)) for p in range(3)]
    assert pa.table(records).num_rows == 900
    stream = bowstring.scan(  # noqa: F841 - DuckDB finds it
        topic, bootstrap_servers=bootstrap, columns=["value"], layout=layout
    )
    assert duckdb.sql("SELECT count(*), min(value) FROM stream").fetchall() == [(900, b"value 000000")]
    again = bowstring.scan(topic, bootstrap_servers=bootstrap, columns=["offset"], layout=layout)
    assert pl.DataFrame(again).shape == (900, 1)


def test_without_polars_the_extra_is_named(bootstrap, topic, monkeypatch):
    records = bowstring.read(topic, -1, bootstrap_servers=bootstrap)
    for package in ("polars", "pandas"):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(MissingPackageError, match=rf"bowstring\[{package}\]"):
            getattr(records, f"to_{package}")()
    with pytest.raises(AttributeError):
        _ = records.nothing_of_this_name


def test_typed_values(bootstrap, topic):
    table = bowstring.read(
        topic,
        -1,
        bootstrap_servers=bootstrap,
        columns=["partition", "value", "key"],
        value=Lengths(),
        key=Lengths(),
    )
    assert table.schema.names == ["partition", "value", "value_error", "key", "key_error"]
    assert table["value"].to_pylist() == [{"length": 12}] * 3
    assert table["key_error"].null_count == 3
    reader = bowstring.scan(topic, -1, bootstrap_servers=bootstrap, columns=["value"], value=Lengths())
    assert reader.schema.names == ["value", "value_error"]
    assert reader.read_all().num_rows == 3
    with pytest.raises(ConfigError, match=r"leaves it out"):
        bowstring.read(topic, bootstrap_servers=bootstrap, columns=["offset"], value=Lengths())


def test_transactions_and_gaps():
    fields = {"producer_epoch": 0, "base_sequence": 0, "transactional": True}
    log = FetchLog(
        [numbered(3, producer_id=5, **fields), marker(5, 13, 0), numbered(20), marker(5, 30, 1)],
        aborted=[(5, 3)],
    )
    with log.serve() as broker:
        committed = bowstring.read(
            "t", bootstrap_servers=broker.bootstrap, columns=["offset"], isolation_level="read_committed"
        )
        assert committed["offset"].to_pylist() == list(range(20, 30))
        assert bowstring.read("t", bootstrap_servers=broker.bootstrap, columns=["offset"]).num_rows == 20


def test_errors_have_names(bootstrap, topic, new_topic):
    with pytest.raises(UnknownTopicError, match=r"nowhere.*topics create"):
        bowstring.read("nowhere", bootstrap_servers=bootstrap)
    with pytest.raises(ConfigError, match=r"start is 1\.5"):
        bowstring.read(topic, 1.5, bootstrap_servers=bootstrap)
    with pytest.raises(ConfigError, match=r"end is 'yesterday'.*earliest"):
        bowstring.read(topic, end="yesterday", bootstrap_servers=bootstrap)
    bad = bytearray(numbered(0))
    bad[-2] ^= 1
    with FetchLog([bad]).serve() as broker, pytest.raises(CorruptBatchError, match=r"t-0.*CRC"):
        bowstring.read("t", bootstrap_servers=broker.bootstrap)


def test_an_offset_that_was_deleted(bootstrap, admin, new_topic):
    topic = new_topic()
    fill(bootstrap, topic, 20)
    admin.delete_records({bowstring.TopicPartition(topic, 0): 10})
    assert bowstring.read(topic, bootstrap_servers=bootstrap, columns=["offset"])["offset"].to_pylist() == [
        *range(10, 20)
    ]
    with pytest.raises(OffsetOutOfRangeError, match=r"offset 3 is not in the log"):
        bowstring.read(topic, 3, bootstrap_servers=bootstrap)


FRAMES = {
    "polars": pl.DataFrame({"key": ["a", "b"], "value": ["1", "2"]}),
    "pandas": pd.DataFrame({"key": ["a", "b"], "value": ["1", "2"]}),
    "pyarrow": pa.table({"key": ["a", "b"], "value": ["1", "2"]}),
    "batch": pa.record_batch({"key": ["a", "b"], "value": ["1", "2"]}),
    "duckdb": duckdb.sql("SELECT * FROM (VALUES ('a', '1'), ('b', '2')) t(key, value)"),
}


@pytest.mark.parametrize("library", FRAMES)
def test_written_frames_are_read_again(bootstrap, admin, library):
    name = f"written-{library}"
    admin.create_topic(name, 1)
    assert bowstring.write(name, FRAMES[library], bootstrap_servers=bootstrap, progress=False) == 2
    found = bowstring.read(name, bootstrap_servers=bootstrap)
    assert found["key"].to_pylist() == [b"a", b"b"] and found["value"].to_pylist() == [b"1", b"2"]
    assert bowstring.write(name, found, bootstrap_servers=bootstrap, partition="partition") == 2
    assert bowstring.read(name, bootstrap_servers=bootstrap)["value"].to_pylist() == [b"1", b"2"] * 2


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_long_writes_go_in_pieces_and_show_a_bar(bootstrap, admin, monkeypatch):
    monkeypatch.setattr(tables, "WRITE_ROWS", 7)
    monkeypatch.setattr("sys.stderr", Terminal())
    admin.create_topic("in-pieces", 1)
    values = [b"%d" % i for i in range(200)]
    data = pa.table({"value": values})
    assert bowstring.write("in-pieces", data, bootstrap_servers=bootstrap, progress=True) == 200
    found = bowstring.read("in-pieces", bootstrap_servers=bootstrap, progress=True)
    assert found["value"].to_pylist() == values
    assert "write in-pieces" in sys.stderr.getvalue() and "read in-pieces" in sys.stderr.getvalue()


@pytest.mark.parametrize("rows", [0, 1])
def test_frames_that_are_no_records_are_refused(bootstrap, rows):
    with pytest.raises(ConfigError, match="'price' has no part in a record"):
        bowstring.write("unwritten", pl.DataFrame({"price": [1] * rows}), bootstrap_servers=bootstrap)
    with pytest.raises(ConfigError, match="a list is no Arrow data"):
        bowstring.write("unwritten", [b"value"], bootstrap_servers=bootstrap)


def test_notebooks_show_the_first_rows_as_text():
    table = pa.table({"value": [b"<b>", b"\xff\x00", None, *[b"x" * 200] * 20]})
    shown = tables.Records(table)._repr_html_()
    assert "<td>&lt;b&gt;</td>" in shown and "<td>ff 00</td>" in shown and "<td></td>" in shown
    assert "13 more of 23 rows" in shown and "x" * 121 not in shown
