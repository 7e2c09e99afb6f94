"""Resolves the bounds of a read (words, offsets, times) to offsets of each partition."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.errors import ConfigError
from bowstring.clients.records import TopicPartition

# "earliest", "latest", an offset (negative: from the end), or the first record at or after a time.
Bound = str | int | datetime
Bounds = Bound | Mapping[int, Bound]

WORDS = ("earliest", "latest")


def ranges(
    consumer: Consumer, partitions: list[TopicPartition], start: Bounds, end: Bounds
) -> dict[TopicPartition, tuple[int, int]]:
    """Returns first and end offset of each partition; empty partitions are left out.

    Ends are at most the present end of the partition. Numeric offsets are not checked.

    Raises:
        ConfigError: a bound is invalid.
        NoBrokerError, BrokerError: the brokers do not answer.
    """
    first = consumer.beginning_offsets(partitions)
    last = consumer.end_offsets(partitions)
    starts = _offsets(consumer, "start", {p: _of(start, p, "earliest") for p in partitions}, first, last)
    ends = _offsets(consumer, "end", {p: _of(end, p, "latest") for p in partitions}, first, last)
    found = {p: (starts[p], min(ends[p], last[p])) for p in partitions}
    return {p: bounds for p, bounds in found.items() if bounds[0] < bounds[1]}


def _of(bounds: Bounds, partition: TopicPartition, otherwise: Bound) -> Bound:
    """Returns the bound of one partition; partitions that a mapping does not name are read completely."""
    return bounds.get(partition.partition, otherwise) if isinstance(bounds, Mapping) else bounds


def _offsets(
    consumer: Consumer,
    what: str,
    bounds: dict[TopicPartition, Bound],
    first: dict[TopicPartition, int],
    last: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    times: dict[TopicPartition, int] = {}
    for partition, bound in bounds.items():
        if isinstance(bound, datetime):
            times[partition] = int(bound.timestamp() * 1000)
        elif isinstance(bound, int) and not isinstance(bound, bool):
            found[partition] = bound if bound >= 0 else max(first[partition], last[partition] + bound)
        elif bound in WORDS:
            found[partition] = (first if bound == "earliest" else last)[partition]
        else:
            raise ConfigError(
                f'{what} is {bound!r}; it must be "earliest", "latest", an offset, a datetime, or a mapping '
                "from partitions to one of these"
            )
    if times:
        for partition, answer in consumer.offsets_for_times(times).items():
            found[partition] = last[partition] if answer is None else answer.offset
    return found
