"""Measures rates of partitions from outside: by the difference of their end offsets."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import math
import threading
import time
from array import array
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from bowstring.clients.records import TopicInfo, TopicPartition
from bowstring.console.cluster_access import ClusterAccess
from bowstring.console.cluster_facts import COST_MAX, PATIENCE_S, has_all_topics, read_topics

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin

PARTITIONS_MAX = 1000
"""Of one look."""
_APART_S = 0.8
"""Between two looks that make a rate."""
_KEPT_S = 900.0
_TOPICS_ALONE = 3


class _Seen:
    """The partitions of a topic, by number: when an end offset was seen, the offset (-1: never), and the rate
    until then (NaN: unknown). Arrays: 24 bytes for each of a hundred thousand.
    """

    __slots__ = ("at", "end", "rate")

    def __init__(self) -> None:
        self.at, self.end, self.rate = array("d"), array("q"), array("d")

    def reach(self, number: int) -> None:
        """Makes room for a partition."""
        more = number + 1 - len(self.end)
        if more > 0:
            self.at.extend([0.0] * more)
            self.end.extend([-1] * more)
            self.rate.extend([math.nan] * more)


class Throughput:
    """Rates of partitions, in records a second. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, _Seen] = {}
        self._of_topics = Counter[str]()
        self._known = Counter[str]()
        self._next = 0

    def observe(self, ends: Mapping[TopicPartition, int], at: float | None = None) -> None:
        """Takes end offsets that were just fetched."""
        now = time.monotonic() if at is None else at
        with self._lock:
            for (topic, number), end in ends.items():
                seen = self._seen.get(topic)
                if seen is None:
                    seen = self._seen[topic] = _Seen()
                seen.reach(number)
                elapsed = now - seen.at[number]
                if seen.end[number] < 0 or end < seen.end[number] or elapsed > _KEPT_S:
                    self._change(topic, number, now, end, math.nan)
                elif elapsed >= _APART_S:
                    self._change(topic, number, now, end, (end - seen.end[number]) / elapsed)

    def _change(self, topic: str, number: int, at: float, end: int, rate: float) -> None:
        seen = self._seen[topic]
        before = seen.rate[number]
        seen.at[number], seen.end[number], seen.rate[number] = at, end, rate
        was, is_ = not math.isnan(before), not math.isnan(rate)
        if was or is_:
            self._of_topics[topic] += (rate if is_ else 0.0) - (before if was else 0.0)  # type: ignore[assignment]
            self._known[topic] += is_ - was

    def of_topic(self, topic: str) -> float | None:
        """Returns the sum of the known rates of a topic's partitions; None if none is known."""
        return max(0.0, float(self._of_topics[topic])) if self._known[topic] > 0 else None

    def of_partition(self, partition: TopicPartition) -> float | None:
        """Returns the rate of a partition; None if it is unknown."""
        seen = self._seen.get(partition.topic)
        if seen is None or partition.partition >= len(seen.rate):
            return None
        rate = seen.rate[partition.partition]
        return None if math.isnan(rate) else rate

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
            for topic in [each for each in self._seen if each not in topics]:
                del self._seen[topic]
                self._of_topics.pop(topic, None)
                self._known.pop(topic, None)

    def choose(self, leaders: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Returns which partitions to look at now: the busiest ones, and the next part of a round of all."""
        if len(leaders) <= PARTITIONS_MAX:
            return list(leaders)
        with self._lock:
            rates = (
                (rate, topic, number)
                for topic, of_topic in self._of_topics.items()
                if of_topic > 0
                for number, rate in enumerate(self._seen[topic].rate)
                if rate > 0
            )
            most = heapq.nlargest(PARTITIONS_MAX // 2, rates)
            busy = [TopicPartition(topic, number) for _, topic, number in most]
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
        asked = access.cached(("ends", what), _APART_S, ask, stale_s=60.0, cost_max=COST_MAX, whole=True)
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
    if not has_all_topics(admin) and len({each.topic for each in partitions}) > _TOPICS_ALONE:
        read_topics(admin)
    return admin.end_offsets(partitions)
