"""What consumers tell each other through the group coordinator, which does not look inside."""

from __future__ import annotations

from collections.abc import Iterable

from bowstring._native.codec import ProtocolError as CodecError
from bowstring._native.codec import decode_prefix, encode
from bowstring.clients.assignors import Subscription
from bowstring.clients.errors import ProtocolError
from bowstring.clients.records import TopicPartition
from bowstring.engine.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)

VERSION = 3
VERSION_BYTES = 2


def encode_subscription(subscription: Subscription) -> bytes:
    """Metadata for JoinGroup."""
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
    """A member's metadata, of any client and version.

    Raises:
        ProtocolError: the bytes are no subscription.
    """
    try:
        message, _ = decode_prefix(ConsumerProtocolSubscription, _version(data), data, VERSION_BYTES)
    except CodecError as error:
        raise ProtocolError(f"a group member's subscription cannot be read: {error}") from error
    owned = [TopicPartition(entry.topic, p) for entry in message.owned_partitions for p in entry.partitions]
    return Subscription(tuple(message.topics), tuple(owned), message.generation_id, group_instance_id)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """What SyncGroup hands to a member."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=numbers)
            for topic, numbers in by_topic(partitions).items()
        ]
    )
    return VERSION.to_bytes(VERSION_BYTES, "big") + encode(message, VERSION)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """The partitions of an assignment; none when it is empty.

    Raises:
        ProtocolError: the bytes are no assignment.
    """
    if not data:
        return []
    try:
        message, _ = decode_prefix(ConsumerProtocolAssignment, _version(data), data, VERSION_BYTES)
    except CodecError as error:
        raise ProtocolError(f"a group's assignment cannot be read: {error}") from error
    return [TopicPartition(entry.topic, p) for entry in message.assigned_partitions for p in entry.partitions]


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, both in order."""
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        found.setdefault(topic, []).append(partition)
    return found


def _version(data: bytes) -> int:
    if len(data) < VERSION_BYTES:
        raise ProtocolError(f"{len(data)} bytes are too few for a group member's metadata")
    # A later version only adds fields at the end, so that it can be read as the newest one known here.
    return max(0, min(VERSION, int.from_bytes(data[:VERSION_BYTES], "big", signed=True)))
