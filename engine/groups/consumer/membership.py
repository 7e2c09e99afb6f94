"""Removes members of consumer groups: they leave, fall silent, or keep partitions for too long."""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, NamedTuple

from bowstring.engine.groups.append_errors import append_error_of_group
from bowstring.engine.groups.consumer import migration, records
from bowstring.engine.groups.consumer.group import ConsumerGroup, counts_with
from bowstring.engine.groups.consumer.member import NO_PARTITIONS, Member, MemberState
from bowstring.engine.groups.consumer.timers import (
    JOIN,
    MEMBER_KEY_PARTS,
    REBALANCE,
    SESSION,
    SYNC,
    cancel_timers,
)
from bowstring.engine.groups.effects import TimerKey
from bowstring.engine.groups.modern.changes import Changes
from bowstring.engine.groups.modern.group import LEAVE_STATIC_EPOCH, NEVER_MS, NO_ASSIGNMENT, count_all
from bowstring.engine.groups.state import ShardState
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def unknown_member(group: ConsumerGroup, member_id: str) -> KafkaError:
    """Returns the error for a member that the group does not have."""
    return KafkaError(
        Errors.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}."
    )


def check_instance(member: Member | None, member_id: str, instance_id: str) -> None:
    """Checks that a member has its instance id.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another member has it.
    """
    if member is None:
        raise KafkaError(Errors.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise KafkaError(
            Errors.FENCED_INSTANCE_ID,
            f"Member {member.member_id} has the instance id {instance_id}, not {member_id}.",
        )


# ---- static members


def replace_static(group: ConsumerGroup, old: Member, member_id: str, changes: Changes) -> Member:
    """Gives the place and the assignments of a static member to another member id."""
    group_id = group.group_id
    new = old._replace(member_id=member_id, member_epoch=0, previous_member_epoch=0)
    target = group.target.get(old.member_id, NO_ASSIGNMENT)
    for record in records.member_tombstones(group_id, old.member_id):
        changes.add(record)
    changes.then(partial(group.remove_member, old.member_id))
    changes.add(records.member(group_id, new))
    changes.add(records.target(group_id, member_id, target), partial(group.set_target, member_id, target))
    changes.add(records.assignment(group_id, new), partial(group.put_member, new))
    return new


def _leave_for_now(state: ShardState, group: ConsumerGroup, member: Member, token: object) -> None:
    """Keeps the assignment of a static member that will come back within its session timeout."""
    away = member._replace(
        member_epoch=LEAVE_STATIC_EPOCH,
        pending_revocation=NO_PARTITIONS,
        assigned={topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()},
    )
    changes = Changes()
    changes.add(records.assignment(group.group_id, away), partial(group.put_member, away))
    body = ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=LEAVE_STATIC_EPOCH)
    changes.commit(state, token, body, _refused)


# ---- leaving


def leave(state: ShardState, request: ConsumerGroupHeartbeatRequest, token: object, now_ms: int) -> None:
    """Handles a heartbeat with epoch -1 or -2.

    Raises:
        KafkaError: Why it is refused.
    """
    group = state.groups.get(request.group_id)
    if not isinstance(group, ConsumerGroup):
        raise KafkaError(Errors.GROUP_ID_NOT_FOUND, f"There is no consumer group {request.group_id}.")
    if request.instance_id is None:
        member = group.members.get(request.member_id)
        if member is None:
            raise unknown_member(group, request.member_id)
    else:
        member = group.static_member(request.instance_id)
        check_instance(member, request.member_id, request.instance_id)
        assert member is not None
        if request.member_epoch == LEAVE_STATIC_EPOCH:
            return _leave_for_now(state, group, member, token)
    state.note(f"group {group.group_id}: member {member.member_id} left")
    body = ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch)
    return remove(state, group, [member], now_ms, Answer(token, body, _refused))


class Answer(NamedTuple):
    """The answer to a request when its changes are committed, and the one for an error.

    Attributes:
        failed: Called if the changes could not be written.
        note: What the broker's log says when they are written.
    """

    token: object
    body: Any
    refused: Callable[[Error], Any]
    failed: Callable[[], None] | None = None
    note: str = ""

    def give(self, state: ShardState, error: Error) -> None:
        """Answers, after an append with or without an error."""
        if self.token is not None:
            state.respond(self.token, self.refused(append_error_of_group(error)) if error else self.body)


def remove(
    state: ShardState, group: ConsumerGroup, members: Collection[Member], now_ms: int, answer: Answer
) -> None:
    """Removes members in one append, and answers when that is committed. The group gets a new epoch; if only
    classic members are left, it becomes a classic group.
    """
    group_id = group.group_id
    if migration.may_downgrade(state, group, members):
        if answer.note:
            state.note(answer.note)
        new = migration.downgrade(
            *(state, group, members, None, now_ms),
            finished=partial(answer.give, state),
            failed=answer.failed,
        )
        return migration.rebalance(state, new, "members of the new protocol have left", now_ms)
    changes = Changes()
    for member in members:
        for record in records.member_tombstones(group_id, member.member_id):
            changes.add(record)
        changes.then(partial(group.remove_member, member.member_id))
        # not before: a member that stays because of an error needs them
        changes.then(partial(cancel_timers, state, group_id, member.member_id))
    _new_epoch_without(state, group, members, changes)
    if answer.note:  # not before: it may be tried again and again
        changes.then(partial(state.note, answer.note))
    return changes.commit(state, answer.token, answer.body, answer.refused, failed=answer.failed)


def _new_epoch_without(
    state: ShardState, group: ConsumerGroup, members: Collection[Member], changes: Changes
) -> None:
    names = dict(group.topic_counts)
    regex_counts = dict(group.regex_counts)
    by_regex = group.regex_topic_counts
    for member in members:
        count_all(names, member.subscribed_topics, -1)
        if member.subscribed_regex:
            count_all(regex_counts, (member.subscribed_regex,), -1)
    for regex in group.regex_counts.keys() - regex_counts.keys():
        changes.add(records.regex_tombstone(group.group_id, regex), partial(group.set_resolved, regex, None))
        if regex in group.resolved:
            by_regex = counts_with(by_regex, group.resolved[regex].topics, ())
    metadata_hash = state.cluster.metadata_hash(names.keys() | by_regex.keys())
    epoch = group.epoch + 1
    changes.add(
        records.group_epoch(group.group_id, epoch, metadata_hash),
        partial(group.set_epoch, epoch, metadata_hash, state.cluster.topics_version),
    )
    if len(group.members) == len(members):
        changes.add(
            records.target_epoch(group.group_id, epoch, NEVER_MS),
            partial(group.set_target_epoch, epoch, NEVER_MS),
        )


def _refused(error: Error) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)


# ---- timers


def timer_fired(state: ShardState, group: ConsumerGroup, key: TimerKey, now_ms: int) -> None:
    """Removes a member whose time is over."""
    member = group.members.get(key[-1])
    if member is None or len(key) != MEMBER_KEY_PARTS:
        return
    kind = key[0]
    if kind == SESSION:
        why = "its session timed out"
    elif kind == REBALANCE:
        if member.state is not MemberState.UNREVOKED_PARTITIONS or member.member_epoch < 0:
            return
        why = "it did not give up its partitions within its rebalance timeout"
    elif kind in (JOIN, SYNC) and member.classic is not None:
        why = "it did not send JoinGroup or SyncGroup within its rebalance timeout"
    else:
        return
    note = f"group {group.group_id}: member {member.member_id} removed, {why}"
    answer = Answer(None, None, _refused, failed=partial(state.retry_timer, key), note=note)
    remove(state, group, [member], now_ms, answer)
