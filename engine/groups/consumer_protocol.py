"""Decodes and encodes what classic consumers put into JoinGroup and SyncGroup."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from bowstring._native.protocol.message_codec import ProtocolError, decode_prefix, encode
from bowstring.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)

_HIGHEST = 3
# Of subscriptions that are decoded once: the members of a group have the same, again and again.
_KEPT: Final = 200
_KEPT_MAX_BYTES: Final = 1000


def subscribed_topics(metadata: bytes) -> tuple[str, ...] | None:
    """Returns the topics in a ConsumerProtocolSubscription of any version, or None when the bytes are
    malformed.

    A two-byte version comes first. Every later version starts with the fields of version 0, so version 0
    is decoded.
    """
    return _kept_topics(metadata) if len(metadata) <= _KEPT_MAX_BYTES else _topics(metadata)


def _topics(metadata: bytes) -> tuple[str, ...] | None:
    if len(metadata) < 2:
        return None
    try:
        subscription, _ = decode_prefix(ConsumerProtocolSubscription, 0, metadata, 2)
    except ProtocolError:
        return None
    return tuple(subscription.topics)


_kept_topics = lru_cache(_KEPT)(_topics)


def protocol_version(data: bytes) -> int:
    """Returns the version that comes first, or the highest that is known here."""
    return max(0, min(int.from_bytes(data[:2], "big", signed=True), _HIGHEST))


def decoded_subscription(metadata: bytes) -> ConsumerProtocolSubscription | None:
    """Returns the whole subscription of a consumer, or None when the bytes are malformed."""
    if len(metadata) < 2:
        return None
    try:
        found, _ = decode_prefix(ConsumerProtocolSubscription, protocol_version(metadata), metadata, 2)
    except ProtocolError:
        return None
    return found


def decoded_assignment(data: bytes) -> ConsumerProtocolAssignment | None:
    """Returns the assignment of a consumer, or None when the bytes are malformed."""
    if len(data) < 2:
        return None
    try:
        found, _ = decode_prefix(ConsumerProtocolAssignment, protocol_version(data), data, 2)
    except ProtocolError:
        return None
    return found


def encoded_assignment(version: int, partitions: Mapping[str, Iterable[int]]) -> bytes:
    """Encodes an assignment of partitions by topic name."""
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=sorted(indexes))
            for topic, indexes in partitions.items()
        ]
    )
    return version.to_bytes(2, "big") + encode(assignment, version)
