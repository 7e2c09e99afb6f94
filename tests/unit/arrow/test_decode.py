"""Batches decoded into Arrow's buffers, compared with the decoder that makes Python objects."""

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bowstring._native.arrow.buffer_pool import pooled_bytes, receive_buffer
from bowstring._native.arrow.decode import ArrowRows
from bowstring._native.record.batch import stamped
from bowstring._native.record.compression import DecompressedTooLarge
from bowstring._native.record.decode import Aborted
from bowstring._native.record.encode import encode_batch
from bowstring._native.record.types import CorruptBatch
from tests.support.arrow_reference import ALL, expected, marker, taken
from tests.support.examples import examples
from tests.support.strategies import records

quick = settings(max_examples=examples(120))
codecs = st.integers(0, 4)
batch_lists = st.lists(st.tuples(st.lists(records, min_size=1, max_size=12), codecs), max_size=5)


def laid_out(batches, base_offset=0, gap=0):
    data = []
    for made, codec in batches:
        data.append(encode_batch(made, codec, base_offset=base_offset))
        base_offset += len(made) + gap
    return b"".join(data)


def numbered(count, size=20, base_offset=0, **fields):
    made = [(b"k%d" % i, b"%0*d" % (size, i), 1000 + i, None) for i in range(count)]
    return encode_batch(made, base_offset=base_offset, **fields)


def everything(data, start=0, *, in_views=False, columns=ALL, end=1 << 62, **limits):
    """All rows, in as many rounds as the limits require."""
    found, rounds, resumed, at = [], 0, None, 0
    while True:
        rows = ArrowRows(columns, views=in_views, **limits)
        done, start, resumed = rows.append(
            data[at:], start, end, topic=3, partition=7, verify_crc=True, resumed=resumed
        )
        at += done
        rounds += 1
        full = rows.full
        found += taken(rows, in_views)
        if not full:
            return found, rounds, start


@quick
@given(batch_lists, st.booleans(), st.integers(0, 70), st.integers(0, 70), st.integers(0, 3))
def test_every_layout_gives_what_the_slow_decoder_gives(batches, in_views, start, end, gap):
    data = laid_out(batches, gap=gap)
    found, rounds, _ = everything(data, start, end=end, in_views=in_views)
    assert rounds == 1
    assert found == expected(data, start, end, topic=3, partition=7)


@quick
@given(batch_lists, st.booleans(), st.integers(1, 9), st.integers(1, 5000))
def test_limits_of_rows_and_bytes_split_without_losing_or_repeating(batches, in_views, rows_max, bytes_max):
    data = laid_out(batches)
    found, _, following = everything(data, in_views=in_views, rows_max=rows_max, bytes_max=bytes_max)
    assert found == expected(data, topic=3, partition=7)
    assert following == sum(len(made) for made, _ in batches)


@quick
@given(st.lists(records, min_size=1, max_size=9), codecs, st.sets(st.sampled_from(ALL)), st.booleans())
def test_only_what_is_asked_for(made, codec, names, in_views):
    data = encode_batch(made, codec)
    rows = ArrowRows(names, views=in_views)
    rows.append(data, 0)
    at = [i for i, name in enumerate(ALL) if name in names]
    assert taken(rows, in_views) == [tuple(row[i] for i in at) for row in expected(data)]


@pytest.mark.parametrize("in_views", [False, True])
def test_partitions_one_after_the_other_in_one_set_of_columns(in_views):
    first, second = numbered(5), numbered(4, size=4)
    rows = ArrowRows(ALL, views=in_views)
    rows.reserve(9, len(first) + len(second))
    assert rows.append(first, 2, topic=0, partition=1) == (len(first), 5, None)
    assert rows.append(second, 0, topic=1, partition=2) == (len(second), 4, None)
    assert taken(rows, in_views) == expected(first, 2, partition=1) + expected(second, topic=1, partition=2)
    assert taken(rows, in_views) == [], "and then it is empty"


def test_lengths_around_the_steps_of_copying_and_inlining():
    lengths = [0, 1, 3, 4, 7, 8, 9, 11, 12, 13, 16, 31, 32, 33, 64, 255, 256, 257, 300]
    rng = random.Random(5)
    made = [(rng.randbytes(a), rng.randbytes(b), 0, None) for a in lengths for b in lengths]
    for codec in (0, 4):
        data = encode_batch(made, codec)
        for in_views in (False, True):
            found, _, _ = everything(data, in_views=in_views)
            assert [row[5:7] for row in found] == [(key, value) for key, value, _, _ in made]


def test_timestamps_of_the_log_and_in_microseconds():
    data = stamped(numbered(3), 5_000)
    rows = ArrowRows(["timestamp", "timestamp_type"], microseconds=True)
    rows.append(data, 1)
    assert taken(rows) == [(5_000_000, 1), (5_000_000, 1)]
    rows.append(numbered(2), 0)
    assert taken(rows) == [(1_000_000, 0), (1_001_000, 0)]
    far = encode_batch([(None, None, (1 << 62), None), (None, None, -(1 << 62), None)])
    rows.append(far, 0)
    assert [row[0] for row in taken(rows)] == [(1 << 63) - 1, -(1 << 63)], "as far as 64 bits reach"


def test_header_keys_become_valid_utf8():
    data = encode_batch([(None, b"v", 0, [(b"\xff\xfe", b"1"), ("grün", None), ("x", b"")])])
    rows = ArrowRows(["headers"])
    rows.append(data, 0)
    assert taken(rows) == [((("\\xff\\xfe", b"1"), ("grün", None), ("x", b"")),)]


@pytest.mark.parametrize("codec", [0, 4])
def test_aborted_transactions_stay_out_wherever_reading_stops(codec):
    def part(value, producer_id, base_offset):
        made = [(None, b"%s %d" % (value, i), 0, None) for i in range(3)]
        fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
        return encode_batch(made, codec, base_offset=base_offset, **fields)

    data = (
        part(b"lost", 5, 0) + part(b"kept", 6, 3) + numbered(1, base_offset=6) + marker(5, 7, 0)
        + part(b"next", 5, 8) + marker(5, 11, 1) + marker(6, 12, 1)
    )  # fmt: skip
    wanted = [row[2] for row in expected(data) if not 0 <= row[2] < 3]
    for rows_max in range(1, 9):
        aborted, found, at, offset, resumed = Aborted([(5, 0)]), [], 0, 0, None
        while at < len(data):
            rows = ArrowRows(["offset"], rows_max=rows_max)
            done, offset, resumed = rows.append(data[at:], offset, aborted=aborted, resumed=resumed)
            at += done
            found += [row[0] for row in taken(rows)]
        assert found == wanted
        assert offset == 13
    assert [row[2] for row in everything(data)[0]] == [0, 1, 2, *wanted], (
        "without read_committed all are there"
    )


def test_a_corrupt_batch_does_not_take_the_good_ones_with_it():
    good, bad = numbered(4), bytearray(numbered(3, base_offset=4))
    bad[-3] ^= 1
    rows = ArrowRows(ALL)
    done, offset, resumed = rows.append(good + bad, 0, verify_crc=True)
    assert (done, offset, resumed, rows.rows) == (len(good), 4, None, 4)
    with pytest.raises(CorruptBatch, match=r"base offset 4 fails its CRC"):
        rows.append(bad, offset, verify_crc=True)
    assert taken(rows) == expected(good), "what was there is still there"
    with pytest.raises(CorruptBatch, match=r"no record batch of magic 2"):
        rows.append(bytes(100), 0)


@pytest.mark.parametrize("in_views", [False, True])
@pytest.mark.parametrize("codec", [0, 4])
def test_a_bomb_does_not_take_the_good_ones_with_it(codec, in_views):
    """Their columns are complete, and the next call raises; also if all rows before it are skipped."""
    good, bomb = numbered(4, codec=codec), numbered(1, size=1 << 20, base_offset=4, codec=4)
    for start in (0, 4):
        rows = ArrowRows(ALL, views=in_views)
        found = rows.append(good + bomb, start, topic=3, partition=7, limit=1 << 16)
        assert found == (len(good), 4, None)
        for _ in range(2):
            with pytest.raises(DecompressedTooLarge):
                rows.append(bomb, 4, limit=1 << 16)
        assert taken(rows, in_views) == expected(good, start, topic=3, partition=7)


def test_malformed_records():
    short = bytearray(numbered(3))
    short[61] = 0x7E  # the first record's length
    with pytest.raises(CorruptBatch, match=r"does not contain 3 complete records in order"):
        ArrowRows(ALL).append(short, 0)
    greedy = bytearray(numbered(1))
    struct.pack_into(">i", greedy, 57, 1 << 30)
    with pytest.raises(CorruptBatch, match=r"does not contain"):
        ArrowRows(ALL).append(greedy, 0)
    bomb = encode_batch([(None, bytes(1 << 20), 0, None)], 4)
    with pytest.raises(DecompressedTooLarge):
        ArrowRows(ALL).append(bomb, 0, limit=1 << 16)


def test_offsets_must_ascend_within_a_batch():
    data = bytearray(encode_batch([(None, b"", 0, None)] * 3))
    record_bytes = (len(data) - 61) // 3
    data[61 + record_bytes + 3] = 2 * 2  # the second offset delta becomes that of the third
    data[:8] = (3).to_bytes(8, "big")  # base offset
    before = encode_batch([(b"k", None, 0, [("h", b"1"), ("grün", None)])] * 3)
    rows = ArrowRows(ALL)
    assert rows.append(before + data, 0)[:2] == (len(before), 3)
    with pytest.raises(CorruptBatch, match=r"in order"):
        rows.append(data, 2)
    rows.append(before, 1)
    assert taken(rows) == expected(before) + expected(before, 1), "nothing of the bad batch is there"


def test_columns_end_before_32_bit_offsets_do():
    assert ArrowRows(["value"], bytes_max=1 << 40).bytes_max == (1 << 31) - 1
    piece = encode_batch([(None, bytes(1 << 20), 0, None)] * 8, 4)  # 8 MiB of values in a few kilobytes
    for in_views in (False, True):
        limited = ArrowRows(["value"], views=in_views, bytes_max=(3 << 20) + 1000)
        _, offset, _ = limited.append(piece, 0)
        assert (limited.rows, offset, limited.full) == (3, 3, True)
    found, rounds, _ = everything(piece, columns=["offset"], bytes_max=1)
    assert len(found) == 8 and rounds >= 8, "one record is always taken"


def test_memory_is_recycled():
    block = receive_buffer(1 << 20)
    address = memoryview(block)
    address[:3] = b"abc"
    del address, block
    before = pooled_bytes()
    assert before >= 1 << 20
    again = receive_buffer(1 << 20)
    assert pooled_bytes() <= before - (1 << 20)
    assert len(again) == 1 << 20


def test_what_short_values_leave_behind_is_let_go():
    source = bytearray(numbered(3, size=4))
    rows = ArrowRows(["value"], views=True)
    rows.append(source, 0)
    _, columns = rows.take()
    assert len(columns["value"][1]) == 2, "every value is inside its view"
    source.append(0)  # and nothing holds the bytes
