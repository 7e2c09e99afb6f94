"""Records are counted by the window of their timestamps, exactly, however they are batched."""

import struct
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring._native.client.window_counts import KEPT_MAX, WindowCounts, time_bounds
from bowstring._native.record.encode import encode_batch
from bowstring.clients.records import Record

WINDOW = 1000
TIMES = st.lists(st.integers(-3 * WINDOW, 5 * WINDOW), max_size=40)


def found_in(counts):
    return {(topic, start): records for topic, start, _, records, _ in counts.changes()}


def expected_of(times, topic="t"):
    return dict(Counter((topic, time // WINDOW * WINDOW) for time in times))


def packed(times):
    return struct.pack(f"{len(times)}q", *times)


@given(TIMES)
def test_records_of_a_poll(times):
    counts = WindowCounts(WINDOW, staging=True)
    counts.note_records([Record("t", 0, i, time, 0, None, None, ()) for i, time in enumerate(times)])
    assert found_in(counts) == expected_of(times)


@given(TIMES)
def test_timestamps_of_columns(times):
    counts = WindowCounts(WINDOW)
    counts.note_times("t", packed(times))
    assert found_in(counts) == expected_of(times)


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
    counts.note_records([Record(topic, 0, i, 5, 0, None, None, ()) for i, topic in enumerate("aabba")])
    assert found_in(counts) == {("a", 0): 3, ("b", 0): 2}


def test_counts_grow_and_are_returned_when_they_change():
    counts = WindowCounts(WINDOW)
    counts.note_times("t", packed([1, 2]))
    assert counts.changes() == [("t", 0, 0, 2, 2)]
    assert counts.changes() == []
    counts.note_times("t", packed([3]))
    assert counts.changes() == [("t", 0, 0, 3, 3)]
    counts.change("t", 0)
    assert counts.changes() == [("t", 0, 0, 3, 3)]
    counts.change("t", 5000)  # of which nothing is kept


def test_what_is_staged_counts_only_when_it_is_kept():
    counts = WindowCounts(WINDOW, staging=True)
    counts.note_times("t", packed([1]))
    counts.drop()
    counts.note_times("t", packed([2, 3]))
    assert counts.changes() == []
    counts.keep()
    assert found_in(counts) == {("t", 0): 2}


def test_memory_is_bounded_and_a_forgotten_count_begins_a_new_generation():
    counts = WindowCounts(1)
    counts.note_times("t", packed(range(KEPT_MAX + 1)))
    assert len(counts.changes()) == KEPT_MAX + 1  # the oldest half is forgotten
    counts.note_times("t", packed([KEPT_MAX + 5]))
    counts.changes()
    counts.note_times("t", packed([0]))
    assert counts.changes() == [("t", 0, 1, 1, 0)]


@pytest.mark.parametrize(("times", "bounds"), [([], None), ([5], (5, 5)), ([3, -9, 7], (-9, 7))])
def test_bounds(times, bounds):
    assert time_bounds(packed(times)) == bounds


def test_a_window_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least 1 ms"):
        WindowCounts(0)
