"""Keeps the newest counts by topic, window and stage, and compares the stages. Pure: time is an argument."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bowstring.audit.count_message import Count, Stage

COUNTS_MAX = 500_000
KEEP_MS = 24 * 3_600_000
GRACE_MS = 120_000

# States of a stage in a window.
OPEN, COMPLETE, INCOMPLETE, SURPLUS = "open", "complete", "incomplete", "surplus"


class Window(NamedTuple):
    """A topic's window of time, in ms since the epoch."""

    topic: str
    start_ms: int
    window_ms: int

    @property
    def end_ms(self) -> int:
        """End of the window, exclusive."""
        return self.start_ms + self.window_ms


class Row(NamedTuple):
    """What one stage has seen of a topic and window, beside the first stage.

    Attributes:
        stage: where records were counted.
        first: the stage that it is compared with.
        records: records that the stage has counted.
        expected: records that the first stage has counted.
        share: records / expected; None when the first stage has counted nothing.
        state: "open" while the window and its grace last, else "complete" (share is exactly 1), "incomplete"
            (below) or "surplus" (above: records were sent or read more than once).
    """

    topic: str
    start_ms: int
    window_ms: int
    stage: Stage
    first: Stage
    records: int
    expected: int
    share: float | None
    state: str

    @property
    def missing(self) -> int:
        """Records that the stage has not seen."""
        return max(0, self.expected - self.records)

    @property
    def surplus(self) -> int:
        """Records that the stage has seen beyond those of the first stage."""
        return max(0, self.records - self.expected)


class Summary(NamedTuple):
    """One stage's ended windows of a topic together.

    Attributes:
        share: of the records of the first stage, those that arrived; a surplus in one window does not hide
            what another one misses. None when there are none.
        missing, surplus: records.
        incomplete: windows.
        lag_ms: how much older the stage's newest record is than that of the first stage.
    """

    topic: str
    stage: Stage
    first: Stage
    share: float | None
    missing: int
    surplus: int
    incomplete: int
    lag_ms: int


@dataclass(slots=True)
class _Seen:
    """One stage's counts in a window, by instance."""

    counts: dict[str, int] = field(default_factory=dict)
    newest_ms: int = 0

    @property
    def total(self) -> int:
        return sum(self.counts.values())


class CountTable:
    """The counts of all tiers.

    The order of reports does not matter and repeated ones change nothing: an instance's counts only grow, so
    the largest is the newest.

    Args:
        tiers: tiers to compare, the first one first. Without them, a topic's stages are compared with the
            producers that reported first.
        keep_ms: how long windows are kept after their end.
        counts_max: most reports kept; beyond, the oldest windows go first.

    Attributes:
        dropped: reports that were not kept, for lack of room.
    """

    def __init__(
        self, tiers: Sequence[str] = (), *, keep_ms: int = KEEP_MS, counts_max: int = COUNTS_MAX
    ) -> None:
        self.tiers = tuple(tiers)
        self.keep_ms, self.counts_max = keep_ms, counts_max
        self.dropped = 0
        self._size = 0
        self._windows: dict[Window, dict[Stage, _Seen]] = {}
        # Stages of a topic in the order of their first reports, and their first windows.
        self._stages: dict[str, dict[Stage, int]] = {}

    def __len__(self) -> int:
        return self._size

    def add(self, count: Count, now_ms: int) -> None:
        """Notes a report; one of a window that ended before what is kept changes nothing."""
        window = Window(count.topic, count.start_ms, count.window_ms)
        if window.end_ms < now_ms - self.keep_ms:
            return
        if self.tiers and count.stage.tier not in self.tiers:
            return
        stages = self._stages.setdefault(count.topic, {})
        stages[count.stage] = min(stages.get(count.stage, count.start_ms), count.start_ms)
        seen = self._windows.setdefault(window, {}).setdefault(count.stage, _Seen(newest_ms=count.newest_ms))
        before = seen.counts.get(count.instance)
        seen.counts[count.instance] = max(before or 0, count.records)
        seen.newest_ms = max(seen.newest_ms, count.newest_ms)
        self._size += before is None
        if self._size > self.counts_max:
            self._make_room()

    def expire(self, now_ms: int) -> None:
        """Forgets windows that ended before what is kept, and topics without windows."""
        for window in [each for each in self._windows if each.end_ms < now_ms - self.keep_ms]:
            self._forget(window)
        self._forget_topics()

    def _make_room(self) -> None:
        for window in sorted(self._windows, key=lambda each: each.start_ms):
            if self._size <= self.counts_max * 9 // 10:
                break
            self.dropped += self._forget(window)
        self._forget_topics()

    def _forget(self, window: Window) -> int:
        gone = sum(len(seen.counts) for seen in self._windows.pop(window).values())
        self._size -= gone
        return gone

    def _forget_topics(self) -> None:
        left = {window.topic for window in self._windows}
        for topic in [each for each in self._stages if each not in left]:
            del self._stages[topic]

    # ------------------------------------------------------------ comparing

    def topics(self) -> list[str]:
        """The topics that were counted, sorted."""
        return sorted(self._stages)

    def window_lengths(self, topic: str) -> set[int]:
        """The lengths of a topic's windows in ms; stages are only comparable when there is one."""
        return {window.window_ms for window in self._windows if window.topic == topic}

    def rows(self, now_ms: int, *, grace_ms: int = GRACE_MS) -> list[Row]:
        """Returns a row for each topic, window and stage, in this order; newer windows come last.

        A stage that has counted a topic before is expected in each window since its first one: there it has 0
        records, if it has not counted any. A named tier is expected in each window of every topic, also as
        producers that never reported; where the first stage is silent, the next one with counts stands in.

        Args:
            grace_ms: how long after its end a window may still be incomplete.
        """
        found: list[Row] = []
        stages = {topic: self._ordered(topic) for topic in self._stages}
        for window in sorted(self._windows, key=lambda each: (each.topic, each.start_ms, each.window_ms)):
            found += self._of_window(window, stages[window.topic], now_ms, grace_ms)
        return found

    def _of_window(self, window: Window, ordered: list[Stage], now_ms: int, grace_ms: int) -> Iterator[Row]:
        seen, first = self._windows[window], ordered[0]
        if self.tiers and first not in seen:  # it misses what the next one has
            first = next((each for each in ordered if each in seen), first)
        expected = seen[first].total if first in seen else 0
        over = now_ms >= window.end_ms + grace_ms
        for stage in ordered:
            if stage not in seen and stage is not first and not self._is_expected(stage, window):
                continue
            count = seen[stage].total if stage in seen else 0
            state = COMPLETE if count == expected else SURPLUS if count > expected else INCOMPLETE
            if not over:
                state = OPEN
            share = count / expected if expected else None
            yield Row(*window, stage, first, count, expected, share, state)

    def _is_expected(self, stage: Stage, window: Window) -> bool:
        """Whether a stage without counts in a window misses them; a stage of a named tier always does."""
        return bool(self.tiers) or self._stages[window.topic][stage] <= window.start_ms

    def _first(self, topic: str) -> Stage:
        """The stage that a topic's others are compared with."""
        stages = list(self._stages[topic])
        for tier in self.tiers:
            of_tier = [each for each in stages if each.tier == tier]
            if of_tier:
                return next((each for each in of_tier if each.role == "producer"), of_tier[0])
        return next((each for each in stages if each.role == "producer"), stages[0])

    def _ordered(self, topic: str) -> list[Stage]:
        """A topic's stages: the first one, then by tier as they are named or came."""
        stages, first = list(self._stages[topic]), self._first(topic)
        stages += [
            Stage(tier, "producer") for tier in self.tiers if tier not in {each.tier for each in stages}
        ]
        tiers = list(dict.fromkeys([first.tier, *self.tiers, *(each.tier for each in stages)]))

        def place(stage: Stage) -> tuple[bool, int, bool, str]:
            return stage != first, tiers.index(stage.tier), stage.role == "consumer", stage.reader

        return sorted(stages, key=place)

    def summaries(self, now_ms: int, *, grace_ms: int = GRACE_MS) -> list[Summary]:
        """Returns what alerts watch: a row for each topic and stage but the first. With named tiers the first
        one has a row, too, where it is silent and another is not.
        """
        rows: dict[tuple[str, Stage], list[Row]] = {}
        for row in self.rows(now_ms, grace_ms=grace_ms):
            compared = rows.setdefault((row.topic, row.stage), [])
            if row.stage != row.first:
                compared.append(row)
        newest: dict[tuple[str, Stage], int] = {}
        for window, stages in self._windows.items():
            for stage, seen in stages.items():
                key = (window.topic, stage)
                newest[key] = max(newest.get(key, seen.newest_ms), seen.newest_ms)
        found = []
        for (topic, stage), every in rows.items():
            if not every:
                continue
            first = every[-1].first
            ended = [row for row in every if row.state != OPEN]
            expected = sum(row.expected for row in ended)
            missing = sum(row.missing for row in ended)
            behind = newest.get((topic, first), 0) - newest.get((topic, stage), 0)
            found.append(
                Summary(
                    topic=topic,
                    stage=stage,
                    first=first,
                    share=(expected - missing) / expected if expected else None,
                    missing=missing,
                    surplus=sum(row.surplus for row in ended),
                    incomplete=sum(row.state == INCOMPLETE for row in ended),
                    lag_ms=max(0, behind),
                )
            )
        return found
