"""Native encode and decode against the reference, both ways."""

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bowstring._native.record import batch, compression
from bowstring._native.record.decode import batch_headers, decode_batches, decode_columns
from bowstring._native.record.encode import BatchBuilder, encode_batch, encode_headers
from bowstring._native.record.encode_columns import encode_columns
from bowstring._native.record.types import CorruptBatch
from tests.support import reference_batch as reference
from tests.support.examples import examples
from tests.support.strategies import NOW_MS, batches, int64, records

quick = settings(max_examples=examples(150))
codecs = st.integers(0, 4)


def fields_of(expected):
    return {
        "base_offset": expected.base_offset,
        "leader_epoch": expected.leader_epoch,
        "producer_id": expected.producer_id,
        "producer_epoch": expected.producer_epoch,
        "base_sequence": expected.base_sequence,
        "transactional": bool(expected.attributes & 0x10),
    }


def plain(record):
    return record.key, record.value, record.timestamp, record.headers


def column(values):
    """Arrow's binary layout."""
    offsets = array("i", [0])
    validity = bytearray((len(values) + 7) // 8)
    data = b""
    for i, value in enumerate(values):
        data += value or b""
        offsets.append(len(data))
        validity[i >> 3] |= (value is not None) << (i & 7)
    return data, offsets, bytes(validity)


@quick
@given(batches)
def test_encode_is_the_reference_byte_for_byte(expected):
    assert encode_batch(expected.records, **fields_of(expected)) == reference.encode(expected)


@quick
@given(batches)
def test_columns_encode_to_the_same_bytes(expected):
    keys, values, timestamps, headers = (list(part) for part in zip(*expected.records, strict=True))
    encoded = encode_columns(
        column(values),
        key=column(keys),
        headers=column([encode_headers(h) for h in headers]),
        timestamps=array("q", timestamps),
        **fields_of(expected),
    )
    assert encoded == [reference.encode(expected)]


@quick
@given(batches, codecs, int64.filter(lambda v: v < 1 << 62))
def test_decode_gives_back_what_was_encoded(expected, codec, base_offset):
    fields = fields_of(expected) | {"base_offset": base_offset}
    data = encode_batch(expected.records, codec, **fields)
    decoded = decode_batches(data)
    assert [plain(record) for record in decoded] == list(expected.records)
    assert [record.offset for record in decoded] == list(range(base_offset, base_offset + len(decoded)))
    header = batch_headers(data)[0]
    assert header.crc_ok
    assert header.codec == codec
    assert header.record_count == len(decoded)
    assert header.max_timestamp == max(record.timestamp for record in decoded)
    assert {name: getattr(header, name) for name in fields} == fields


@quick
@given(st.lists(st.tuples(st.lists(records, min_size=1, max_size=8), codecs), max_size=4), st.integers(0, 60))
def test_columns_hold_what_records_hold(parts, cut):
    whole = b"".join(encode_batch(rows, codec) for rows, codec in parts)
    data = whole + encode_batch([(b"partial", b"p" * 100, 0, ())])[: cut + 60]
    expected = decode_batches(whole)
    columns = decode_columns(data)
    assert columns.rows == len(expected)
    assert columns.offsets.tolist() == [record.offset for record in expected]
    assert columns.timestamps.tolist() == [record.timestamp for record in expected]
    assert columns.header_counts.tolist() == [len(record.headers) for record in expected]
    for row, record in enumerate(expected):
        source = columns.source_of(row)
        for positions, lengths, content in (
            (columns.key_positions, columns.key_lengths, record.key),
            (columns.value_positions, columns.value_lengths, record.value),
        ):
            at, n = positions[row], lengths[row]
            assert (None if n < 0 else bytes(source[at : at + n])) == content
    assert [b.rows for b in columns.batches] == [len(rows) for rows, _ in parts]


def test_columns_split_into_batches_and_count_sequences_on():
    values = [b"v" * (i % 300) for i in range(1000)]
    batches = encode_columns(
        column(values),
        max_bytes=4096,
        timestamps=NOW_MS,
        producer_id=1,
        producer_epoch=0,
        base_sequence=(1 << 31) - 500,
    )
    assert all(len(encoded) <= 4096 for encoded in batches)
    assert [record.value for encoded in batches for record in decode_batches(encoded)] == values
    sequence = (1 << 31) - 500
    for encoded in batches:
        assert batch.validate(encoded, now_ms=NOW_MS) == (0, None, [])
        header = batch_headers(encoded)[0]
        assert header.base_sequence == sequence
        sequence = (sequence + header.record_count) % (1 << 31)


def test_batches_too_large_to_be_estimated_are_measured():
    values = [b"%0100d" % i for i in range(3000)]
    rows = [(None, value, NOW_MS, ()) for value in values]
    for codec in (0, 3):
        (encoded,) = encode_columns(column(values), timestamps=NOW_MS, codec=codec)
        assert encoded == encode_batch(rows, codec)


def test_a_row_beyond_max_bytes_goes_alone():
    batches = encode_columns(column([b"a", b"b" * 5000, b"c"]), max_bytes=1000)
    assert [[r.value for r in decode_batches(encoded)] for encoded in batches] == [
        [b"a"],
        [b"b" * 5000],
        [b"c"],
    ]


def test_large_offsets_and_slices():
    data, offsets, validity = column([b"x", None, b"yy", b"zzz"])
    wide = array("q", offsets.tolist())
    (encoded,) = encode_columns((data, wide, validity), begin=1, end=3, timestamps=array("q", [0, 5, 6, 7]))
    assert [(r.value, r.timestamp) for r in decode_batches(encoded)] == [(None, 5), (b"yy", 6)]


@pytest.mark.parametrize(
    ("value", "options", "message"),
    [
        (None, {}, "give at least one of the columns"),
        ((b"abc",), {}, r"needs \(data, offsets\)"),
        ((b"abc", array("i", [0, 4])), {}, "offsets must not decrease, and must end within the data"),
        ((b"abc", array("i", [0, 2, 1])), {}, "offsets must not decrease"),
        ((b"abc", array("i", [-1, 2])), {}, "offsets must not decrease"),
        ((b"abc", array("h", [0, 2])), {}, "integers of 4 or 8 bytes"),
        ((b"abc", array("i", [0] * 20), b"\xff"), {}, "bitmap is shorter than 19 rows"),
        ((b"abc", array("i", [0, 2])), {"timestamps": array("q", [1, 2])}, "'timestamps' has 2 rows"),
        (
            (b"abc", array("i", [0, 2])),
            {"timestamps": array("i", [1, 2])},
            "'timestamps' has 0 rows of 8 bytes",
        ),
        (
            (b"abc", array("i", [0, 2])),
            {"key": (b"", array("i", [0, 0, 0]))},
            "has 1 rows, but another column has 2",
        ),
        ((b"abc", array("i", [0, 2])), {"end": 2}, "rows 0 to 2 are outside the columns, which have 1"),
    ],
)
def test_columns_that_disagree_are_refused(value, options, message):
    with pytest.raises(ValueError, match=message):
        encode_columns(value, **options)


def test_builder_stops_when_full_and_starts_over():
    builder = BatchBuilder(max_bytes=200)
    assert (builder.count, builder.size_bytes) == (0, 61)
    taken = 0
    while builder.append(None, b"0123456789", NOW_MS + taken):
        taken += 1
    assert builder.count == taken == (200 - 61) // 17
    assert builder.size_bytes <= 200
    encoded = builder.build()
    assert len(encoded) == builder.size_bytes
    assert builder.build() == encoded
    builder.clear()
    assert builder.append(b"k" * 500, None, 5)  # the first is taken whatever its size
    assert decode_batches(builder.build())[0].key == b"k" * 500
    assert not builder.append(None, None, 5)


def test_builder_takes_any_buffer_and_dict_headers():
    builder = BatchBuilder()
    builder.append(bytearray(b"k"), memoryview(b"value")[1:3], 1, {"a": b"1", "b": None})
    builder.append(None, array("B", [1, 2]), 2, [(b"raw", bytearray(b"2"))])
    first, second = decode_batches(builder.build())
    assert (first.key, first.value, first.headers) == (b"k", b"al", (("a", b"1"), ("b", None)))
    assert (second.key, second.value, second.headers) == (None, b"\x01\x02", (("raw", b"2"),))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("text", b"", 0), TypeError, "encode text first"),
        ((b"", "text", 0), TypeError, "encode text first"),
        ((b"", 7, 0), TypeError, "bytes-like"),
        ((b"", b"", 0, [(None, b"")]), TypeError, "header's key must not be None"),
        ((b"", b"", 0, [("a", "b")]), TypeError, "encode text first"),
        ((b"", b"", 1 << 63), OverflowError, "too large"),
    ],
)
def test_builder_refuses_and_stays_usable(arguments, error, message):
    builder = BatchBuilder()
    builder.append(b"k", b"v", 1)
    before = builder.build()
    with pytest.raises(error, match=message):
        builder.append(*arguments)
    assert builder.build() == before


def test_empty_batches_and_unknown_fields_are_refused():
    with pytest.raises(ValueError, match="at least one record"):
        BatchBuilder().build()
    with pytest.raises(TypeError, match="no field 'colour'"):
        encode_batch([(None, None, 0, ())], colour=1)


def test_control_batches_are_flagged():
    data = encode_batch(
        [(b"\0\0\0\1", b"\0\0\0\0\0\0", 5, ())], control=True, transactional=True, producer_id=3
    )
    (record,) = decode_batches(data)
    assert record.control
    header = decode_columns(data).batches[0].header
    assert header.control
    assert header.transactional


def test_log_append_time_speaks_for_every_record():
    stamped = reference.encode(
        reference.Batch(((None, b"a", 1, ()), (None, b"b", 2, ())), attributes=8, max_timestamp=99)
    )
    assert [(r.timestamp, r.timestamp_type) for r in decode_batches(stamped)] == [(99, 1), (99, 1)]
    assert decode_columns(stamped).timestamps.tolist() == [99, 99]


def test_offsets_of_a_compacted_batch_have_gaps():
    batch_with_gaps = reference.Batch(
        ((b"a", b"1", 1, ()), (b"b", b"2", 1, ())), base_offset=100, offset_deltas=(3, 7), last_offset_delta=9
    )
    data = reference.encode(batch_with_gaps)
    assert [record.offset for record in decode_batches(data)] == [103, 107]
    assert batch_headers(data)[0].last_offset == 109


def test_an_emptied_batch_has_no_records():
    empty = reference.encode(reference.Batch((), base_offset=7, last_offset_delta=4, base_timestamp=-1))
    assert decode_batches(empty) == []
    assert decode_columns(empty).rows == 0
    assert batch_headers(empty)[0].last_offset == 11


def test_corruption_is_named_by_position():
    good = encode_batch([(b"k", b"v" * 50, 1, ())], base_offset=40)
    bad = bytearray(good)
    bad[-5] ^= 1
    for decode in (decode_batches, decode_columns):
        with pytest.raises(CorruptBatch, match=rf"byte {len(good)} \(base offset 40\) fails its CRC"):
            decode(good + bytes(bad))
        assert decode(good + bytes(bad), verify_crc=False)
    assert [header.crc_ok for header in batch_headers(good + bytes(bad))] == [True, False]
    with pytest.raises(CorruptBatch, match="no record batch of magic 2 at byte 0"):
        decode_batches(bytes(61))


def test_record_counts_beyond_the_bytes_are_refused_before_memory_is_asked_for():
    liar = reference.encode(reference.Batch(((None, b"", 1, ()),), record_count=(1 << 31) - 1))
    for decode in (decode_batches, decode_columns):
        with pytest.raises(CorruptBatch, match="does not contain 2147483647 complete records"):
            decode(liar)


@pytest.mark.parametrize("codec", range(1, 5))
def test_a_bomb_is_refused(codec):
    bomb = encode_batch([(None, bytes(3_000_000), 1, ())], codec)
    assert len(decode_batches(bomb)[0].value) == 3_000_000
    for decode in (decode_batches, decode_columns):
        with pytest.raises(compression.DecompressedTooLarge, match="decompress to more than 1000000 bytes"):
            decode(bomb, limit=1_000_000)
