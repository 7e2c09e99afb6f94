"""LeaveGroup: takes members out of a classic group.

Versions: to 2 one member, whose error is the response's; 3 several (KIP-345); 5 reasons.
"""

from typing import TYPE_CHECKING

from bowstring.engine.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request

_BATCH_VERSION = 3


async def handle(broker: "Broker", request: "Request") -> LeaveGroupResponse:
    """Answered when the group knows; the others are told by their heartbeats."""
    body: LeaveGroupRequest = request.body
    batched = request.version >= _BATCH_VERSION
    if not batched:
        body = LeaveGroupRequest(group_id=body.group_id, members=[MemberIdentity(member_id=body.member_id)])
    answer: LeaveGroupResponse = await broker.groups.ask(
        body.group_id, lambda shard, token, now_ms: shard.leave(body, token, now_ms)
    )
    if batched or answer.error_code:
        return answer
    return LeaveGroupResponse(error_code=answer.members[0].error_code)
