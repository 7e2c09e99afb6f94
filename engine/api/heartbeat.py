"""Handles Heartbeat: keeps a member's session alive and answers whether it must rejoin."""

from typing import TYPE_CHECKING, Any

from bowstring.engine.groups.classic.membership import only_kept_alive
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.requests.listeners import Listener
    from bowstring.engine.requests.request import Received, Request


def at_once(
    body: HeartbeatRequest,
    message: "Received",
    listener: "Listener",
    *,
    groups: "GroupCoordinatorService",
) -> Any:
    """Answers without a task if nothing needs to be awaited, the usual case; None: call `handle`."""
    return groups.heartbeat_at_once(body.group_id, body.member_id, lambda state: only_kept_alive(state, body))


async def handle(request: "Request", *, groups: "GroupCoordinatorService") -> HeartbeatResponse:
    """Answers without an error while the group is being read from the log, because its sessions have not
    started.
    """
    body: HeartbeatRequest = request.body
    try:
        answer: HeartbeatResponse = await groups.ask(
            body.group_id, lambda shard, token, now_ms: shard.heartbeat(body, token)
        )
    except KafkaError as error:
        if error.error is Errors.COORDINATOR_LOAD_IN_PROGRESS:
            return HeartbeatResponse()
        raise
    return answer
