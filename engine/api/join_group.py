"""Handles JoinGroup: enters a classic group and waits for its next generation.

Versions: 1 rebalance timeout; 4 members without an id get one first; 5 static members; 7 protocol type; 8
reason; 9 skip assignment.
"""

from typing import TYPE_CHECKING

from bowstring.engine.api.request_context import request_context
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.requests.request import Request
    from bowstring.engine.security.authorizer import Authorizer

_NULL_PROTOCOL_NAME_VERSION = 7
# Real clients offer only a few.
_PROTOCOLS_MAX = 1000


async def handle(
    request: "Request", *, groups: "GroupCoordinatorService", authorizer: "Authorizer"
) -> JoinGroupResponse:
    """Answers when the join phase is over, which may take a rebalance timeout."""
    body: JoinGroupRequest = request.body
    context = request_context(request, authorizer)
    answer: JoinGroupResponse
    try:
        if len(body.protocols) > _PROTOCOLS_MAX:
            raise KafkaError(Errors.INVALID_REQUEST, f"at most {_PROTOCOLS_MAX} protocols are allowed")
        body.protocols = list(body.protocols)
        answer = await groups.ask(
            body.group_id, lambda shard, token, now_ms: shard.join(body, context, token, now_ms)
        )
    except KafkaError as error:
        answer = JoinGroupResponse(error_code=error.code, member_id=body.member_id)
    # "no protocol" is the empty string in old versions and null in new ones
    none = None if request.version >= _NULL_PROTOCOL_NAME_VERSION else ""
    answer.protocol_name = answer.protocol_name or none
    return answer
