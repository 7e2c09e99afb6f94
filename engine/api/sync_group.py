"""SyncGroup: hands a classic group its assignment, from the leader to every member.

Versions: 3 static members; 5 the protocol's type and name, which must then be given.
"""

from typing import TYPE_CHECKING

from bowstring.engine.errors import Errors
from bowstring.engine.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request

_PROTOCOL_REQUIRED_VERSION = 5


async def handle(broker: "Broker", request: "Request") -> SyncGroupResponse:
    """Answered when the leader's assignment is in the log."""
    body: SyncGroupRequest = request.body
    if request.version >= _PROTOCOL_REQUIRED_VERSION and None in (body.protocol_type, body.protocol_name):
        return SyncGroupResponse(error_code=Errors.INCONSISTENT_GROUP_PROTOCOL.code)
    answer: SyncGroupResponse = await broker.groups.ask(
        body.group_id, lambda shard, token, now_ms: shard.sync(body, token, now_ms)
    )
    return answer
