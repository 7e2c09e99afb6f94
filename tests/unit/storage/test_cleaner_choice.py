"""Which log is cleaned next, and which part of it: by Kafka's rules, without a log."""

import pytest

from bowstring.engine.storage.cleaner_choice import NEVER_MS, LogFacts, SegmentFacts, candidate, filthiest

NOW = 1_000_000


def facts(bases=(0, 100, 200, 300), *, newest=(), first=(), **changes) -> LogFacts:
    """Segments of 1000 bytes, the last one active and empty."""
    count = len(bases)
    segments = [
        SegmentFacts(
            base,
            1000 if i + 1 < count else 0,
            newest[i] if i < len(newest) else -1,
            first[i] if i < len(first) else -1,
        )
        for i, base in enumerate(bases)
    ]
    found = LogFacts(
        segments=segments,
        log_start_offset=bases[0],
        log_end_offset=bases[-1],
        last_stable_offset=bases[-1],
        checkpoint=None,
        min_lag_ms=0,
        max_lag_ms=NEVER_MS,
        min_dirty_ratio=0.5,
    )
    return found._replace(**changes)


def test_a_log_that_was_never_cleaned_is_all_dirty():
    found = candidate(facts(), NOW)
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (0, 300)
    assert (found.clean_bytes, found.cleanable_bytes, found.dirty_ratio, found.due) == (0, 3000, 1.0, True)


def test_what_was_cleaned_counts_as_clean():
    found = candidate(facts(checkpoint=200), NOW)
    assert (found.clean_bytes, found.cleanable_bytes) == (2000, 1000)
    assert not found.due and candidate(facts(checkpoint=200, min_dirty_ratio=0.3), NOW).due


def test_only_more_than_the_ratio_is_due():
    assert not candidate(facts((0, 100, 200), checkpoint=100), NOW).due  # 0.5 is not more than 0.5


def test_an_undecided_transaction_ends_the_cleanable_part():
    found = candidate(facts(last_stable_offset=150), NOW)
    assert (found.first_uncleanable_offset, found.cleanable_bytes) == (150, 1000)


def test_young_segments_wait():
    found = candidate(facts(newest=(NOW - 500, NOW - 50, NOW - 500), min_lag_ms=100), NOW)
    assert (found.first_uncleanable_offset, found.cleanable_bytes, found.by_time) == (100, 1000, True)


def test_what_has_waited_too_long_is_due_whatever_the_ratio():
    found = candidate(facts(checkpoint=200, first=(10, 20, 30), max_lag_ms=NOW - 1000), NOW)
    assert found.delay_ms == 970 and found.due and found.by_time
    assert candidate(facts(checkpoint=200, first=(10, 20, 5000), max_lag_ms=NOW - 1000), NOW).delay_ms == 0


@pytest.mark.parametrize(("checkpoint", "start"), [(50, 100), (900, 0)])
def test_an_offset_outside_the_log_is_no_offset(checkpoint, start):
    found = candidate(facts(checkpoint=checkpoint, log_start_offset=start), NOW)
    assert found.reset and found.first_dirty_offset == start


def test_a_clean_or_empty_log_is_never_due():
    assert not candidate(facts(checkpoint=300, min_dirty_ratio=0.0), NOW).due
    empty = candidate(facts((0,), min_dirty_ratio=0.0, max_lag_ms=1), NOW)
    assert not empty.due and empty.dirty_ratio == 0


def test_the_filthiest_goes_first():
    some = candidate(facts(checkpoint=100), NOW)
    all_of_it = candidate(facts(), NOW)
    little = candidate(facts(checkpoint=200), NOW)
    assert filthiest([("a", some), ("b", all_of_it), ("c", little)]) == ("b", all_of_it)
    assert filthiest([("c", little)]) is None
