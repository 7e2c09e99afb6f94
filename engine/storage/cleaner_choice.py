"""Chooses the log that the cleaner takes next. Pure: works on facts and the clock only.

Rules of Kafka's LogCleanerManager: the dirty part begins where the last run ended. It ends before the active
segment, the last stable offset and records younger than min.compaction.lag.ms. The log with the largest share
of cleanable bytes goes first, if it passes min.cleanable.dirty.ratio or holds a record that has waited longer
than max.compaction.lag.ms (KIP-58, KIP-354).
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

Key = TypeVar("Key")

NEVER_MS: Final = (1 << 63) - 1


class SegmentFacts(NamedTuple):
    """One segment. Timestamps in ms; -1 when there is none or it was not requested."""

    base_offset: int
    size_bytes: int
    largest_timestamp: int
    first_timestamp: int


class LogFacts(NamedTuple):
    """Input of the choice. `segments` ends with the active one; `checkpoint` is the offset where the last run
    ended.
    """

    segments: Sequence[SegmentFacts]
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    checkpoint: int | None
    min_lag_ms: int
    max_lag_ms: int
    min_dirty_ratio: float


class Candidate(NamedTuple):
    """What cleaning a log now would cover."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    # by how many ms the oldest waiting record exceeds max.compaction.lag.ms
    delay_ms: int
    min_dirty_ratio: float
    # the log may become due by time alone, without new writes
    by_time: bool
    # the checkpoint was below the log start or above the log end, so the dirty part begins at the log start
    reset: bool

    @property
    def dirty_ratio(self) -> float:
        """Cleanable bytes as a share of all bytes that were or can be cleaned; 0 for an empty log."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def due(self) -> bool:
        """Whether the log should be cleaned now."""
        if self.delay_ms > 0 and self.cleanable_bytes > 0:
            return True
        return self.dirty_ratio > self.min_dirty_ratio


def _from(segments: Sequence[SegmentFacts], offset: int) -> int:
    """Index of the segment that holds `offset`; 0 when it is below all of them."""
    found = 0
    for i, segment in enumerate(segments):
        if segment.base_offset > offset:
            break
        found = i
    return found


def candidate(facts: LogFacts, now_ms: int) -> Candidate:
    """Computes what cleaning this log now would cover."""
    closed, active = facts.segments[:-1], facts.segments[-1]
    start = facts.log_start_offset if facts.checkpoint is None else facts.checkpoint
    reset = not facts.log_start_offset <= start <= facts.log_end_offset
    first_dirty = facts.log_start_offset if reset else start
    dirty = closed[_from(closed, first_dirty) :] if first_dirty < active.base_offset else ()
    end = min(facts.last_stable_offset, active.base_offset)
    if facts.min_lag_ms > 0:
        young = (each.base_offset for each in dirty if each.largest_timestamp > now_ms - facts.min_lag_ms)
        end = min(end, next(young, end))
    end = max(end, first_dirty)
    # A segment that crosses the end offset is not cleaned.
    bound = active.base_offset if end >= active.base_offset else closed[_from(closed, end)].base_offset
    cleanable: Sequence[SegmentFacts] = ()
    if first_dirty < bound:
        cleanable = [each for each in closed[_from(closed, first_dirty) :] if each.base_offset < bound]
    waiting = min((each.first_timestamp for each in dirty if each.first_timestamp > 0), default=NEVER_MS)
    return Candidate(
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=end,
        clean_bytes=sum(each.size_bytes for each in closed if each.base_offset < first_dirty),
        cleanable_bytes=sum(each.size_bytes for each in cleanable),
        delay_ms=max(0, now_ms - facts.max_lag_ms - waiting),
        min_dirty_ratio=facts.min_dirty_ratio,
        by_time=bool(dirty) and (facts.min_lag_ms > 0 or facts.max_lag_ms < NEVER_MS),
        reset=reset,
    )


def filthiest(candidates: Iterable[tuple[Key, Candidate]]) -> tuple[Key, Candidate] | None:
    """Returns the candidate to clean first among those that are due."""
    return max(
        ((key, each) for key, each in candidates if each.due),
        key=lambda item: item[1].dirty_ratio,
        default=None,
    )
