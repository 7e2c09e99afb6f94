"""Runs the join phase of a classic group, from the reason to rebalance to the next generation.

PreparingRebalance waits for every member's JoinGroup, at most for the longest rebalance timeout. A group that
was empty waits group.initial.rebalance.delay.ms instead, prolonged while members arrive (KIP-134).
"""

from bowstring.engine.groups import records
from bowstring.engine.groups.classic.group import UNKNOWN_MEMBER_ID, ClassicGroup, GroupState, Member
from bowstring.engine.groups.effects import TimerKey
from bowstring.engine.groups.state import ShardState
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from bowstring.protocol.messages.sync_group import SyncGroupResponse


def session_timer(group_id: str, member_id: str) -> TimerKey:
    """Key of the timer that fires when a member (or a reserved id) sent nothing for its session timeout."""
    return ("session", group_id, member_id)


def join_timer(group_id: str) -> TimerKey:
    """Key of the timer that ends the join phase."""
    return ("join", group_id)


def sync_timer(group_id: str) -> TimerKey:
    """Key of the timer that fires when a rebalance timeout has passed without SyncGroup."""
    return ("sync", group_id)


def restart_session(state: ShardState, group: ClassicGroup, member: Member) -> None:
    """Restarts the session timer after a sign of life."""
    state.set_timer(session_timer(group.group_id, member.member_id), member.session_timeout_ms)


def answer_join(state: ShardState, group: ClassicGroup, member: Member, body: JoinGroupResponse) -> None:
    """Answers a parked JoinGroup, if there is one."""
    if member.join_token is not None:
        state.respond(member.join_token, body)
        group.set_join_token(member, None)


def joined_response(
    group: ClassicGroup, member_id: str, *, skip_assignment: bool = False
) -> JoinGroupResponse:
    """Returns the present generation for `member_id`; only the leader gets the list of members."""
    members = []
    if group.is_leader(member_id):
        assert group.protocol_name is not None, group
        members = [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(group.protocol_name),
            )
            for member in group.members.values()
        ]
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or UNKNOWN_MEMBER_ID,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members,
    )


def rebalance_or_complete_join(state: ShardState, group: ClassicGroup, reason: str, now_ms: int) -> None:
    """Rebalances after a change of a member, or, in the join phase, checks whether it is complete."""
    if group.can_rebalance:
        prepare_rebalance(state, group, reason, now_ms)
    else:
        complete_join_if_all_joined(state, group, now_ms)


def prepare_rebalance(state: ShardState, group: ClassicGroup, reason: str, now_ms: int) -> None:
    """Enters PreparingRebalance; members that wait for an assignment get REBALANCE_IN_PROGRESS."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        propagate_assignments(state, group, Errors.REBALANCE_IN_PROGRESS)
    group.pending_sync_members.clear()
    state.cancel_timer(sync_timer(group.group_id))

    initial = group.is_empty
    if initial:
        delay_ms = state.config.group_initial_rebalance_delay_ms
        group.initial_delay_ms = delay_ms
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        state.set_timer(join_timer(group.group_id), delay_ms)
    group.transition_to(GroupState.PREPARING_REBALANCE, now_ms)
    state.note(f"group {group.group_id}: preparing to rebalance generation {group.generation}: {reason}")
    if initial:
        return
    if group.all_members_joined:
        complete_join(state, group, now_ms)
    else:
        state.set_timer(join_timer(group.group_id), group.rebalance_timeout_ms)


def complete_join_if_all_joined(state: ShardState, group: ClassicGroup, now_ms: int) -> None:
    """Ends the join phase early, except the initial one, which always waits for its delay."""
    if (
        group.state is GroupState.PREPARING_REBALANCE
        and group.previous_state is not GroupState.EMPTY
        and group.all_members_joined
    ):
        complete_join(state, group, now_ms)


def join_timer_fired(state: ShardState, group: ClassicGroup, now_ms: int) -> None:
    """Ends the join phase when its time is up; prolongs the initial one if members have just arrived."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    remaining_ms = group.initial_remaining_ms
    if remaining_ms and group.new_member_added:
        group.new_member_added = False
        delay_ms = min(state.config.group_initial_rebalance_delay_ms, remaining_ms)
        group.initial_remaining_ms = max(remaining_ms - group.initial_delay_ms, 0)
        group.initial_delay_ms = delay_ms
        state.set_timer(join_timer(group.group_id), delay_ms)
    else:
        complete_join(state, group, now_ms)


def complete_join(state: ShardState, group: ClassicGroup, now_ms: int) -> None:
    """Starts the next generation with the members that joined; static members stay without rejoining
    (KIP-345).
    """
    state.cancel_timer(join_timer(group.group_id))
    group.initial_remaining_ms = None
    late = [member for member in group.members.values() if member.join_token is None and not member.is_static]
    for member in late:
        group.remove(member.member_id)
        state.cancel_timer(session_timer(group.group_id, member.member_id))
    if late:
        gone = ", ".join(member.member_id for member in late)
        state.note(f"group {group.group_id}: removed members that did not rejoin in time: {gone}")

    if not group.elect_joined_leader() and group.members:
        # only silent static members are left: wait until their sessions end or one of them joins
        state.set_timer(join_timer(group.group_id), group.rebalance_timeout_ms)
        return
    group.new_member_added = False
    group.start_generation(now_ms)
    if group.is_empty:
        state.note(f"group {group.group_id}: generation {group.generation} is empty")
        state.append([records.group_metadata(group, {})])
        return
    state.note(
        f"group {group.group_id}: generation {group.generation} has {len(group.members)} members, "
        f"leader {group.leader_id}, protocol {group.protocol_name}"
    )
    for member in group.members.values():
        answer_join(state, group, member, joined_response(group, member.member_id))
        restart_session(state, group, member)
        member.is_new = False
        group.pending_sync_members.add(member.member_id)
    state.set_timer(sync_timer(group.group_id), group.rebalance_timeout_ms)


def remove_member(state: ShardState, group: ClassicGroup, member: Member) -> None:
    """Removes a member and answers its parked JoinGroup with UNKNOWN_MEMBER_ID."""
    answer_join(
        state,
        group,
        member,
        JoinGroupResponse(error_code=Errors.UNKNOWN_MEMBER_ID.code, member_id=UNKNOWN_MEMBER_ID),
    )
    if member.sync_token is not None:
        state.respond(member.sync_token, SyncGroupResponse(error_code=Errors.UNKNOWN_MEMBER_ID.code))
        member.sync_token = None
    group.remove(member.member_id)


def propagate_assignments(state: ShardState, group: ClassicGroup, error: Error) -> None:
    """Answers every parked SyncGroup with the member's assignment, or with `error`. After an error members
    keep the assignment of an earlier generation, because cooperative ones still use it.
    """
    for member in group.members.values():
        if member.sync_token is None:
            continue
        body = SyncGroupResponse(error_code=error.code) if error else assignment_response(group, member)
        state.respond(member.sync_token, body)
        member.sync_token = None
        # a session that expired while the request was parked was ignored: restart it
        restart_session(state, group, member)


def assignment_response(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    """Returns the member's assignment in the present generation."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
