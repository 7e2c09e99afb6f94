"""Encodes the records of share groups (KIP-932)."""

from bowstring.engine.coordinators.effects import Record
from bowstring.engine.groups.modern.group import Assignment
from bowstring.engine.groups.records import encode_key, encode_value
from bowstring.engine.groups.share.group import ShareGroup
from bowstring.engine.groups.share.member import STABLE, ShareMember
from bowstring.engine.groups.share.state_partitions import StatePartitions, Topics
from bowstring.protocol.records.share_group import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicInfo,
    TopicPartition,
    TopicPartitions,
    TopicPartitionsInfo,
)

MEMBER = 10
GROUP_EPOCH = 11
TARGET_EPOCH = 12
TARGET = 13
ASSIGNMENT = 14
STATE_PARTITIONS = 15

TYPES = (MEMBER, GROUP_EPOCH, TARGET_EPOCH, TARGET, ASSIGNMENT, STATE_PARTITIONS)
"""All record types of share groups."""


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """Encodes a group epoch."""
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return _group_epoch_key(group_id), encode_value(0, value)


def _group_epoch_key(group_id: str) -> bytes:
    return encode_key(GROUP_EPOCH, ShareGroupMetadataKey(group_id=group_id))


def member(group_id: str, each: ShareMember) -> Record:
    """Encodes a member without its assignment."""
    value = ShareGroupMemberMetadataValue(
        rack_id=each.rack_id,
        client_id=each.client_id,
        client_host=each.client_host,
        subscribed_topic_names=sorted(each.subscribed_topics),
    )
    return _member_key(group_id, each.member_id), encode_value(0, value)


def _member_key(group_id: str, member_id: str) -> bytes:
    return encode_key(MEMBER, ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id))


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """Encodes the epoch of a target assignment and when it was computed."""
    value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return _target_epoch_key(group_id), encode_value(0, value)


def _target_epoch_key(group_id: str) -> bytes:
    return encode_key(TARGET_EPOCH, ShareGroupTargetAssignmentMetadataKey(group_id=group_id))


def target(group_id: str, member_id: str, assignment: Assignment) -> Record:
    """Encodes the target assignment of a member."""
    value = ShareGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assignment.items()
        ]
    )
    return _target_key(group_id, member_id), encode_value(0, value)


def _target_key(group_id: str, member_id: str) -> bytes:
    return encode_key(TARGET, ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id))


def assignment(group_id: str, each: ShareMember) -> Record:
    """Encodes a member's epoch and assignment."""
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=each.member_epoch,
        previous_member_epoch=each.previous_member_epoch,
        state=STABLE,
        assigned_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in each.assigned.items()
        ],
    )
    return _assignment_key(group_id, each.member_id), encode_value(0, value)


def _assignment_key(group_id: str, member_id: str) -> bytes:
    return encode_key(
        ASSIGNMENT, ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    )


def state_partitions(group_id: str, partitions: StatePartitions) -> Record:
    """Encodes which share partitions have state."""
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_topics(partitions.initializing),
        initialized_topics=_topics(partitions.initialized),
        deleting_topics=[
            TopicInfo(topic_id=topic_id, topic_name=name) for topic_id, name in partitions.deleting.items()
        ],
    )
    return _state_partitions_key(group_id), encode_value(0, value)


def _topics(topics: Topics) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=topic_id, topic_name=each.name, partitions=sorted(each.partitions))
        for topic_id, each in topics.items()
    ]


def _state_partitions_key(group_id: str) -> bytes:
    return encode_key(STATE_PARTITIONS, ShareGroupStatePartitionMetadataKey(group_id=group_id))


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Encodes the deletion of a member."""
    return [
        (_assignment_key(group_id, member_id), None),
        (_target_key(group_id, member_id), None),
        (_member_key(group_id, member_id), None),
    ]


def group_tombstones(group: ShareGroup) -> list[Record]:
    """Encodes the deletion of a group without members."""
    group_id = group.group_id
    return [
        (_target_epoch_key(group_id), None),
        (_state_partitions_key(group_id), None),
        (_group_epoch_key(group_id), None),
    ]
