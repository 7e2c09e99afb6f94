"""Remembers what the open Overview has shown: rates and lag of the last minutes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from bowstring.clients.errors import ClientError
from bowstring.clients.records import TopicInfo, TopicPartition
from bowstring.console.cluster_access import ClusterAccess
from bowstring.console.cluster_facts import COST_MAX, refusal, topics_of
from bowstring.console.plots import Point
from bowstring.operations.group_progress import look_at_groups

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin

GROUPS_S = 2.0
GROUPS_MAX = 200
"""Of which the lag is summed, the first ones by name."""
SAMPLES_MAX = 450
_APART_S = 1.0
_GAP_S = 60.0


class GroupTotals(NamedTuple):
    """All groups in numbers.

    Attributes:
        groups: how many there are.
        counted: of how many the lag is known.
        lag: records that they have not read; None if that is not known.
        committed: offsets, by group and partition.
        missing: why something is missing.
    """

    groups: int = 0
    counted: int = 0
    lag: int | None = None
    committed: Mapping[tuple[str, TopicPartition], int] = {}
    missing: str = ""


class Sample(NamedTuple):
    """Rates in records a second, and the lag of groups in records, at one time of the monotonic clock."""

    at: float
    records_in: float | None
    records_out: float | None
    lag: int | None


@dataclass(slots=True)
class Activity:
    """Samples of one access, the newest last."""

    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=SAMPLES_MAX))
    _committed: Mapping[tuple[str, TopicPartition], int] = field(default_factory=dict)
    _committed_at: float = 0.0
    records_out: float | None = None

    def observe(self, records_in: float | None, groups: GroupTotals, at: float | None = None) -> None:
        """Takes what was just measured."""
        now = time.monotonic() if at is None else at
        if groups.committed is not self._committed:
            elapsed = now - self._committed_at
            if self._committed and _APART_S <= elapsed < _GAP_S:
                moved = sum(
                    max(0, offset - self._committed[place])
                    for place, offset in groups.committed.items()
                    if place in self._committed
                )
                self.records_out = moved / elapsed
            elif elapsed >= _GAP_S:
                self.records_out = None
            self._committed, self._committed_at = groups.committed, now
        if self.samples and now - self.samples[-1].at < _APART_S:
            return
        if self.samples and now - self.samples[-1].at > _GAP_S:
            self.samples.append(Sample(now - _APART_S, None, None, None))
        self.samples.append(Sample(now, records_in, self.records_out, groups.lag))

    def points(self, name: str) -> list[Point]:
        """Returns the points of one field for a plot."""
        return [(sample.at, getattr(sample, name)) for sample in self.samples]


def activity_of(access: ClusterAccess) -> Activity:
    """Returns what the pages of an access have seen."""
    return access.shared("activity", Activity)


async def group_totals_of(access: ClusterAccess) -> GroupTotals:
    """Returns the lag of groups, as often as its cost allows."""

    async def look() -> GroupTotals:
        return await access.whole(_group_totals, await topics_of(access))

    try:
        return await access.cached(("group totals",), GROUPS_S, look, stale_s=_GAP_S, cost_max=COST_MAX)
    except ClientError as error:
        return GroupTotals(missing=refusal(error))


def _group_totals(admin: Admin, topics: Mapping[str, TopicInfo]) -> GroupTotals:
    listed = sorted(admin.list_groups())
    now = look_at_groups(admin, listed[:GROUPS_MAX], topics=topics, times=False)
    lag, counted = 0, 0
    committed: dict[tuple[str, TopicPartition], int] = {}
    missing = ""
    for group, rows in now.lags.items():
        if isinstance(rows, ClientError):
            missing = refusal(rows)
            continue
        counted += 1
        lag += sum(row.lag or 0 for row in rows)
        committed |= {(group, row.partition): row.committed for row in rows if row.committed is not None}
    return GroupTotals(len(listed), counted, lag if counted or not listed else None, committed, missing)
