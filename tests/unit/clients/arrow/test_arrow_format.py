"""Arrow arrays out of native buffers, and typed columns in the place of bytes."""

import subprocess
import sys

import pyarrow as pa
import pytest

import bowstring
from bowstring._native.record.encode import encode_batch
from bowstring.clients.arrow import arrow_format
from bowstring.clients.arrow.arrow_format import COLUMNS, ArrowFormat, schema
from bowstring.clients.arrow.typed_values import TypedColumns
from bowstring.clients.errors import ConfigError, MissingPackageError
from bowstring.values.errors import ValueDecodeError
from tests.support.arrow_formats import Lengths
from tests.support.waiting import HANG_S

RECORDS = [
    (b"k", b"v" * 20, 1000, [("h", b"1"), ("n", None)]),
    (None, b"short", 1001, None),
    (b"", None, 1002, [("h", b"")]),
]
DATA = encode_batch(RECORDS, base_offset=5)


def batch_of(data=DATA, **form):
    made = ArrowFormat(**form)
    rows = made.rows(1 << 20, 1 << 30)
    rows.append(data, 0, topic=1, partition=3)
    batch = made.batch(rows, ("other", "t"))
    batch.validate(full=True)
    return batch


@pytest.mark.parametrize("layout", ["binary", "binary_view"])
def test_every_column(layout):
    batch = batch_of(layout=layout)
    assert batch.schema == schema(COLUMNS, layout)
    assert batch["topic"].to_pylist() == ["t"] * 3
    assert batch["partition"].to_pylist() == [3] * 3
    assert batch["offset"].to_pylist() == [5, 6, 7]
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [1000, 1001, 1002]
    assert batch["timestamp_type"].to_pylist() == [0] * 3
    assert batch["key"].to_pylist() == [b"k", None, b""]
    assert batch["value"].to_pylist() == [b"v" * 20, b"short", None]
    assert [[tuple(h.values()) for h in row] for row in batch["headers"].to_pylist()] == [
        [("h", b"1"), ("n", None)], [], [("h", b"")],
    ]  # fmt: skip
    assert (batch["key"].null_count, batch["offset"].null_count) == (1, 0)


def test_columns_come_in_the_order_asked_for_and_with_their_unit():
    batch = batch_of(columns=["value", "timestamp"], timestamp_unit="us")
    assert batch.schema.names == ["value", "timestamp"]
    assert batch.schema.field("timestamp").type == pa.timestamp("us", "UTC")
    assert batch["timestamp"].cast(pa.int64())[0].as_py() == 1_000_000


def test_no_columns_still_count():
    assert batch_of(columns=[]).num_rows == 3


def test_nothing_makes_an_empty_batch_of_the_schema():
    made = ArrowFormat()
    batch = made.batch(made.rows(10, 10), ())
    assert (batch.num_rows, batch.schema) == (0, schema())
    batch.validate(full=True)


def test_views_keep_the_fetched_bytes_alive():
    fetched = bytearray(DATA)
    value = batch_of(fetched, columns=["value"], layout="binary_view")["value"]
    with pytest.raises(BufferError):
        fetched.append(0)
    assert value[0].as_py() == b"v" * 20
    del value
    fetched.append(0)


def test_batches_share_the_dictionary_of_topics():
    made = ArrowFormat(["topic"])
    batches = []
    for number in (0, 1):
        rows = made.rows(10, 1000)
        rows.append(DATA, 0, topic=number)
        batches.append(made.batch(rows, ("a", "b")))
    table = pa.Table.from_batches(batches)
    assert table["topic"].to_pylist() == ["a"] * 3 + ["b"] * 3
    first, second = (batch["topic"].dictionary.buffers()[2].address for batch in batches)
    assert first == second


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"columns": ["offsets"]}, "no column 'offsets'"),
        ({"columns": ["key", "key"]}, "duplicate"),
        ({"layout": "large"}, "binary_view"),
        ({"timestamp_unit": "ns"}, "'ms', 'us'"),
    ],
)
def test_what_makes_no_sense(form, words):
    with pytest.raises(ConfigError, match=words):
        ArrowFormat(**form)


def test_without_pyarrow_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    arrow_format.pyarrow.cache_clear()
    try:
        with pytest.raises(MissingPackageError, match=r"pip install 'bowstring\[arrow\]'"):
            arrow_format.pyarrow()
        assert issubclass(MissingPackageError, ImportError)
    finally:
        arrow_format.pyarrow.cache_clear()


def test_clients_start_without_pyarrow():
    code = "import sys, bowstring; bowstring.Consumer, bowstring.Producer, bowstring.Admin; print('pyarrow' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=True
    )
    assert ran.stdout.strip() == "False"


@pytest.mark.parametrize("layout", ["binary", "binary_view"])
def test_typed_values(layout):
    batch = batch_of(columns=["offset", "value"], layout=layout)
    typed = TypedColumns(batch.schema, {"key": None, "value": Lengths()})
    found = typed.batch(batch)
    assert found.schema == typed.schema
    assert found.schema.names == ["offset", "value", "value_error"]
    assert found["value"].to_pylist() == [{"length": 20}, {"length": 5}, None]
    assert found["value_error"].null_count == 3
    bad = batch_of(encode_batch([(None, b"bad", 0, None)]), columns=["offset", "value"], layout=layout)
    assert typed.batch(bad)["value_error"].to_pylist() == ["bad value"]


def test_a_bad_value_that_raises_names_its_record():
    strict = bowstring.Json(pa.schema({"n": pa.int64()}), on_error="raise")
    for columns, record in (
        (["value", "offset", "partition", "topic"], "topic t, partition 3, offset 5, value"),
        (["value"], "value 0"),
    ):
        batch = batch_of(columns=columns)
        with pytest.raises(ValueDecodeError, match=rf"^{record}: at byte 0: .*2 values .* are bad") as caught:
            TypedColumns(batch.schema, {"value": strict}).batch(batch)
        assert (caught.value.row, caught.value.bad_values, caught.value.record) == (0, 2, record)


def test_a_format_for_a_column_that_is_not_read():
    with pytest.raises(ConfigError, match=r"'value'.*leaves it out"):
        TypedColumns(schema(("offset",)), {"value": Lengths()})


def test_reading_does_not_import_pandas(bootstrap, new_topic):
    """pyarrow.array() does, and costs the first poll a third of a second."""
    topic = new_topic()
    with bowstring.Producer(bootstrap) as producer:
        producer.send(topic, b"one").result(HANG_S)
    program = (
        "import sys, bowstring\n"
        f"assert bowstring.read({topic!r}, bootstrap_servers={bootstrap!r}).num_rows == 1\n"
        "assert 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=HANG_S)
