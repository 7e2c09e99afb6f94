"""Handles SyncGroup: passes the leader's assignment of a classic group to every member.

Versions: 3 static members; 5 the protocol's type and name, which must then be given.
"""

from typing import TYPE_CHECKING

from bowstring.engine.requests.time_slices import is_large
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from bowstring.engine.coordinators.effects import Token
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.requests.request import Received, Request
    from bowstring.engine.requests.time_slices import TimeSlices

_PROTOCOL_REQUIRED_VERSION = 5


def begin(
    body: SyncGroupRequest, message: "Received", token: "Token", *, groups: "GroupCoordinatorService"
) -> bool:
    """Begins without a task; False: call `handle`."""
    if message.api_version >= _PROTOCOL_REQUIRED_VERSION and None in (body.protocol_type, body.protocol_name):
        return False
    try:
        groups.tell(body.group_id, lambda shard, token, now_ms: shard.sync(body, token, now_ms), token)
    except KafkaError as error:
        token.set_exception(error)
    return True


async def handle(
    request: "Request", *, time_slices: "TimeSlices", groups: "GroupCoordinatorService"
) -> SyncGroupResponse:
    """Answers when the leader's assignment is in the log."""
    body: SyncGroupRequest = request.body
    if request.version >= _PROTOCOL_REQUIRED_VERSION and None in (body.protocol_type, body.protocol_name):
        return SyncGroupResponse(error_code=Errors.INCONSISTENT_GROUP_PROTOCOL.code)
    if is_large(body.assignments):
        # Ignores assignments of unknown members, because an attacker could send millions.
        members = groups.shard_of(body.group_id).members_of(body.group_id)
        body.assignments = [
            each async for each in time_slices.each(body.assignments) if each.member_id in members
        ]
    answer: SyncGroupResponse = await groups.ask(
        body.group_id, lambda shard, token, now_ms: shard.sync(body, token, now_ms)
    )
    return answer
