"""Removes members of streams groups, and does what timers request."""

from functools import partial
from typing import Final

from bowstring.engine.groups.effects import TimerKey
from bowstring.engine.groups.modern.changes import Changes
from bowstring.engine.groups.modern.group import LEAVE_STATIC_EPOCH, NEVER_MS
from bowstring.engine.groups.state import ShardState
from bowstring.engine.groups.streams import records
from bowstring.engine.groups.streams.group import StreamsGroup
from bowstring.engine.groups.streams.member import MemberState
from bowstring.engine.groups.streams.settings import STANDBY_REPLICAS, settings
from bowstring.engine.groups.streams.target import Plan, compute_target
from bowstring.protocol.errors import Error

_SESSION: Final = "streams session"
_REBALANCE: Final = "streams rebalance"
_INITIAL: Final = "streams initial"


def session_timer(group_id: str, member_id: str) -> TimerKey:
    """Returns the timer of a member that sends nothing."""
    return (_SESSION, group_id, member_id)


def rebalance_timer(group_id: str, member_id: str) -> TimerKey:
    """Returns the timer of a member that does not give up tasks."""
    return (_REBALANCE, group_id, member_id)


def initial_timer(group_id: str) -> TimerKey:
    """Returns the timer of the first assignment."""
    return (_INITIAL, group_id)


def fence(state: ShardState, group: StreamsGroup, member_id: str, changes: Changes) -> None:
    """Removes a member and raises the group epoch; the next heartbeat of another member assigns its tasks."""
    tombstones = records.member_tombstones(group.group_id, member_id)
    for record in tombstones[:-1]:
        changes.add(record)
    changes.add(tombstones[-1], lambda: group.remove_member(member_id))
    facts = group.facts()._replace(epoch=group.epoch + 1)
    changes.add(records.group(group.group_id, facts), lambda: group.set_facts(facts))
    if len(group.members) == 1:
        changes.add(
            records.target_epoch(group.group_id, facts.epoch, NEVER_MS),
            partial(group.set_target_epoch, facts.epoch, NEVER_MS),
        )
    # not before: a member that stays because of an error needs them
    changes.then(partial(state.cancel_timer, session_timer(group.group_id, member_id)))
    changes.then(partial(state.cancel_timer, rebalance_timer(group.group_id, member_id)))


def timer_fired(state: ShardState, group: StreamsGroup, key: TimerKey, now_ms: int) -> None:
    """Removes a member that is silent or late, or computes the first assignment."""
    if key[0] == _INITIAL:
        return _assign_first(state, group, now_ms)
    member = group.members.get(key[2]) if key[0] in (_SESSION, _REBALANCE) else None
    if member is None:
        return
    why = "its session timed out"
    if key[0] == _REBALANCE:
        if group.rebalance_epochs.get(member.member_id) != member.member_epoch:
            return  # it has moved on
        why = f"it did not give up tasks within {member.rebalance_timeout_ms} ms"
    changes = Changes()
    fence(state, group, member.member_id, changes)
    note = f"streams group {group.group_id}: member {member.member_id} removed, {why}"
    changes.then(partial(state.note, note))
    changes.commit(state, None, None, _nobody, failed=partial(state.retry_timer, key))


def _nobody(error: Error) -> None:
    """Answers no request."""


def _assign_first(state: ShardState, group: StreamsGroup, now_ms: int) -> None:
    """Computes the assignment of all members of the initial delay; their heartbeats fetch it."""
    group.is_delayed = False
    if not group.members or group.configured is None or group.epoch <= group.assignment_epoch:
        return
    standby_replicas = int(group.assignment_configs.get(STANDBY_REPLICAS, "0"))
    plan = Plan(group.epoch, group.configured, standby_replicas, now_ms)
    changes = Changes()
    compute_target(group, group.members, group.target, plan, changes)
    state.append(changes.records, written=changes.written)


def start_sessions(state: ShardState, group: StreamsGroup) -> None:
    """Starts the timers of all members of a group that was read from the log."""
    config = settings(state, group.group_id)
    for member in group.members.values():
        state.set_timer(session_timer(group.group_id, member.member_id), config.session_timeout_ms)
        if member.state is MemberState.UNREVOKED_TASKS and member.member_epoch != LEAVE_STATIC_EPOCH:
            group.rebalance_epochs[member.member_id] = member.member_epoch
            timer = rebalance_timer(group.group_id, member.member_id)
            state.set_timer(timer, max(0, member.rebalance_timeout_ms))


def cancel_timers(state: ShardState, group: StreamsGroup) -> None:
    """Cancels the timer of a group without members that is about to be removed."""
    group.is_delayed = False
    state.cancel_timer(initial_timer(group.group_id))
