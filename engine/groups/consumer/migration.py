"""Turns classic groups into consumer groups and back while their members keep working (KIP-848).

group.consumer.migration.policy says which way is allowed. A group is upgraded when the first member joins
with the new protocol, and downgraded when the last of these members leaves.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Final

from bowstring.engine.coordinators.effects import Record
from bowstring.engine.groups import records as group_records
from bowstring.engine.groups.classic import group as classic
from bowstring.engine.groups.classic.group import ClassicGroup, GroupState
from bowstring.engine.groups.classic.rebalance import (
    answer_join,
    join_timer,
    prepare_rebalance,
    propagate_assignments,
    restart_session,
    session_timer,
)
from bowstring.engine.groups.consumer import records
from bowstring.engine.groups.consumer.group import FREE, ConsumerGroup
from bowstring.engine.groups.consumer.member import ClassicMember, Member, MemberState
from bowstring.engine.groups.consumer.timers import cancel_timers, start_sessions
from bowstring.engine.groups.consumer_protocol import (
    decoded_assignment,
    decoded_subscription,
    encoded_assignment,
    protocol_version,
)
from bowstring.engine.groups.modern.changes import Changes
from bowstring.engine.groups.modern.cluster import ClusterView
from bowstring.engine.groups.modern.group import NO_ASSIGNMENT, Assignment
from bowstring.engine.groups.state import ShardState
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.join_group import JoinGroupResponse
from bowstring.protocol.records.consumer_protocol import ConsumerProtocolSubscription

DISABLED: Final = "disabled"
_UPGRADES: Final = ("bidirectional", "upgrade")
_DOWNGRADES: Final = ("bidirectional", "downgrade")


# ---- classic to consumer


def upgraded(state: ShardState, group: ClassicGroup, changes: Changes) -> ConsumerGroup:
    """Returns the consumer group that takes the place of a classic group once the changes are in the log.
    Members that wait for a rebalance must rejoin.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND: the policy, the group's protocol or its size does not allow it.
            COORDINATOR_LOAD_IN_PROGRESS: its members join for the first time; the client retries.
    """
    _check_upgrade(state, group)
    new = _consumer_group(state, group)
    for member in group.members.values():
        answer = JoinGroupResponse(error_code=Errors.REBALANCE_IN_PROGRESS.code, member_id=member.member_id)
        answer_join(state, group, member, answer)
    propagate_assignments(state, group, Errors.REBALANCE_IN_PROGRESS)
    group_id = group.group_id
    changes.add(group_records.group_tombstone(group_id))
    changes.then(partial(state.groups.__setitem__, group_id, new))
    for record in _records(new):
        changes.add(record)
    for each in new.members.values():
        assert each.classic is not None
        state.set_timer(session_timer(group_id, each.member_id), each.classic.session_timeout_ms)
    state.note(f"group {group_id}: becomes a consumer group with {len(new.members)} classic members")
    return new


def _check_upgrade(state: ShardState, group: ClassicGroup) -> None:
    why = None
    if state.config.group_consumer_migration_policy not in _UPGRADES:
        why = "group.consumer.migration.policy does not allow upgrades"
    elif not group.uses_consumer_protocol:
        why = "its members are not consumers"
    elif len(group.members) > state.config.group_consumer_max_size:
        why = "it has more members than group.consumer.max.size"
    if why is not None:
        raise KafkaError(
            Errors.GROUP_ID_NOT_FOUND, f"Group {group.group_id} cannot become a consumer group: {why}."
        )
    if group.protocol_name is None:
        raise KafkaError(
            Errors.COORDINATOR_LOAD_IN_PROGRESS, f"Members of group {group.group_id} still join; try again."
        )


def _consumer_group(state: ShardState, group: ClassicGroup) -> ConsumerGroup:
    new = ConsumerGroup(group.group_id)
    new.set_target_epoch(group.generation, 0)
    found = [_consumer_member(state.cluster, group, each) for each in group.members.values()]
    for member, assignment, _ in found:
        new.set_target(member.member_id, assignment)
        new.put_member(member)
    # newest claims first
    for member, _, subscription in sorted(found, key=lambda each: -each[2].generation_id):
        _keep_owned(state.cluster, new, member, subscription)
    metadata_hash = state.cluster.metadata_hash(new.subscribed_topics)
    new.set_epoch(group.generation, metadata_hash, state.cluster.topics_version)
    return new


def _keep_owned(
    cluster: ClusterView, group: ConsumerGroup, member: Member, subscription: ConsumerProtocolSubscription
) -> None:
    """Notes partitions that a member had when it joined and that have not been assigned since. A
    cooperative member uses them until it has the answer to its SyncGroup: nobody gets them before it rejoins
    without them.
    """
    pending: dict[bytes, dict[int, int]] = {}
    for topic in subscription.owned_partitions:
        topic_id = cluster.topic_id(topic.topic)
        if topic_id is None:
            continue
        free = [index for index in topic.partitions if group.partition_epoch(topic_id, index) == FREE]
        if free:
            pending.setdefault(topic_id, {}).update(dict.fromkeys(sorted(free), member.member_epoch))
    if pending:
        group.put_member(member._replace(state=MemberState.UNREVOKED_PARTITIONS, pending_revocation=pending))


def _consumer_member(
    cluster: ClusterView, group: ClassicGroup, each: classic.Member
) -> tuple[Member, Assignment, ConsumerProtocolSubscription]:
    assert group.protocol_name is not None, group
    subscription = decoded_subscription(each.metadata(group.protocol_name))
    assignment = decoded_assignment(each.assignment) if each.assignment else None
    if subscription is None or (each.assignment and assignment is None):
        raise _unreadable(group, "the metadata of its members cannot be read")
    partitions: dict[bytes, frozenset[int]] = {}
    if assignment is not None:
        if assignment.user_data:
            raise _unreadable(group, "its assignor keeps data of its own in assignments")
        for topic in assignment.assigned_partitions:
            topic_id = cluster.topic_id(topic.topic)
            if topic_id is not None:
                partitions[topic_id] = frozenset(topic.partitions)
    epoch = group.generation
    member = Member(
        each.member_id,
        epoch,
        epoch,
        instance_id=each.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=each.client_id,
        client_host=each.client_host,
        rebalance_timeout_ms=each.rebalance_timeout_ms,
        subscribed_topics=frozenset(subscription.topics),
        assigned={
            topic_id: dict.fromkeys(sorted(indexes), epoch) for topic_id, indexes in partitions.items()
        },
        classic=ClassicMember(each.session_timeout_ms, tuple(each.protocols)),
    )
    return member, partitions, subscription


def _unreadable(group: ClassicGroup, why: str) -> KafkaError:
    return KafkaError(
        Errors.GROUP_ID_NOT_FOUND, f"Group {group.group_id} cannot become a consumer group: {why}."
    )


def _records(group: ConsumerGroup) -> Iterable[Record]:
    group_id, members = group.group_id, list(group.members.values())
    yield from (records.member(group_id, each) for each in members)
    yield records.group_epoch(group_id, group.epoch, group.metadata_hash)
    yield from (records.target(group_id, each.member_id, group.target[each.member_id]) for each in members)
    yield records.target_epoch(group_id, group.assignment_epoch, group.assignment_timestamp_ms)
    yield from (records.assignment(group_id, each) for each in members)


# ---- consumer to classic


def may_downgrade(
    state: ShardState, group: ConsumerGroup, without: Collection[Member], joining: int = 0
) -> bool:
    """Whether all members but some are classic ones, and the group may become a classic one without these.

    Args:
        joining: How many classic members take the places of those that leave.
    """
    classic_left = group.classic_count - sum(member.classic is not None for member in without)
    size = len(group.members) - len(without)
    return (
        classic_left == size
        and size + joining > 0
        and state.config.group_consumer_migration_policy in _DOWNGRADES
        and size + joining <= state.config.group_max_size
    )


def downgrade(
    state: ShardState,
    group: ConsumerGroup,
    leaving: Collection[Member],
    joining: Member | None,
    now_ms: int,
    *,
    rebalances: bool = True,
    finished: Callable[[Error], None],
    failed: Callable[[], None] | None = None,
) -> ClassicGroup:
    """Replaces a consumer group by a classic one at once; its records follow. If they cannot be written, the
    consumer group comes back.

    Args:
        leaving: Members that the classic group does not have.
        joining: A static member in the place of one that leaves.
        rebalances: The caller calls `rebalance` next. A coordinator that loads the group does so, too.
        finished: Called when the records are committed, or with an error.
        failed: Called when the consumer group has come back.
    """
    group_id = group.group_id
    new = _classic_group(state, group, leaving, joining, now_ms=now_ms)
    for member_id in group.members:
        cancel_timers(state, group_id, member_id)
    state.groups[group_id] = new
    in_log: list[int] = []

    def ended(error: Error, now_ms: int) -> None:
        if error and not in_log and state.groups.get(group_id) is new:
            _come_back(state, group)
            if failed is not None:
                failed()
        finished(error)

    assignments = {each.member_id: each.assignment for each in new.members.values()}
    metadata = group_records.group_metadata(new, assignments, rebalances=rebalances)
    state.append(
        [*records.group_tombstones(group), metadata],
        written=in_log.append,
        finished=ended,
    )
    for each in new.members.values():
        restart_session(state, new, each)
    state.note(f"group {group_id}: becomes a classic group with {len(new.members)} members")
    return new


def _classic_group(
    state: ShardState,
    group: ConsumerGroup,
    leaving: Collection[Member],
    joining: Member | None,
    *,
    now_ms: int,
) -> ClassicGroup:
    new = ClassicGroup(group.group_id, now_ms)
    new.generation = group.epoch
    gone = {member.member_id for member in leaving}
    members = [member for member in group.members.values() if member.member_id not in gone]
    if joining is not None:
        members.append(joining)
    for member in members:
        new.add(_classic_member(member))
    new.state = GroupState.STABLE
    new.protocol_name = new.select_protocol()
    new.refresh_subscribed_topics()
    for member in members:
        each = new.members[member.member_id]
        version = protocol_version(each.metadata(new.protocol_name))
        target = (
            group.target_of(member)
            if member is joining
            else group.target.get(member.member_id, NO_ASSIGNMENT)
        )
        each.assignment = classic_assignment(state.cluster, version, target)
    return new


def _come_back(state: ShardState, group: ConsumerGroup) -> None:
    """Undoes a downgrade that is not in the log. No request waits for the classic group yet."""
    state.groups[group.group_id] = group
    group.resolving = False
    state.cancel_timer(join_timer(group.group_id))
    start_sessions(state, group)


def rebalance(state: ShardState, group: ClassicGroup, reason: str, now_ms: int) -> None:
    """Lets the members of a group that was downgraded rejoin."""
    prepare_rebalance(state, group, reason, now_ms)


def _classic_member(member: Member) -> classic.Member:
    assert member.classic is not None, member
    return classic.Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        classic.CONSUMER_PROTOCOL_TYPE,
        list(member.classic.protocols),
    )


def classic_assignment(
    cluster: ClusterView, version: int, partitions: Mapping[bytes, Iterable[int]]
) -> bytes:
    """Encodes an assignment for a member of the classic protocol; topics that do not exist are left out."""
    named = {cluster.topic_name(topic_id): indexes for topic_id, indexes in partitions.items()}
    return encoded_assignment(version, {name: indexes for name, indexes in named.items() if name is not None})
