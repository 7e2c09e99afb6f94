"""Encodes the records of consumer groups (KIP-848)."""

from collections.abc import Iterable

from bowstring.engine.coordinators.effects import Record
from bowstring.engine.groups.consumer.group import ConsumerGroup, ResolvedRegex
from bowstring.engine.groups.consumer.member import Member, PartitionEpochs
from bowstring.engine.groups.modern.group import Assignment
from bowstring.engine.groups.records import encode_key, encode_value
from bowstring.protocol.records.consumer_group import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)

GROUP_EPOCH = 3
OLD_METADATA = 4
MEMBER = 5
TARGET_EPOCH = 6
TARGET = 7
ASSIGNMENT = 8
REGEX = 16

TYPES = (GROUP_EPOCH, OLD_METADATA, MEMBER, TARGET_EPOCH, TARGET, ASSIGNMENT, REGEX)
"""All record types of consumer groups."""


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """Encodes a group epoch."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return encode_key(GROUP_EPOCH, ConsumerGroupMetadataKey(group_id=group_id)), encode_value(0, value)


def old_metadata_tombstone(group_id: str) -> Record:
    """Encodes the deletion of a record that only Kafka 4.0 writes."""
    return encode_key(OLD_METADATA, ConsumerGroupPartitionMetadataKey(group_id=group_id)), None


def _member_key(group_id: str, member_id: str) -> bytes:
    return encode_key(MEMBER, ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id))


def member(group_id: str, each: Member) -> Record:
    """Encodes a member without its assignment."""
    classic = None
    if each.classic is not None:
        classic = ClassicMemberMetadata(
            session_timeout_ms=each.classic.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in each.classic.protocols
            ],
        )
    value = ConsumerGroupMemberMetadataValue(
        instance_id=each.instance_id,
        rack_id=each.rack_id,
        client_id=each.client_id,
        client_host=each.client_host,
        subscribed_topic_names=sorted(each.subscribed_topics),
        subscribed_topic_regex=each.subscribed_regex,
        rebalance_timeout_ms=each.rebalance_timeout_ms,
        server_assignor=each.assignor,
        classic_member_metadata=classic,
    )
    return _member_key(group_id, each.member_id), encode_value(0, value)


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """Encodes the epoch of a target assignment and when it was computed."""
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms
    )
    return _target_epoch_key(group_id), encode_value(0, value)


def _target_epoch_key(group_id: str) -> bytes:
    return encode_key(TARGET_EPOCH, ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id))


def _target_key(group_id: str, member_id: str) -> bytes:
    return encode_key(TARGET, ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id))


def target(group_id: str, member_id: str, assignment: Assignment) -> Record:
    """Encodes the target assignment of a member."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assignment.items()
        ]
    )
    return _target_key(group_id, member_id), encode_value(0, value)


def _assignment_key(group_id: str, member_id: str) -> bytes:
    return encode_key(
        ASSIGNMENT, ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    )


def assignment(group_id: str, each: Member) -> Record:
    """Encodes a member's epoch and assignment."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=each.member_epoch,
        previous_member_epoch=each.previous_member_epoch,
        state=each.state,
        assigned_partitions=_partitions(each.assigned),
        partitions_pending_revocation=_partitions(each.pending_revocation),
    )
    return _assignment_key(group_id, each.member_id), encode_value(0, value)


def _partitions(partitions: PartitionEpochs) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic_id, partitions=list(epochs.keys()), assignment_epochs=list(epochs.values())
        )
        for topic_id, epochs in partitions.items()
    ]


def _regex_key(group_id: str, regex: str) -> bytes:
    return encode_key(REGEX, ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))


def regex(group_id: str, pattern: str, found: ResolvedRegex) -> Record:
    """Encodes the topics of a regular expression."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(found.topics), version=found.version, timestamp=found.timestamp_ms
    )
    return _regex_key(group_id, pattern), encode_value(0, value)


def regex_tombstone(group_id: str, pattern: str) -> Record:
    """Encodes that no member subscribes with a regular expression any more."""
    return _regex_key(group_id, pattern), None


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Encodes the deletion of a member."""
    return [
        (_assignment_key(group_id, member_id), None),
        (_target_key(group_id, member_id), None),
        (_member_key(group_id, member_id), None),
    ]


def group_tombstones(group: ConsumerGroup, member_ids: Iterable[str] | None = None) -> list[Record]:
    """Encodes the deletion of a group with its members, by default those that it has."""
    group_id = group.group_id
    ids = list(group.members if member_ids is None else member_ids)
    return [
        *((_assignment_key(group_id, member_id), None) for member_id in ids),
        *((_target_key(group_id, member_id), None) for member_id in ids),
        (_target_epoch_key(group_id), None),
        *((_member_key(group_id, member_id), None) for member_id in ids),
        *(regex_tombstone(group_id, pattern) for pattern in group.resolved),
        old_metadata_tombstone(group_id),
        (encode_key(GROUP_EPOCH, ConsumerGroupMetadataKey(group_id=group_id)), None),
    ]
