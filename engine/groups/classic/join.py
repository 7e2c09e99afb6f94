"""Handles JoinGroup: member ids first (KIP-394), static members (KIP-345), skip assignment (KIP-814), reasons
(KIP-800).
"""

from dataclasses import dataclass
from functools import partial

from bowstring.engine.groups import records
from bowstring.engine.groups.administration import tombstones
from bowstring.engine.groups.append_errors import append_error_of_group
from bowstring.engine.groups.classic.group import UNKNOWN_MEMBER_ID, ClassicGroup, GroupState, Member
from bowstring.engine.groups.classic.rebalance import (
    answer_join,
    complete_join_if_all_joined,
    join_timer,
    joined_response,
    prepare_rebalance,
    rebalance_or_complete_join,
    restart_session,
    session_timer,
)
from bowstring.engine.groups.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from bowstring.engine.groups.group import Group
from bowstring.engine.groups.state import RequestContext, ShardState
from bowstring.engine.groups.streams.group import StreamsGroup
from bowstring.engine.groups.streams.membership import initial_timer
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from bowstring.protocol.messages.sync_group import SyncGroupResponse

MEMBER_ID_REQUIRED_VERSION = 4
SKIP_ASSIGNMENT_VERSION = 9
_STRING_MAX_BYTES = 0x7FFF
# types of groups that a classic group takes the place of
_REPLACED_WHEN_EMPTY = ("consumer", "streams")


@dataclass(slots=True)
class Attempt:
    """One JoinGroup request in progress."""

    state: ShardState
    request: JoinGroupRequest
    context: RequestContext
    token: object
    now_ms: int
    # name and metadata, most preferred first
    protocols: list[tuple[str, bytes]]

    @property
    def rebalance_timeout_ms(self) -> int:
        """Rebalance timeout. Version 0 has none, so the session timeout is used."""
        if self.context.api_version == 0:
            return self.request.session_timeout_ms
        return self.request.rebalance_timeout_ms

    def reason(self, what: str) -> str:
        """Returns why the group rebalances, for the log, with the client's reason (KIP-800)."""
        return f"{what}; client reason: {self.request.reason or 'not provided'}"

    def fits(self, group: ClassicGroup) -> bool:
        """Whether the group and the member have a protocol in common."""
        return group.supports_protocols(self.request.protocol_type, [name for name, _ in self.protocols])

    def refuse(self, error: Error, member_id: str = UNKNOWN_MEMBER_ID) -> None:
        """Answers with an error."""
        self.state.respond(self.token, JoinGroupResponse(error_code=error.code, member_id=member_id))


def join(
    state: ShardState, request: JoinGroupRequest, context: RequestContext, token: object, now_ms: int
) -> None:
    """Answers at once, or parks the request until the join phase is over."""
    protocols = [(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols]
    attempt = Attempt(state, request, context, token, now_ms, protocols)
    known = state.groups.get(request.group_id)
    error = _check_request(state, request)
    if error:
        return attempt.refuse(error, request.member_id)
    if isinstance(known, ClassicGroup):
        return _join_group(attempt, known)
    if known is not None and not (known.is_empty and known.group_type in _REPLACED_WHEN_EMPTY):
        return attempt.refuse(Errors.INCONSISTENT_GROUP_PROTOCOL)
    if request.member_id != UNKNOWN_MEMBER_ID:
        return attempt.refuse(Errors.UNKNOWN_MEMBER_ID, request.member_id)
    if known is not None and known.group_type == StreamsGroup.group_type:
        state.cancel_timer(initial_timer(known.group_id))
    group = ClassicGroup(request.group_id, now_ms)
    state.groups[request.group_id] = group
    _join_group(attempt, group)
    # the log must have a record of the group before any other record of it
    return state.append(
        [*([] if known is None else tombstones(known)), records.empty_group(group)],
        finished=partial(_discard_unwritten, state, group, known),
    )


def is_valid(state: ShardState, request: JoinGroupRequest) -> bool:
    """Whether a request is valid whatever the group is like."""
    return not _check_request(state, request)


def _check_request(state: ShardState, request: JoinGroupRequest) -> Error:
    if not request.group_id:
        return Errors.INVALID_GROUP_ID
    config = state.config
    timeout_ms = request.session_timeout_ms
    if not config.group_min_session_timeout_ms <= timeout_ms <= config.group_max_session_timeout_ms:
        return Errors.INVALID_SESSION_TIMEOUT
    return Errors.NONE


def _join_group(attempt: Attempt, group: ClassicGroup) -> None:
    member_id = attempt.request.member_id
    if group.state is GroupState.DEAD:
        attempt.refuse(Errors.COORDINATOR_NOT_AVAILABLE, member_id)
    elif not _has_room(attempt.state, group, member_id):
        group.remove(member_id)
        attempt.refuse(Errors.GROUP_MAX_SIZE_REACHED)
    elif not attempt.fits(group):
        attempt.refuse(Errors.INCONSISTENT_GROUP_PROTOCOL, member_id)
    elif member_id == UNKNOWN_MEMBER_ID:
        _join_new(attempt, group)
    else:
        _join_known(attempt, group)


def _discard_unwritten(
    state: ShardState, group: ClassicGroup, before: Group | None, error: Error, now_ms: int
) -> None:
    """Removes a new group that could not be written to the log. Its first members start over."""
    if not error or state.groups.get(group.group_id) is not group:
        return
    refusal = append_error_of_group(error).code
    for member in group.members.values():
        answer_join(state, group, member, JoinGroupResponse(error_code=refusal, member_id=UNKNOWN_MEMBER_ID))
        state.cancel_timer(session_timer(group.group_id, member.member_id))
    for member_id in group.pending_join_members:
        state.cancel_timer(session_timer(group.group_id, member_id))
    state.cancel_timer(join_timer(group.group_id))
    if before is None:
        del state.groups[group.group_id]
    else:
        state.groups[group.group_id] = before


def _has_room(state: ShardState, group: ClassicGroup, member_id: str) -> bool:
    """Checks group.max.size. In the join phase only waiting members count, so the last to rejoin are
    refused.
    """
    member = group.members.get(member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        waits = member is not None and member.join_token is not None
        return waits or group.awaiting_join < state.config.group_max_size
    if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        return member is not None or len(group.members) < state.config.group_max_size
    return True


# ---- members without an id


def _join_new(attempt: Attempt, group: ClassicGroup) -> None:
    state, request, context = attempt.state, attempt.request, attempt.context
    instance_id = request.group_instance_id
    new_id = _with_id(context.client_id if instance_id is None else instance_id, state.new_uuid())
    if instance_id in group.static_members:
        _replace_static(attempt, group, group.static_members[instance_id], new_id)
    elif instance_id is None and context.api_version >= MEMBER_ID_REQUIRED_VERSION:
        # KIP-394: a client that never returns must not leave a member behind
        group.pending_join_members.add(new_id)
        state.set_timer(session_timer(group.group_id, new_id), request.session_timeout_ms)
        attempt.refuse(Errors.MEMBER_ID_REQUIRED, new_id)
    else:
        _add_member(attempt, group, new_id)


def _with_id(name: str, unique: str) -> str:
    """Returns a member id, in which the name is cut if the whole would be too long to be sent and stored."""
    most_bytes = _STRING_MAX_BYTES - len(unique) - 1
    return f"{name.encode()[:most_bytes].decode(errors='ignore')}-{unique}"


def _add_member(attempt: Attempt, group: ClassicGroup, member_id: str) -> None:
    state, request, context = attempt.state, attempt.request, attempt.context
    member = Member(
        member_id,
        request.group_instance_id,
        context.client_id,
        context.client_host,
        attempt.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocol_type,
        attempt.protocols,
        is_new=True,
    )
    if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
        group.new_member_added = True
    group.add(member, attempt.token)
    # The JoinGroup may stay parked longer than any session. This timer removes a client that has disconnected
    # meanwhile.
    state.set_timer(session_timer(group.group_id, member_id), NEW_MEMBER_JOIN_TIMEOUT_MS)
    instance = "" if request.group_instance_id is None else f" (instance {request.group_instance_id})"
    reason = attempt.reason(f"member {member_id}{instance} joins")
    rebalance_or_complete_join(state, group, reason, attempt.now_ms)


# ---- members with an id


def _join_known(attempt: Attempt, group: ClassicGroup) -> None:
    state, request = attempt.state, attempt.request
    member_id = request.member_id
    if member_id in group.pending_join_members and request.group_instance_id is None:
        return _add_member(attempt, group, member_id)
    error = group.check_member(member_id, request.group_instance_id)
    if error:
        return attempt.refuse(error, member_id)
    assert not group.is_empty, group
    member = group.members[member_id]
    if not _needs_rebalance(group, member, attempt.protocols):
        # nothing changed: answer with the present generation, so that the member can sync
        return state.respond(attempt.token, joined_response(group, member_id))
    if member.join_token is not None:
        # the client timed out on its parked request and sent another one: the first answer is unread
        lost = JoinGroupResponse(error_code=Errors.REBALANCE_IN_PROGRESS.code, member_id=member_id)
        answer_join(state, group, member, lost)
    group.update(
        member, attempt.protocols, attempt.rebalance_timeout_ms, request.session_timeout_ms, attempt.token
    )
    reason = attempt.reason(f"member {member_id} rejoins")
    return rebalance_or_complete_join(state, group, reason, attempt.now_ms)


def _needs_rebalance(group: ClassicGroup, member: Member, protocols: list[tuple[str, bytes]]) -> bool:
    """Whether metadata changed, a join phase is in progress, or the leader requests a new assignment."""
    if group.state is GroupState.PREPARING_REBALANCE or member.protocols != protocols:
        return True
    return group.state is GroupState.STABLE and group.is_leader(member.member_id)


# ---- static members that come back without their id


def _replace_static(attempt: Attempt, group: ClassicGroup, old_id: str, new_id: str) -> None:
    """Replaces a restarted instance: fences its old id and gives its place and assignment to the new id."""
    state, request = attempt.state, attempt.request
    instance_id = request.group_instance_id
    assert instance_id is not None
    previous_leader = group.leader_id or UNKNOWN_MEMBER_ID
    _fence(state, group, group.members[old_id])
    member = group.replace_static_member(instance_id, old_id, new_id)
    state.cancel_timer(session_timer(group.group_id, old_id))
    restart_session(state, group, member)
    before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
    group.update(
        member, attempt.protocols, attempt.rebalance_timeout_ms, request.session_timeout_ms, attempt.token
    )
    state.note(f"group {group.group_id}: instance {instance_id} is now member {new_id}, was {old_id}")
    reason = attempt.reason(f"static member {new_id} replaces {old_id}")
    if group.state is GroupState.PREPARING_REBALANCE:
        return complete_join_if_all_joined(state, group, attempt.now_ms)
    # in CompletingRebalance the leader may already be assigning to the old id
    if group.state is GroupState.COMPLETING_REBALANCE or group.select_protocol() != group.protocol_name:
        return prepare_rebalance(state, group, reason, attempt.now_ms)
    # no rebalance: the assignment stays; the log gets the new id
    group.refresh_subscribed_topics()
    assignments = {each.member_id: each.assignment for each in group.members.values()}
    replaced = Replaced(group, member, old_id, previous_leader, before)
    return state.append(
        [records.group_metadata(group, assignments)], finished=partial(_static_replaced, attempt, replaced)
    )


def _fence(state: ShardState, group: ClassicGroup, member: Member) -> None:
    """Answers parked requests of the old id with FENCED_INSTANCE_ID."""
    code = Errors.FENCED_INSTANCE_ID.code
    answer_join(state, group, member, JoinGroupResponse(error_code=code, member_id=member.member_id))
    if member.sync_token is not None:
        state.respond(member.sync_token, SyncGroupResponse(error_code=code))
        member.sync_token = None


@dataclass(slots=True)
class Replaced:
    """A replacement of a static member that is not yet in the log, and the state to undo it."""

    group: ClassicGroup
    member: Member
    old_id: str
    previous_leader: str
    # protocols, rebalance timeout, session timeout
    before: tuple[list[tuple[str, bytes]], int, int]


def _static_replaced(attempt: Attempt, replaced: Replaced, error: Error, now_ms: int) -> None:
    """Completes the replacement when the new id is in the log, or restores the old id when it could not be
    written.
    """
    group, member, state = replaced.group, replaced.member, attempt.state
    if group.members.get(member.member_id) is not member:
        return
    skips = attempt.context.api_version >= SKIP_ASSIGNMENT_VERSION and not error
    response = joined_response(
        group, member.member_id, skip_assignment=skips and group.is_leader(member.member_id)
    )
    if not skips:
        # Without skip_assignment (KIP-814) a leader would compute a new assignment, and its SyncGroup would
        # be ignored. Naming the old leader makes it a follower for this generation.
        response.leader = replaced.previous_leader
        response.members = []
    if error:
        response.error_code = append_error_of_group(error).code
        response.member_id = UNKNOWN_MEMBER_ID
    answer_join(state, group, member, response)
    if error:
        group.update(member, *replaced.before, None)
        assert member.group_instance_id is not None
        old = group.replace_static_member(member.group_instance_id, member.member_id, replaced.old_id)
        group.refresh_subscribed_topics()
        state.cancel_timer(session_timer(group.group_id, member.member_id))
        restart_session(state, group, old)
