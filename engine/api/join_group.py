"""Handles JoinGroup: enters a classic group and waits for its next generation.

Versions: 1 rebalance timeout; 4 members without an id get one first; 5 static members; 7 protocol type; 8
reason; 9 skip assignment.
"""

from typing import TYPE_CHECKING

from bowstring.engine.api.request_context import received_context, request_context
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from bowstring.engine.coordinators.effects import Token
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.requests.request import Received, Request
    from bowstring.engine.security.authorizer import Authorizer

_NULL_PROTOCOL_NAME_VERSION = 7
# Real clients offer only a few.
_PROTOCOLS_MAX = 1000


class _Joining:
    """A member that waits, whose answer is completed before it is sent."""

    __slots__ = ("_member_id", "_token", "done")

    def __init__(self, token: "Token", member_id: str) -> None:
        self.done = token.done
        self._token = token
        self._member_id = member_id

    def set_result(self, answer: JoinGroupResponse) -> None:
        """Answers it."""
        answer.protocol_name = answer.protocol_name or None
        self._token.set_result(answer)

    def set_exception(self, error: BaseException) -> None:
        """Answers it with an error of the coordinator."""
        assert isinstance(error, KafkaError), error
        self._token.set_result(
            JoinGroupResponse(error_code=error.code, protocol_name=None, member_id=self._member_id)
        )


def begin(
    body: JoinGroupRequest,
    message: "Received",
    token: "Token",
    *,
    groups: "GroupCoordinatorService",
    authorizer: "Authorizer",
) -> bool:
    """Joins without a task, for clients of today; False: call `handle`."""
    if message.api_version < _NULL_PROTOCOL_NAME_VERSION or len(body.protocols) > _PROTOCOLS_MAX:
        return False
    context, joining = received_context(message, authorizer), _Joining(token, body.member_id)
    try:
        groups.tell(
            body.group_id, lambda shard, token, now_ms: shard.join(body, context, token, now_ms), joining
        )
    except KafkaError as error:
        joining.set_exception(error)
    return True


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
