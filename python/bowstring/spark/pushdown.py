"""Pushes filters into the fetch: topic, partition and offset exactly, timestamp by its lower bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from bowstring.clients.records import TopicPartition
from bowstring.spark.offsets import OffsetPlanner
from bowstring.spark.ranges import OffsetRange

NEVER_NULL = ("topic", "partition", "offset", "timestamp", "timestampType")


@dataclass
class Pushed:
    """What filters leave to read; None and the widest bounds mean everything.

    Attributes:
        timestamp_ms: lower bound of timestamps. Records may be out of order of time, so Spark filters again.
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    offset_from: int = 0
    offset_to: int = (1 << 63) - 1
    timestamp_ms: int | None = None

    def narrow(self, planner: OffsetPlanner, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """Returns `ranges` reduced to what the filters allow."""
        left = [
            each._replace(start=max(each.start, self.offset_from), end=min(each.end, self.offset_to))
            for each in ranges
            if (self.topics is None or each.topic in self.topics)
            and (self.partitions is None or each.partition in self.partitions)
        ]
        left = [each for each in left if each.size > 0]
        if self.timestamp_ms is None or not left:
            return left
        times = {TopicPartition(each.topic, each.partition): self.timestamp_ms for each in left}
        first = planner.at_times(times)
        found = []
        for each in left:
            # All records below the first one at or after a time are before that time.
            start = first[TopicPartition(each.topic, each.partition)]
            if start is not None and start < each.end:
                found.append(each._replace(start=max(each.start, start)))
        return found


def push(filters: Iterable[Filter]) -> tuple[Pushed, list[Filter]]:
    """Returns what can be pushed out of filters joined by AND, and the filters that Spark must still
    check.
    """
    pushed, rest = Pushed(), []
    for each in filters:
        handler = _HANDLERS.get(type(each))
        if handler is None or not handler(pushed, _column(each), each):
            rest.append(each)
    return pushed, rest


def _column(each: Any) -> str:
    path = each.attribute
    return path[0] if len(path) == 1 else ""


def _members(pushed: Pushed, column: str, values: Iterable[Any]) -> bool:
    wanted = frozenset(values)
    if column == "topic":
        pushed.topics = wanted if pushed.topics is None else pushed.topics & wanted
    elif column == "partition":
        pushed.partitions = wanted if pushed.partitions is None else pushed.partitions & wanted
    else:
        return False
    return True


def _equal(pushed: Pushed, column: str, each: Any) -> bool:
    if each.value is None:
        return False
    if column in ("offset", "timestamp"):
        exact = _at_least(pushed, column, each.value)
        return _below(pushed, column, each.value + 1) and exact if column == "offset" else False
    return _members(pushed, column, (each.value,))


def _at_least(pushed: Pushed, column: str, value: Any) -> bool:
    if column == "offset":
        pushed.offset_from = max(pushed.offset_from, value)
        return True
    if column == "partition":
        return False
    if column == "timestamp" and isinstance(value, datetime) and value.tzinfo is not None:
        # Records have whole milliseconds, so rounding down to one changes no result.
        at = int(value.timestamp() * 1000 // 1)
        pushed.timestamp_ms = at if pushed.timestamp_ms is None else max(pushed.timestamp_ms, at)
    return False


def _below(pushed: Pushed, column: str, value: Any) -> bool:
    if column == "offset":
        pushed.offset_to = min(pushed.offset_to, value)
    return column == "offset"


_HANDLERS: dict[type[Filter], Callable[[Pushed, str, Any], bool]] = {
    EqualTo: _equal,
    EqualNullSafe: _equal,
    In: lambda pushed, column, each: _members(pushed, column, (v for v in each.value if v is not None)),
    GreaterThan: lambda pushed, column, each: _at_least(
        pushed, column, each.value + 1 if column == "offset" else each.value
    ),
    GreaterThanOrEqual: lambda pushed, column, each: _at_least(pushed, column, each.value),
    LessThan: lambda pushed, column, each: _below(pushed, column, each.value),
    LessThanOrEqual: lambda pushed, column, each: (
        column == "offset" and _below(pushed, column, each.value + 1)
    ),
    IsNotNull: lambda pushed, column, each: column in NEVER_NULL,
}
