"""Handles Heartbeat, LeaveGroup and session timeouts of classic groups."""

from bowstring.engine.groups.classic.group import UNKNOWN_MEMBER_ID, ClassicGroup, GroupState
from bowstring.engine.groups.classic.rebalance import (
    complete_join,
    complete_join_if_all_joined,
    rebalance_or_complete_join,
    remove_member,
    restart_session,
    session_timer,
)
from bowstring.engine.groups.state import KeptAlive, ShardState
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from bowstring.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)


def heartbeat(state: ShardState, request: HeartbeatRequest, token: object) -> None:
    """Restarts the member's session; during the join phase the answer makes the member rejoin."""
    group = state.classic(request.group_id)
    error = _check_heartbeat(group, request)
    if not error:
        assert group is not None
        restart_session(state, group, group.members[request.member_id])
        if group.state is GroupState.PREPARING_REBALANCE:
            error = Errors.REBALANCE_IN_PROGRESS
    state.respond(token, HeartbeatResponse(error_code=error.code))


def only_kept_alive(state: ShardState, request: HeartbeatRequest) -> KeptAlive | None:
    """Returns the answer to a heartbeat that does nothing but restart a session; otherwise None."""
    group = state.groups.get(request.group_id)
    if not isinstance(group, ClassicGroup) or group.state is GroupState.PREPARING_REBALANCE:
        return None
    if _check_heartbeat(group, request):
        return None
    return KeptAlive(group.members[request.member_id].session_timeout_ms, HeartbeatResponse())


def _check_heartbeat(group: ClassicGroup | None, request: HeartbeatRequest) -> Error:
    if not request.group_id:
        return Errors.INVALID_GROUP_ID
    if group is None:
        return Errors.UNKNOWN_MEMBER_ID
    if group.state is GroupState.DEAD:
        return Errors.COORDINATOR_NOT_AVAILABLE
    error = group.check_member(request.member_id, request.group_instance_id)
    if not error and request.generation_id != group.generation:
        error = Errors.ILLEGAL_GENERATION
    return error


def leave(state: ShardState, request: LeaveGroupRequest, token: object, now_ms: int) -> None:
    """Removes members by id or by instance id, and rebalances without them (KIP-345 batches)."""
    if not request.group_id:
        return state.respond(token, LeaveGroupResponse(error_code=Errors.INVALID_GROUP_ID.code))
    group = state.classic(request.group_id)
    if group is not None and group.state is GroupState.DEAD:
        return state.respond(token, LeaveGroupResponse(error_code=Errors.COORDINATOR_NOT_AVAILABLE.code))
    answers: list[MemberResponse] = []
    left: list[str] = []
    for identity in request.members:
        error = Errors.UNKNOWN_MEMBER_ID if group is None else _leave_one(state, group, identity)
        if not error:
            left.append(identity.member_id or str(identity.group_instance_id))
        answers.append(
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=error.code,
            )
        )
    # answer only after the records written for the members that leave
    if group is not None and left:
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            rebalance_or_complete_join(state, group, f"LeaveGroup of {', '.join(left)}", now_ms)
        else:
            complete_join_if_all_joined(state, group, now_ms)
    return state.respond(token, LeaveGroupResponse(members=answers))


def _leave_one(state: ShardState, group: ClassicGroup, identity: MemberIdentity) -> Error:
    member_id = identity.member_id
    if member_id == UNKNOWN_MEMBER_ID:
        # an admin client may remove a static member without its id
        if identity.group_instance_id not in group.static_members:
            return Errors.UNKNOWN_MEMBER_ID
        member_id = group.static_members[identity.group_instance_id]
    elif member_id in group.pending_join_members:
        group.remove(member_id)
        state.cancel_timer(session_timer(group.group_id, member_id))
        return Errors.NONE
    else:
        error = group.check_member(member_id, identity.group_instance_id)
        if error:
            return error
    state.cancel_timer(session_timer(group.group_id, member_id))
    remove_member(state, group, group.members[member_id])
    reason = identity.reason or "not provided"
    state.note(f"group {group.group_id}: member {member_id} left; client reason: {reason}")
    return Errors.NONE


def session_timer_fired(state: ShardState, group: ClassicGroup, member_id: str, now_ms: int) -> None:
    """Removes a member that sent nothing for its session timeout."""
    if member_id in group.pending_join_members:
        group.remove(member_id)
    else:
        member = group.members.get(member_id)
        if member is None or member.heartbeat_satisfied:
            return
        remove_member(state, group, member)
        state.note(f"group {group.group_id}: member {member_id} removed, its session timed out")
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            rebalance_or_complete_join(state, group, f"session of {member_id} timed out", now_ms)
            return
    if group.state is GroupState.PREPARING_REBALANCE and group.all_members_joined:
        complete_join(state, group, now_ms)
