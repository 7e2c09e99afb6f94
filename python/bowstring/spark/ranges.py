"""Computes the offsets that each task reads: pure arithmetic over ranges, as in Spark's Kafka source."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from bowstring.clients.records import TopicPartition

Offsets = Mapping[TopicPartition, int]


class OffsetRange(NamedTuple):
    """The offsets [start, end) of a partition that one task reads."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """Number of offsets; with compaction or transactions there are fewer records."""
        return self.end - self.start


def split(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records_per_partition: int | None
) -> list[OffsetRange]:
    """Returns the ranges that are not empty, split where they are too large or too few."""
    found = [one for one in ranges if one.size > 0]
    if max_records_per_partition is not None:
        found = [part for one in found for part in _cut(one, math.ceil(one.size / max_records_per_partition))]
    if min_partitions is None or len(found) >= min_partitions:
        return found
    total = sum(one.size for one in found)
    # Small ranges stay whole; the large ones share the remaining number of tasks.
    whole = {one for one in found if _parts(one.size, total, min_partitions) == 1}
    large_total = total - sum(one.size for one in whole)
    wanted = max(min_partitions - len(whole), 1)
    return [
        part
        for one in found
        for part in _cut(one, 1 if one in whole else _parts(one.size, large_total, wanted))
        if part.size > 0
    ]


def _parts(size: int, total: int, wanted: int) -> int:
    return max(1, math.floor(size / total * wanted + 0.5))


def _cut(one: OffsetRange, parts: int) -> list[OffsetRange]:
    bounds = [one.start + one.size * number // parts for number in range(parts + 1)]
    return [one._replace(start=low, end=high) for low, high in pairwise(bounds)]


def rate_limit(limit: int, start: Offsets, end: Offsets) -> dict[TopicPartition, int]:
    """Returns ends that are `limit` records after `start` in total, in proportion to what each partition has.

    Every partition with records gets at least one, so that small partitions make progress.
    """
    sizes = {partition: end[partition] - start[partition] for partition in end if partition in start}
    total = sum(size for size in sizes.values() if size > 0)
    limited = dict(end)
    for partition, size in sizes.items():
        if size > 0:
            share = limit * size / total
            whole = math.ceil(share) if share < 1 else math.floor(share)
            limited[partition] = min(end[partition], start[partition] + whole)
    return limited
