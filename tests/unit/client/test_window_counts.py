"""Records are counted by the window of their timestamps, exactly, however they are batched."""

import struct
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring._native.arrow.decode import ArrowRows
from bowstring._native.client.window_counts import KEPT_MAX, WindowCounts, time_bounds
from bowstring._native.record.encode import encode_batch
from bowstring.clients.records import Record

WINDOW = 1000
TIMES = st.lists(st.integers(-3 * WINDOW, 5 * WINDOW), max_size=40)


def found_in(counts):
    return {(topic, start): records for topic, start, _, records, _ in counts.changes()}


def expected_of(times, topic="t"):
    return dict(Counter((topic, time // WINDOW * WINDOW) for time in times))


def records_of(times, topic="t"):
    return [Record(topic, 0, i, time, 0, None, None, ()) for i, time in enumerate(times)]


def packed(times):
    return struct.pack(f"{len(times)}q", *times)


@given(TIMES)
def test_records_of_a_poll(times):
    counts = WindowCounts(WINDOW)
    counts.note_records(records_of(times))
    assert found_in(counts) == expected_of(times)


@given(TIMES.filter(bool), st.integers(0, 40))
def test_parts_of_decoded_records_whose_bounds_are_known(times, cut):
    counts = WindowCounts(WINDOW)
    bounds = min(times), max(times)
    counts.note_records(records_of(times[:cut]), bounds)
    counts.note_records(records_of(times[cut:]), bounds, whole=True)
    found = {(topic, start): (records, newest) for topic, start, _, records, newest in counts.changes()}
    assert {key: records for key, (records, _) in found.items()} == expected_of(times)
    if cut < len(times):
        assert max(newest for _, newest in found.values()) == max(times)


def test_a_part_has_not_seen_the_largest_timestamp():
    counts = WindowCounts(WINDOW)
    counts.note_records(records_of([1, 3]), (1, 900))
    assert counts.changes() == [("t", 0, 0, 2, 3)]


@given(
    st.lists(st.integers(-3 * WINDOW, 5 * WINDOW), min_size=1, max_size=30),
    st.sampled_from([0, 4]),
    st.integers(0, 30),
    st.integers(1, 30),
    st.sampled_from([["value"], ["offset", "timestamp"]]),
)
def test_rows_of_columns_from_an_offset_on_and_up_to_a_limit(times, codec, skipped, most, columns):
    counts = WindowCounts(WINDOW)
    data = b"".join(
        encode_batch([(None, b"v", time, None) for time in part], codec=codec, base_offset=base)
        for base, part in ((0, times[:7]), (7, times[7:]))
        if part
    )
    rows = ArrowRows(columns, microseconds=skipped % 2 == 0, rows_max=most, window_ms=WINDOW)
    rows.append(data, skipped)
    counts.note_runs("t", rows.take_counts())
    seen = times[skipped : skipped + most]
    assert rows.rows == len(seen) and rows.take_counts() == []
    found = {(topic, start): (records, newest) for topic, start, _, records, newest in counts.changes()}
    assert {key: records for key, (records, _) in found.items()} == expected_of(seen)
    assert [newest for _, newest in found.values() if newest == max(seen)] if seen else not found


def test_rows_with_the_brokers_time_and_resumed_batches():
    batch = bytearray(encode_batch([(None, b"v", time, None) for time in (1, 5 * WINDOW)], base_offset=0))
    batch[22] |= 8  # LogAppendTime: every record has the batch's largest timestamp
    rows = ArrowRows(["value"], rows_max=1, window_ms=WINDOW)
    position, offset, resumed = rows.append(bytes(batch), 0)
    assert rows.take_counts() == [(5 * WINDOW, 1, 5 * WINDOW)]
    rows.take()
    rows.append(bytes(batch)[position:], offset, resumed=resumed)
    assert rows.take_counts() == [(5 * WINDOW, 1, 5 * WINDOW)]


@given(
    st.lists(st.integers(0, 5 * WINDOW), min_size=1, max_size=40), st.sampled_from([0, 4]), st.integers(0, 45)
)
def test_encoded_batches_from_an_offset_on(times, codec, from_offset):
    counts = WindowCounts(WINDOW)
    batch = encode_batch([(None, b"v", time, None) for time in times], codec=codec, base_offset=0)
    counts.note_encoded("t", batch, from_offset)
    assert found_in(counts) == expected_of(times[from_offset:])


def test_topics_are_counted_apart():
    counts = WindowCounts(WINDOW)
    counts.note_records([record for topic in "aabba" for record in records_of([5], topic)])
    assert found_in(counts) == {("a", 0): 3, ("b", 0): 2}


def test_counts_grow_and_are_returned_when_they_change():
    counts = WindowCounts(WINDOW)
    counts.note_records(records_of([1, 2]))
    assert counts.changes() == [("t", 0, 0, 2, 2)]
    assert counts.changes() == []
    counts.note_records(records_of([3]))
    assert counts.changes() == [("t", 0, 0, 3, 3)]
    counts.change("t", 0)
    assert counts.changes() == [("t", 0, 0, 3, 3)]
    counts.change("t", 5000)  # of which nothing is kept


def test_what_is_staged_counts_only_when_it_is_kept():
    counts = WindowCounts(WINDOW, staging=True)
    counts.note_records(records_of([1]))
    counts.drop()
    counts.note_records(records_of([2, 3]))
    assert counts.changes() == []
    counts.keep()
    assert found_in(counts) == {("t", 0): 2}


def test_memory_is_bounded_and_a_forgotten_count_begins_a_new_generation():
    counts = WindowCounts(1)
    counts.note_records(records_of(range(KEPT_MAX + 1)))
    assert len(counts.changes()) == KEPT_MAX + 1  # the oldest half is forgotten
    counts.note_records(records_of([KEPT_MAX + 5]))
    counts.changes()
    counts.note_records(records_of([0]))
    assert counts.changes() == [("t", 0, 1, 1, 0)]


@pytest.mark.parametrize(("times", "bounds"), [([], None), ([5], (5, 5)), ([3, -9, 7], (-9, 7))])
def test_bounds(times, bounds):
    assert time_bounds(packed(times)) == bounds


def test_a_window_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least 1 ms"):
        WindowCounts(0)
