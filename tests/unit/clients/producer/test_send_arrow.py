"""Arrow data to records: every type and layout, placed as `send` places them, byte for byte the same batches."""

import datetime
import gc

import hypothesis
import hypothesis.strategies as st
import pyarrow as pa
import pytest

from bowstring._native.client.partitioner import murmur2
from bowstring.clients.errors import ClientError, ConfigError
from tests.support.examples import examples
from tests.support.offline_producer import OfflineProducer

BINARY_TYPES = [
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.binary()),
    pa.dictionary(pa.uint16(), pa.string()),
    pa.dictionary(pa.int32(), pa.large_string()),
    pa.dictionary(pa.int64(), pa.binary()),
]


def array_of(values, kind):
    if pa.types.is_dictionary(kind):
        plain = array_of(values, kind.value_type)
        encoded = plain.dictionary_encode()
        return pa.DictionaryArray.from_arrays(encoded.indices.cast(kind.index_type), encoded.dictionary)
    text = kind in (pa.string(), pa.large_string(), pa.string_view())
    return pa.array([v.decode() if text and v is not None else v for v in values], kind)


texts = st.one_of(st.none(), st.text(max_size=30).map(str.encode))


@st.composite
def tables(draw):
    """A table of random types, chunks and slices, and the records it stands for."""
    count = draw(st.integers(0, 40))
    row = st.tuples(texts, texts, st.one_of(st.none(), st.integers(-(10**12), 10**13)))
    rows = draw(st.lists(row, min_size=count, max_size=count))
    columns = {}
    for at, name in enumerate(("key", "value")):
        kind = draw(st.sampled_from(BINARY_TYPES))
        before = draw(st.integers(0, 9))
        padded = [b"padding"] * before + [row[at] for row in rows]
        columns[name] = array_of(padded, kind).slice(before)
    columns["timestamp"] = pa.array([row[2] for row in rows], pa.int64()).cast(
        draw(st.sampled_from([pa.int64(), pa.timestamp("ms"), pa.timestamp("ms", "UTC")]))
    )
    table = pa.table(columns)
    cut = draw(st.integers(0, count))
    if draw(st.booleans()):
        table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    return table, rows


@hypothesis.settings(max_examples=examples(60))
@hypothesis.given(tables(), st.integers(1, 5))
def test_every_layout(drawn, partitions):
    table, rows = drawn
    producer = OfflineProducer(partitions)
    future = producer.send_arrow(table)
    assert future.record_count == len(rows)
    found = producer.records()
    keyed = {}
    for key, value, timestamp in rows:
        if key is not None:
            keyed.setdefault((murmur2(key) & 0x7FFFFFFF) % partitions, []).append((key, value, timestamp))
    for partition in range(partitions):
        there = [r for r in found.get(partition, []) if r.key is not None]
        assert [(r.key, r.value) for r in there] == [row[:2] for row in keyed.get(partition, [])]
        for record, (_, _, timestamp) in zip(there, keyed.get(partition, []), strict=True):
            assert record.timestamp == timestamp or (timestamp is None and record.timestamp > 0)
    unkeyed = [row[1] for row in rows if row[0] is None]
    assert sorted(
        (r.value for records in found.values() for r in records if r.key is None), key=repr
    ) == sorted(unkeyed, key=repr)


def test_the_same_bytes_as_send():
    headers = [("a", b"1"), ("b", None)]
    rows = [(b"k%d" % (i % 9), b"v%d" % i * (i % 7), 10**12 + i * 37) for i in range(4000)]
    one, other = OfflineProducer(3, batch_size=5000), OfflineProducer(3, batch_size=5000)
    for i, (key, value, timestamp) in enumerate(rows):
        one.send("t", value, key, timestamp=timestamp, headers=headers if i % 10 == 0 else None)
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table(
        {
            "key": [key for key, _, _ in rows],
            "value": [value for _, value, _ in rows],
            "timestamp": [timestamp for _, _, timestamp in rows],
            "headers": pa.array([headers if i % 10 == 0 else None for i in range(4000)], kind),
        }
    )
    other.send_arrow(table)
    assert one.batches() == other.batches()
    assert sum(map(len, one.batches().values())) > 10
    assert one.batches(producer=(8, 1), sequence=3) == other.batches(producer=(8, 1), sequence=3)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_the_same_bytes_as_send_compressed(codec):
    one, other = OfflineProducer(1, compression=codec), OfflineProducer(1, compression=codec)
    for i in range(1000):
        one.send("t", b"value %d" % i, timestamp=5)
    other.send_arrow(pa.table({"value": [b"value %d" % i for i in range(1000)], "timestamp": [5] * 1000}))
    assert one.batches() == other.batches()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_timestamps_of_every_unit(unit, zone):
    at = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000)
    later = datetime.datetime(2026, 5, 1, 12, 30, 0, 123_000)
    if unit == "s":
        at, later = at.replace(microsecond=0), later.replace(microsecond=0)
    column = pa.array([at, later, None], pa.timestamp(unit)).cast(pa.timestamp(unit, zone))
    producer = OfflineProducer()
    producer.send_arrow(pa.table({"value": ["x", "y", "z"], "timestamp": column}))
    (first, second, third) = producer.records()[0]
    utc = datetime.UTC
    assert first.timestamp == round(at.replace(tzinfo=utc).timestamp() * 1000)
    assert second.timestamp == round(later.replace(tzinfo=utc).timestamp() * 1000)
    assert abs(third.timestamp - datetime.datetime.now(utc).timestamp() * 1000) < 60_000


def test_times_before_1970_are_rounded_down():
    producer = OfflineProducer()
    producer.send_arrow(
        pa.table({"value": ["x", "y"], "timestamp": pa.array([-1, -1000], pa.timestamp("us"))})
    )
    assert [r.timestamp for r in producer.records()[0]] == [-1, -1]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.int64(), pa.uint64()])
def test_the_partition_column(kind):
    producer = OfflineProducer(4)
    producer.send_arrow(
        pa.table({"value": ["a", "b", "c"], "key": ["k"] * 3, "partition": pa.array([3, None, 0], kind)})
    )
    by_key = (murmur2(b"k") & 0x7FFFFFFF) % 4
    found = {(p, r.value) for p, records in producer.records().items() for r in records}
    assert found == {(3, b"a"), (by_key, b"b"), (0, b"c")}


def test_headers_as_a_map_and_as_large_lists():
    pairs = [[("a", b"1")], [], None, [("b", None), ("b", b"2")]]
    struct = pa.struct([("key", pa.large_string()), ("value", pa.binary_view())])
    for kind in (pa.map_(pa.string(), pa.binary()), pa.large_list(struct), pa.list_(struct)):
        column = pa.array([None, [("skipped", b"")], *pairs], kind).slice(2)
        producer = OfflineProducer()
        producer.send_arrow(pa.record_batch({"value": ["w", "x", "y", "z"], "headers": column}))
        assert [r.headers for r in producer.records()[0]] == [
            (("a", b"1"),),
            (),
            (),
            (("b", None), ("b", b"2")),
        ]


def test_columns_by_other_names_and_what_consumers_hand_out():
    producer = OfflineProducer(2)
    table = pa.table(
        {"id": ["a"], "body": ["b"], "at": [7], "topic": ["other"], "offset": [5], "timestamp_type": [0]}
    )
    producer.send_arrow(table, key="id", value="body", timestamp="at")
    ((record,),) = producer.records().values()
    assert (record.key, record.value, record.timestamp) == (b"a", b"b", 7)


def test_fixed_size_null_columns_and_sliced_batches():
    producer = OfflineProducer()
    batch = pa.record_batch(
        {"value": pa.array([b"abcd", None, b"efgh"], pa.binary(4)), "key": pa.nulls(3)}
    ).slice(1)
    producer.send_arrow(batch)
    assert [(r.key, r.value) for r in producer.records()[0]] == [(None, None), (None, b"efgh")]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"value": ["x"], "colour": ["red"]}, r"column 'colour' has no part in a record"),
        ({"value": [1]}, r"column 'value' is int64: keys and values must be binary or string"),
        ({"value": [{"a": 1}]}, r"column 'value' is struct.*bowstring.Json"),
        ({"value": ["x"], "timestamp": ["now"]}, r"column 'timestamp' is string: timestamps must be"),
        ({"value": ["x"], "partition": ["0"]}, r"column 'partition' is string: partitions must be integers"),
        ({"value": ["x"], "headers": ["h"]}, r"column 'headers' is string: headers must be list"),
        ({"headers": pa.nulls(1)}, r"neither a column 'value' nor 'key'"),
        ({"value": ["x", "y"], "partition": [0, 5]}, r"row 1 is for partition 5, .* partitions 0 to 0"),
        ({"value": ["x" * 2_000_000]}, r"the record of row 0 has \d+ bytes, more than max_request_size"),
        (
            {
                "value": ["x"],
                "headers": pa.array(
                    [[{"key": None, "value": b""}]],
                    pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
                ),
            },
            r"row 0 has a header without a name",
        ),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_is(columns, message):
    producer = OfflineProducer()
    with pytest.raises(ConfigError, match=message):
        producer.send_arrow(pa.table(columns))
    assert producer.batches() == {}


def test_no_arrow_data():
    producer = OfflineProducer()
    for data in ([b"x"], pa.array([b"x"])):
        with pytest.raises(ConfigError, match=r"Arrow data|no columns"):
            producer.send_arrow(data)


def test_an_error_after_the_first_batches_says_how_many_were_sent():
    def batches():
        yield pa.record_batch({"value": ["x"] * 10})
        raise OSError("the disk is on fire")

    producer = OfflineProducer()
    reader = pa.RecordBatchReader.from_batches(pa.schema([("value", pa.string())]), batches())
    with pytest.raises(ClientError, match=r"on fire.*10 records before it were sent"):
        producer.send_arrow(reader)


def test_polars_pandas_and_duckdb():
    duckdb, pandas, polars = map(pytest.importorskip, ("duckdb", "pandas", "polars"))
    frame = polars.DataFrame({"key": ["a", "b"], "value": ["x", None]})
    for data in (
        frame,
        pandas.DataFrame({"key": ["a", "b"], "value": ["x", None]}),
        duckdb.sql("select * from (values ('a', 'x'), ('b', null)) t(key, value)"),
    ):
        producer = OfflineProducer()
        producer.send_arrow(data)
        assert [(r.key, r.value) for r in producer.records()[0]] == [(b"a", b"x"), (b"b", None)]


def test_a_format_encodes_the_columns_that_are_left():
    class Joined:
        def __init__(self, *names):
            self.schema = pa.schema([(name, pa.int64()) for name in names])

        def encode(self, rows):
            lines = ["|".join(map(str, row.values())) for row in rows.to_pylist()]
            return pa.array([line.encode() for line in lines], pa.binary())

    producer = OfflineProducer()
    table = pa.table({"id": [1, 2], "a": [3, 4], "b": ["x", "y"], "timestamp": [8, 9]})
    with pytest.raises(ConfigError, match=r"column 'b' is not in the schema of the format given as value"):
        producer.send_arrow(table, key=Joined("id"), value=Joined("a"))
    assert producer.batches() == {}
    producer.send_arrow(table, key=Joined("id"), value=Joined("a", "b"))
    assert [(r.key, r.value, r.timestamp) for r in producer.records()[0]] == [
        (b"1", b"3|x", 8),
        (b"2", b"4|y", 9),
    ]


def test_rows_without_a_key_go_in_large_pieces():
    producer = OfflineProducer(4, batch_size=10_000)
    producer.send_arrow(pa.table({"value": ["x" * 100] * 3000}))
    sizes = [len(batch) for found in producer.batches().values() for batch in found]
    assert len(producer.batches()) > 1
    assert sum(sizes) / len(sizes) > 8000


def test_other_partitioners():
    table = pa.table({"key": ["a", "b", "a", "b"], "value": ["1", "2", "3", "4"]})
    turns = OfflineProducer(2, partitioner="round_robin")
    turns.send_arrow(table)
    assert sorted(len(found) for found in turns.records().values()) == [2, 2]
    own = OfflineProducer(3, partitioner=lambda key, partitions, available: 2 if key == b"a" else 0)
    own.send_arrow(table)
    assert {p: [r.value for r in found] for p, found in own.records().items()} == {
        0: [b"2", b"4"],
        2: [b"1", b"3"],
    }


def test_the_memory_of_the_data_is_given_back():
    table = pa.table({"value": pa.array([b"x" * 100] * 10_000)})
    before = pa.total_allocated_bytes()
    producer = OfflineProducer()
    producer.send_arrow(table)
    del table
    gc.collect()
    assert pa.total_allocated_bytes() < before - 900_000
