"""Handles SyncGroup: writes the leader's assignment to the log, then answers every member with its part."""

from dataclasses import dataclass
from functools import partial

from bowstring.engine.groups import records
from bowstring.engine.groups.append_errors import append_error_of_group
from bowstring.engine.groups.classic.group import ClassicGroup, GroupState
from bowstring.engine.groups.classic.rebalance import (
    assignment_response,
    prepare_rebalance,
    propagate_assignments,
    rebalance_or_complete_join,
    session_timer,
    sync_timer,
)
from bowstring.engine.groups.state import ShardState
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync(state: ShardState, request: SyncGroupRequest, token: object, now_ms: int) -> None:
    """Answers at once, or parks the request until the leader's assignment is in the log."""
    group = state.classic(request.group_id)
    error = _check_request(group, request)
    if error:
        return state.respond(token, SyncGroupResponse(error_code=error.code))
    assert group is not None
    member = group.members[request.member_id]
    group.pending_sync_members.discard(request.member_id)
    if not group.pending_sync_members:
        state.cancel_timer(sync_timer(group.group_id))
    if group.state is GroupState.STABLE:
        return state.respond(token, assignment_response(group, member))
    if member.sync_token is not None:
        # the client sent the request again: the first answer is unread
        state.respond(member.sync_token, SyncGroupResponse(error_code=Errors.REBALANCE_IN_PROGRESS.code))
    member.sync_token = token
    if group.is_leader(request.member_id):
        given = {part.member_id: bytes(part.assignment) for part in request.assignments}
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        written = Assignment(group, group.generation, assignments)
        state.append(
            [records.group_metadata(group, assignments)],
            finished=partial(_assignment_written, state, written),
        )
    return None


def _check_request(group: ClassicGroup | None, request: SyncGroupRequest) -> Error:
    if not request.group_id:
        return Errors.INVALID_GROUP_ID
    if group is None or group.is_empty:
        return Errors.UNKNOWN_MEMBER_ID
    if group.state is GroupState.DEAD:
        return Errors.COORDINATOR_NOT_AVAILABLE
    error = group.check_member(request.member_id, request.group_instance_id)
    if not error and request.generation_id != group.generation:
        error = Errors.ILLEGAL_GENERATION
    same_type = request.protocol_type in (None, group.protocol_type)
    if not error and not (same_type and request.protocol_name in (None, group.protocol_name)):
        error = Errors.INCONSISTENT_GROUP_PROTOCOL
    if not error and group.state is GroupState.PREPARING_REBALANCE:
        error = Errors.REBALANCE_IN_PROGRESS
    return error


@dataclass(slots=True)
class Assignment:
    """A leader's assignment that is being written to the log."""

    group: ClassicGroup
    generation: int
    parts: dict[str, bytes]


def _assignment_written(state: ShardState, assignment: Assignment, error: Error, now_ms: int) -> None:
    """Makes the group Stable, unless it changed during the append."""
    group = assignment.group
    if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != assignment.generation:
        return
    if error:
        refusal = append_error_of_group(error)
        propagate_assignments(state, group, refusal)
        reason = f"{refusal.name} when writing the assignment of generation {group.generation}"
        rebalance_or_complete_join(state, group, reason, now_ms)
        return
    for member in group.members.values():
        member.assignment = assignment.parts.get(member.member_id, b"")
    propagate_assignments(state, group, Errors.NONE)
    group.transition_to(GroupState.STABLE, now_ms)
    state.rebalances[group.group_type] += 1


def sync_timer_fired(state: ShardState, group: ClassicGroup, now_ms: int) -> None:
    """Removes members that joined but did not sync within a rebalance timeout (KIP-735)."""
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        return
    silent = sorted(group.pending_sync_members)
    if not silent:
        return
    for member_id in silent:
        group.remove(member_id)
        state.cancel_timer(session_timer(group.group_id, member_id))
    prepare_rebalance(state, group, f"no SyncGroup in time from {', '.join(silent)}", now_ms)
