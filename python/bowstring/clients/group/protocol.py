"""Encodes the metadata that consumers exchange through the group coordinator, which does not decode it."""

from __future__ import annotations

from collections.abc import Iterable

from bowstring._native.protocol.message_codec import ProtocolError as CodecError
from bowstring._native.protocol.message_codec import decode_prefix, encode
from bowstring.clients.errors import ProtocolError
from bowstring.clients.group.assignors import Subscription
from bowstring.clients.records import TopicPartition
from bowstring.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)

VERSION = 3
VERSION_BYTES = 2


def encode_subscription(subscription: Subscription) -> bytes:
    """Returns the metadata for JoinGroup."""
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        owned_partitions=[
            ConsumerProtocolSubscriptionTopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in by_topic(subscription.owned).items()
        ],
        generation_id=subscription.generation,
    )
    return VERSION.to_bytes(VERSION_BYTES, "big") + encode(message, VERSION)


def decode_subscription(data: bytes, group_instance_id: str | None = None) -> Subscription:
    """Decodes a member's metadata, of any client and version.

    Raises:
        ProtocolError: the bytes are not a subscription.
    """
    try:
        message, _ = decode_prefix(ConsumerProtocolSubscription, _version(data), data, VERSION_BYTES)
    except CodecError as error:
        raise ProtocolError(f"a group member's subscription cannot be decoded: {error}") from error
    owned = [TopicPartition(entry.topic, p) for entry in message.owned_partitions for p in entry.partitions]
    return Subscription(tuple(message.topics), tuple(owned), message.generation_id, group_instance_id)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Returns the bytes that SyncGroup passes to a member."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=numbers)
            for topic, numbers in by_topic(partitions).items()
        ]
    )
    return VERSION.to_bytes(VERSION_BYTES, "big") + encode(message, VERSION)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Returns the partitions of an assignment; none when it is empty.

    Raises:
        ProtocolError: the bytes are not an assignment.
    """
    if not data:
        return []
    try:
        message, _ = decode_prefix(ConsumerProtocolAssignment, _version(data), data, VERSION_BYTES)
    except CodecError as error:
        raise ProtocolError(f"a group's assignment cannot be decoded: {error}") from error
    return [TopicPartition(entry.topic, p) for entry in message.assigned_partitions for p in entry.partitions]


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Returns partition numbers by topic, both in order."""
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        found.setdefault(topic, []).append(partition)
    return found


def _version(data: bytes) -> int:
    if len(data) < VERSION_BYTES:
        raise ProtocolError(f"{len(data)} bytes are too few for a group member's metadata")
    # Later versions only add fields at the end, so they can be decoded as the newest supported one.
    return max(0, min(VERSION, int.from_bytes(data[:VERSION_BYTES], "big", signed=True)))
