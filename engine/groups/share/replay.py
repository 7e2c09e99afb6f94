"""Rebuilds share groups from their records in the log.

Records come in any order, each key with its last value; `SubscribingGroup.replayed` counts afterwards.
"""

from collections.abc import Callable, Iterable

from bowstring._native.protocol.message_codec import decode
from bowstring.engine.groups.share import records
from bowstring.engine.groups.share.group import ShareGroup
from bowstring.engine.groups.share.member import ShareMember
from bowstring.engine.groups.share.state_partitions import StatePartitions, StateTopic
from bowstring.engine.groups.state import ShardState
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
    TopicPartitionsInfo,
)


def _group(state: ShardState, group_id: str) -> ShareGroup:
    group = state.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        group = state.groups[group_id] = ShareGroup(group_id)
    return group


def _group_epoch(state: ShardState, key: bytes, value: bytes) -> None:
    group = _group(state, decode(ShareGroupMetadataKey, 0, key, 2).group_id)
    body = decode(ShareGroupMetadataValue, 0, value, 2)
    group.epoch, group.metadata_hash = body.epoch, body.metadata_hash


def _member(state: ShardState, key: bytes, value: bytes) -> None:
    name = decode(ShareGroupMemberMetadataKey, 0, key, 2)
    body = decode(ShareGroupMemberMetadataValue, 0, value, 2)
    group = _group(state, name.group_id)
    member = group.members.get(name.member_id, ShareMember(name.member_id))
    group.members[name.member_id] = member._replace(
        rack_id=body.rack_id,
        client_id=body.client_id,
        client_host=body.client_host,
        subscribed_topics=frozenset(body.subscribed_topic_names),
    )


def _target_epoch(state: ShardState, key: bytes, value: bytes) -> None:
    group = _group(state, decode(ShareGroupTargetAssignmentMetadataKey, 0, key, 2).group_id)
    body = decode(ShareGroupTargetAssignmentMetadataValue, 0, value, 2)
    group.set_target_epoch(body.assignment_epoch, body.assignment_timestamp)


def _target(state: ShardState, key: bytes, value: bytes) -> None:
    name = decode(ShareGroupTargetAssignmentMemberKey, 0, key, 2)
    body = decode(ShareGroupTargetAssignmentMemberValue, 0, value, 2)
    assignment = {each.topic_id: frozenset(each.partitions) for each in body.topic_partitions}
    _group(state, name.group_id).set_target(name.member_id, assignment)


def _assignment(state: ShardState, key: bytes, value: bytes) -> None:
    name = decode(ShareGroupCurrentMemberAssignmentKey, 0, key, 2)
    body = decode(ShareGroupCurrentMemberAssignmentValue, 0, value, 2)
    group = _group(state, name.group_id)
    member = group.members.get(name.member_id, ShareMember(name.member_id))
    group.members[name.member_id] = member._replace(
        member_epoch=body.member_epoch,
        previous_member_epoch=body.previous_member_epoch,
        assigned={each.topic_id: frozenset(each.partitions) for each in body.assigned_partitions},
    )


def _state_partitions(state: ShardState, key: bytes, value: bytes) -> None:
    group = _group(state, decode(ShareGroupStatePartitionMetadataKey, 0, key, 2).group_id)
    body = decode(ShareGroupStatePartitionMetadataValue, 0, value, 2)
    group.partitions = StatePartitions(
        _topics(body.initializing_topics),
        _topics(body.initialized_topics),
        {each.topic_id: each.topic_name for each in body.deleting_topics},
    )


def _topics(topics: Iterable[TopicPartitionsInfo]) -> dict[bytes, StateTopic]:
    """Returns the topics, as if written long ago: unfinished initializations are tried again."""
    return {each.topic_id: StateTopic(each.topic_name, frozenset(each.partitions)) for each in topics}


_VALUES: dict[int, Callable[[ShardState, bytes, bytes], None]] = {
    records.GROUP_EPOCH: _group_epoch,
    records.MEMBER: _member,
    records.TARGET_EPOCH: _target_epoch,
    records.TARGET: _target,
    records.ASSIGNMENT: _assignment,
    records.STATE_PARTITIONS: _state_partitions,
}


def apply(state: ShardState, key: bytes, value: bytes | None, record_offset: int, producer_id: int) -> None:
    """Applies a record that has the last value of its key. A tombstone changes nothing then."""
    if value is not None:
        _VALUES[int.from_bytes(key[:2], "big")](state, key, value)
