"""Defines what a share consumer returns, and the ways to acknowledge it."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from bowstring.clients.errors import ClientError
from bowstring.clients.records import Headers, TopicPartition


class Acknowledgement(IntEnum):
    """What happens to a delivered record (KIP-932, KIP-1222). GAP: there is no record at the offset.

    ACCEPT: it is done. RELEASE: it is delivered again. REJECT: it is never delivered again. RENEW: this
    consumer keeps it for another lock duration, and acknowledges it later.
    """

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class ShareRecord(NamedTuple):
    """One record as delivered to a share consumer.

    Attributes:
        topic, partition: where it was read.
        offset: its place in the partition.
        timestamp: milliseconds since the epoch.
        timestamp_type: CREATE_TIME (0), set by the producer, or LOG_APPEND_TIME (1), set by the broker.
        key: bytes, or None; of a ShareConsumer with a format for keys the decoded object.
        value: bytes; None is a tombstone; with a format for values the decoded object.
        headers: pairs of a name and bytes, or None.
        delivery_count: how many times the group has got it, this time included.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: Headers
    delivery_count: int


# Offsets of one partition from the first to the last, both included.
OffsetRange = tuple[int, int]


class Outcome(NamedTuple):
    """The result of acknowledgements in one partition.

    Attributes:
        partition: where the records are.
        offsets: first and last offset of each run of records.
        error: None if the broker stored them; otherwise the records may be delivered again.
    """

    partition: TopicPartition
    offsets: list[OffsetRange]
    error: ClientError | None


OnAcknowledged = Callable[[Outcome], object]
