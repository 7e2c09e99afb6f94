"""Measures rates of partitions from outside: by the difference of their end offsets."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import weakref
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bowstring.clients.records import TopicInfo, TopicPartition
from bowstring.console.cluster_access import ClusterAccess
from bowstring.console.cluster_facts import COST_MAX, PATIENCE_S

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin

PARTITIONS_MAX = 1000
"""Of one look."""
_APART_S = 0.8
"""Between two looks that make a rate."""
_KEPT_S = 900.0
_TOPICS_ALONE = 3
_with_all: weakref.WeakSet[Admin] = weakref.WeakSet()


class _Seen(NamedTuple):
    """One partition: when its end offset was seen, the offset, and the rate until then."""

    at: float
    end: int
    rate: float | None


class Throughput:
    """Rates of partitions, in records a second. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[TopicPartition, _Seen] = {}
        self._of_topics = Counter[str]()
        self._known = Counter[str]()
        self._next = 0

    def observe(self, ends: Mapping[TopicPartition, int], at: float | None = None) -> None:
        """Takes end offsets that were just fetched."""
        now = time.monotonic() if at is None else at
        with self._lock:
            for partition, end in ends.items():
                before = self._seen.get(partition)
                if before is None:
                    self._seen[partition] = _Seen(now, end, None)
                elif end < before.end or now - before.at > _KEPT_S:
                    self._change(partition, before, _Seen(now, end, None))
                elif now - before.at >= _APART_S:
                    rate = (end - before.end) / (now - before.at)
                    self._change(partition, before, _Seen(now, end, rate))

    def _change(self, partition: TopicPartition, before: _Seen, seen: _Seen) -> None:
        self._seen[partition] = seen
        self._of_topics[partition.topic] += (seen.rate or 0.0) - (before.rate or 0.0)  # type: ignore[assignment]
        self._known[partition.topic] += (seen.rate is not None) - (before.rate is not None)

    def of_topic(self, topic: str) -> float | None:
        """Returns the sum of the known rates of a topic's partitions; None if none is known."""
        return max(0.0, float(self._of_topics[topic])) if self._known[topic] > 0 else None

    def of_partition(self, partition: TopicPartition) -> float | None:
        """Returns the rate of a partition; None if it is unknown."""
        seen = self._seen.get(partition)
        return seen.rate if seen is not None else None

    def total(self) -> float | None:
        """Returns the sum of all known rates; None if none is known."""
        with self._lock:
            return max(0.0, float(sum(self._of_topics.values()))) if self._known.total() > 0 else None

    def known(self) -> int:
        """Returns of how many partitions the rate is known."""
        return self._known.total()

    def keep(self, topics: Collection[str]) -> None:
        """Forgets topics that are gone."""
        with self._lock:
            for partition in [each for each in self._seen if each.topic not in topics]:
                del self._seen[partition]
                self._of_topics.pop(partition.topic, None)
                self._known.pop(partition.topic, None)

    def choose(self, leaders: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Returns which partitions to look at now: the busiest ones, and the next part of a round of all."""
        if len(leaders) <= PARTITIONS_MAX:
            return list(leaders)
        with self._lock:
            rates = {each: seen.rate for each, seen in self._seen.items() if seen.rate}
            busy = sorted(rates, key=rates.__getitem__, reverse=True)[: PARTITIONS_MAX // 2]
            begin = self._next % len(leaders)
            part = leaders[begin : begin + PARTITIONS_MAX - len(busy)]
            self._next = begin + len(part)
        return list(dict.fromkeys([*busy, *part]))


def throughput_of(access: ClusterAccess) -> Throughput:
    """Returns the rates that all pages of an access share."""
    return access.shared("throughput", Throughput)


async def observed(access: ClusterAccess, leaders: Sequence[TopicPartition], what: object) -> Throughput:
    """Looks at partitions as often as the cost allows; returns all rates.

    Args:
        access: of the session.
        leaders: partitions with a leader; of many, some.
        what: names the set of partitions.

    Raises:
        ClientError: the cluster cannot be reached.
    """
    throughput = throughput_of(access)

    def ask(admin: Admin) -> None:
        throughput.observe(_ends(admin, throughput.choose(leaders)))

    if leaders:
        asked = access.cached(("ends", what), _APART_S, ask, stale_s=60.0, cost_max=COST_MAX)
        with contextlib.suppress(TimeoutError):  # rates of the last looks will do
            await asyncio.wait_for(asked, PATIENCE_S)
    return throughput


def leaders_of(topics: Mapping[str, TopicInfo], names: Sequence[str]) -> list[TopicPartition]:
    """Returns the partitions of topics that have a leader."""
    return [
        TopicPartition(name, number)
        for name in names
        if name in topics
        for number, info in topics[name].partitions.items()
        if info.leader >= 0
    ]


def _ends(admin: Admin, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Fetches end offsets. A client without metadata fetches that of all topics once, not topic by topic."""
    if admin not in _with_all and len({each.topic for each in partitions}) > _TOPICS_ALONE:
        admin.topics(internal=True)
        _with_all.add(admin)
    return admin.end_offsets(partitions)
