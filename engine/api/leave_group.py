"""Handles LeaveGroup: removes members from a classic group.

Versions: up to 2 one member, whose error is the response's; 3 several (KIP-345); 5 reasons.
"""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from bowstring.engine.requests.time_slices import is_large, portions, streamed
from bowstring.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.requests.request import Request

_BATCH_VERSION = 3
_AT_ONCE = 500


async def handle(request: "Request", *, groups: "GroupCoordinatorService") -> LeaveGroupResponse:
    """Answers when the group has removed the members; other members learn it by their heartbeats."""
    body: LeaveGroupRequest = request.body
    batched = request.version >= _BATCH_VERSION
    if not batched:
        body = LeaveGroupRequest(group_id=body.group_id, members=[MemberIdentity(member_id=body.member_id)])
    if is_large(body.members):
        return await _leave_in_portions(groups, body)
    answer = await _leave(groups, body)
    if batched or answer.error_code:
        return answer
    return LeaveGroupResponse(error_code=answer.members[0].error_code)


async def _leave_in_portions(
    groups: "GroupCoordinatorService", body: LeaveGroupRequest
) -> LeaveGroupResponse:
    """Removes many members in several portions. The first portion's answer carries errors of the whole
    group.
    """
    requests = (
        LeaveGroupRequest(group_id=body.group_id, members=members)
        for members in portions(body.members, _AT_ONCE)
    )
    answer = await _leave(groups, next(requests))

    async def others() -> AsyncIterator[MemberResponse]:
        for each in answer.members:
            yield each
        for following in requests:
            for each in (await _leave(groups, following)).members:
                yield each

    return LeaveGroupResponse(
        error_code=answer.error_code, members=[] if answer.error_code else streamed(others())
    )


async def _leave(groups: "GroupCoordinatorService", body: LeaveGroupRequest) -> LeaveGroupResponse:
    answer: LeaveGroupResponse = await groups.ask(
        body.group_id, lambda shard, token, now_ms: shard.leave(body, token, now_ms)
    )
    return answer
