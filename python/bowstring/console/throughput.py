"""Measures rates of partitions from outside: by the difference of their end offsets."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from bowstring.clients.records import TopicInfo, TopicPartition

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin

PARTITIONS_MAX = 1000
"""Of one request round."""
_APART_S = 0.8
"""Between two observations that make a rate."""
_KEPT_S = 600.0
_TOPICS_ALONE = 3


class _Seen(NamedTuple):
    """One partition: when its end offset was seen, the offset, and the rate until then."""

    at: float
    end: int
    rate: float | None


class Throughput:
    """Rates of partitions, in records a second. Used by one thread at a time of an access."""

    def __init__(self) -> None:
        self._seen: dict[TopicPartition, _Seen] = {}
        self._next = 0

    def observe(self, ends: Mapping[TopicPartition, int], at: float | None = None) -> None:
        """Takes end offsets that were just fetched."""
        now = time.monotonic() if at is None else at
        for partition, end in ends.items():
            before = self._seen.get(partition)
            if before is None or end < before.end or now - before.at > _KEPT_S:
                self._seen[partition] = _Seen(now, end, None)
            elif now - before.at >= _APART_S:
                self._seen[partition] = _Seen(now, end, (end - before.end) / (now - before.at))

    def rate(self, partitions: Iterable[TopicPartition]) -> float | None:
        """Returns the sum of the known rates; None if none is known."""
        rates = [seen.rate for each in partitions if (seen := self._seen.get(each)) and seen.rate is not None]
        return sum(rates) if rates else None

    def end(self, partition: TopicPartition) -> int | None:
        """Returns the end offset last seen."""
        seen = self._seen.get(partition)
        return seen.end if seen is not None else None

    def known(self) -> dict[TopicPartition, float]:
        """Returns the rates that are known."""
        return {each: seen.rate for each, seen in self._seen.items() if seen.rate is not None}

    def keep(self, partitions: Mapping[str, TopicInfo]) -> None:
        """Forgets partitions of topics that are gone."""
        gone = [each for each in self._seen if each.topic not in partitions]
        for each in gone:
            del self._seen[each]

    def choose(self, leaders: list[TopicPartition]) -> list[TopicPartition]:
        """Returns which partitions to look at now: the busiest ones, and the next part of a round of all."""
        if len(leaders) <= PARTITIONS_MAX:
            return leaders
        half = PARTITIONS_MAX // 2
        known = self.known()
        busy = sorted((each for each in known if known[each] > 0), key=known.__getitem__, reverse=True)[:half]
        begin = self._next % len(leaders)
        part = (leaders[begin:] + leaders[:begin])[: PARTITIONS_MAX - len(busy)]
        self._next = begin + len(part)
        existing = set(leaders)
        return list({*(each for each in busy if each in existing), *part})


def leaders_of(topics: Mapping[str, TopicInfo], names: Iterable[str]) -> list[TopicPartition]:
    """Returns the partitions of topics that have a leader."""
    return [
        TopicPartition(name, number)
        for name in names
        if name in topics
        for number, info in topics[name].partitions.items()
        if info.leader >= 0
    ]


_with_all: weakref.WeakSet[Admin] = weakref.WeakSet()


def look(admin: Admin, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Fetches end offsets. A client without metadata fetches that of all topics once, not topic by topic."""
    if admin not in _with_all and len({each.topic for each in partitions}) > _TOPICS_ALONE:
        admin.topics(internal=True)
        _with_all.add(admin)
    return admin.end_offsets(partitions)
