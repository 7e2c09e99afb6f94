"""Rebuilds consumer groups from their records in the log.

Records come in any order, each key with its last value; `SubscribingGroup.replayed` counts afterwards.
"""

from collections.abc import Callable, Iterable

from bowstring._native.protocol.message_codec import decode
from bowstring.engine.groups.consumer import records
from bowstring.engine.groups.consumer.group import ConsumerGroup, ResolvedRegex
from bowstring.engine.groups.consumer.member import ClassicMember, Member, MemberState, PartitionEpochs
from bowstring.engine.groups.state import ShardState
from bowstring.protocol.records.consumer_group import (
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
    TopicPartitions,
)


def _group(state: ShardState, group_id: str) -> ConsumerGroup:
    """Returns the group, or a new one in the place of a group that only holds offsets."""
    group = state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        group = state.groups[group_id] = ConsumerGroup(group_id)
    return group


def _member(state: ShardState, group_id: str, member_id: str) -> tuple[ConsumerGroup, Member]:
    group = _group(state, group_id)
    return group, group.members.get(member_id, Member(member_id))


def _group_epoch(state: ShardState, key: bytes, value: bytes, record_offset: int, producer_id: int) -> None:
    group = _group(state, decode(ConsumerGroupMetadataKey, 0, key, 2).group_id)
    body = decode(ConsumerGroupMetadataValue, 0, value, 2)
    group.epoch, group.metadata_hash = body.epoch, body.metadata_hash


def _old_metadata(state: ShardState, key: bytes, value: bytes, record_offset: int, producer_id: int) -> None:
    group = _group(state, decode(ConsumerGroupPartitionMetadataKey, 0, key, 2).group_id)
    group.has_old_metadata_record = True


def _member_metadata(
    state: ShardState, key: bytes, value: bytes, record_offset: int, producer_id: int
) -> None:
    name = decode(ConsumerGroupMemberMetadataKey, 0, key, 2)
    body = decode(ConsumerGroupMemberMetadataValue, 0, value, 2)
    group, member = _member(state, name.group_id, name.member_id)
    classic = None
    if body.classic_member_metadata is not None:
        classic = ClassicMember(
            body.classic_member_metadata.session_timeout_ms,
            tuple((each.name, each.metadata) for each in body.classic_member_metadata.supported_protocols),
        )
    group.members[name.member_id] = member._replace(
        instance_id=body.instance_id,
        rack_id=body.rack_id,
        client_id=body.client_id,
        client_host=body.client_host,
        rebalance_timeout_ms=body.rebalance_timeout_ms,
        subscribed_topics=frozenset(body.subscribed_topic_names),
        subscribed_regex=body.subscribed_topic_regex,
        assignor=body.server_assignor,
        classic=classic,
    )


def _target_epoch(state: ShardState, key: bytes, value: bytes, record_offset: int, producer_id: int) -> None:
    group = _group(state, decode(ConsumerGroupTargetAssignmentMetadataKey, 0, key, 2).group_id)
    body = decode(ConsumerGroupTargetAssignmentMetadataValue, 0, value, 2)
    group.set_target_epoch(body.assignment_epoch, body.assignment_timestamp)


def _target(state: ShardState, key: bytes, value: bytes, record_offset: int, producer_id: int) -> None:
    name = decode(ConsumerGroupTargetAssignmentMemberKey, 0, key, 2)
    body = decode(ConsumerGroupTargetAssignmentMemberValue, 0, value, 2)
    assignment = {each.topic_id: frozenset(each.partitions) for each in body.topic_partitions}
    _group(state, name.group_id).set_target(name.member_id, assignment)


def _assignment(state: ShardState, key: bytes, value: bytes, record_offset: int, producer_id: int) -> None:
    name = decode(ConsumerGroupCurrentMemberAssignmentKey, 0, key, 2)
    body = decode(ConsumerGroupCurrentMemberAssignmentValue, 0, value, 2)
    group, member = _member(state, name.group_id, name.member_id)
    group.members[name.member_id] = member._replace(
        member_epoch=body.member_epoch,
        previous_member_epoch=body.previous_member_epoch,
        state=MemberState(body.state),
        assigned=_epochs(body.assigned_partitions, body.member_epoch),
        pending_revocation=_epochs(body.partitions_pending_revocation, body.member_epoch),
    )


def _epochs(topics: Iterable[TopicPartitions], member_epoch: int) -> PartitionEpochs:
    """Returns partitions with the epochs of their assignment. Kafka before 4.3 wrote none: then the member's
    counts, or 0 of a static member that is away.
    """
    found: dict[bytes, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        found[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return found


def _regex(state: ShardState, key: bytes, value: bytes, record_offset: int, producer_id: int) -> None:
    name = decode(ConsumerGroupRegularExpressionKey, 0, key, 2)
    body = decode(ConsumerGroupRegularExpressionValue, 0, value, 2)
    found = ResolvedRegex(frozenset(body.topics), body.version, body.timestamp)
    _group(state, name.group_id).set_resolved(name.regular_expression, found)


_VALUES: dict[int, Callable[[ShardState, bytes, bytes, int, int], None]] = {
    records.GROUP_EPOCH: _group_epoch,
    records.OLD_METADATA: _old_metadata,
    records.MEMBER: _member_metadata,
    records.TARGET_EPOCH: _target_epoch,
    records.TARGET: _target,
    records.ASSIGNMENT: _assignment,
    records.REGEX: _regex,
}


def apply(state: ShardState, key: bytes, value: bytes | None, record_offset: int, producer_id: int) -> None:
    """Applies a record that has the last value of its key. A tombstone changes nothing then."""
    if value is not None:
        _VALUES[int.from_bytes(key[:2], "big")](state, key, value, record_offset, producer_id)
