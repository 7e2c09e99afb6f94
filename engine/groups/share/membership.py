"""Removes members of share groups: they leave, or their sessions end."""

from collections.abc import Callable
from functools import partial
from typing import Any

from bowstring.engine.groups.classic.rebalance import session_timer
from bowstring.engine.groups.effects import TimerKey
from bowstring.engine.groups.modern.changes import Changes
from bowstring.engine.groups.modern.group import NEVER_MS, count_all
from bowstring.engine.groups.share import records
from bowstring.engine.groups.share.group import ShareGroup
from bowstring.engine.groups.share.member import ShareMember
from bowstring.engine.groups.share.settings import session_timeout_ms
from bowstring.engine.groups.state import ShardState
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

SESSION = "session"


def found_group(state: ShardState, group_id: str) -> ShareGroup:
    """Returns a share group.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND.
    """
    group = state.groups.get(group_id)
    if isinstance(group, ShareGroup):
        return group
    what = "not found" if group is None else "is not a share group"
    raise KafkaError(Errors.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")


def found_member(group: ShareGroup, member_id: str) -> ShareMember:
    """Returns a member.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID.
    """
    member = group.members.get(member_id)
    if member is None:
        raise KafkaError(
            Errors.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}."
        )
    return member


def refusal(error: Error, detail: str | None = None) -> ShareGroupHeartbeatResponse:
    """Returns the answer to a request that is refused."""
    return ShareGroupHeartbeatResponse(
        error_code=error.code, error_message=error.message if detail is None else detail
    )


def leave(state: ShardState, request: ShareGroupHeartbeatRequest, token: object) -> None:
    """Handles a heartbeat with epoch -1.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND or UNKNOWN_MEMBER_ID.
    """
    group = found_group(state, request.group_id)
    member = found_member(group, request.member_id)
    body = ShareGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch)
    _remove(state, group, member, token, body, why="it left")


def _remove(
    state: ShardState,
    group: ShareGroup,
    member: ShareMember,
    token: object = None,
    body: Any = None,
    *,
    why: str,
    failed: Callable[[], None] | None = None,
) -> None:
    """Removes a member, and answers when that is committed. The group gets a new epoch."""
    group_id = group.group_id
    changes = Changes()
    for record in records.member_tombstones(group_id, member.member_id):
        changes.add(record)
    changes.then(partial(group.remove_member, member.member_id))
    changes.then(partial(state.note, f"share group {group_id}: member {member.member_id} removed, {why}"))
    # not before: a member that stays because of an error needs it
    changes.then(partial(state.cancel_timer, session_timer(group_id, member.member_id)))
    names = dict(group.topic_counts)
    count_all(names, member.subscribed_topics, -1)
    metadata_hash = state.cluster.metadata_hash(names)
    epoch = group.epoch + 1
    changes.add(
        records.group_epoch(group_id, epoch, metadata_hash),
        partial(group.set_epoch, epoch, metadata_hash, state.cluster.topics_version),
    )
    if len(group.members) == 1:
        changes.add(
            records.target_epoch(group_id, epoch, NEVER_MS), partial(group.set_target_epoch, epoch, NEVER_MS)
        )
    changes.commit(state, token, body, refusal, failed=failed)


def timer_fired(state: ShardState, group: ShareGroup, key: TimerKey, now_ms: int) -> None:
    """Removes the member whose session has ended."""
    kind, _, member_id = key
    member = group.members.get(member_id)
    if kind != SESSION or member is None:
        return
    _remove(state, group, member, failed=partial(state.retry_timer, key), why="its session timed out")


def start_sessions(state: ShardState, group: ShareGroup) -> None:
    """Starts the timers of all members after the group was read from the log."""
    timeout_ms = session_timeout_ms(state, group.group_id)
    for member_id in group.members:
        state.set_timer(session_timer(group.group_id, member_id), timeout_ms)
