"""FindCoordinator: names the broker that coordinates a group, a transaction or a share partition.

Versions: 1 transactions; 4 several keys (KIP-699); 6 share partitions (KIP-932).
"""

from typing import TYPE_CHECKING, Final

from bowstring.engine.errors import Error, Errors, KafkaError
from bowstring.engine.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2

_BATCH_VERSION: Final = 4
_SHARE_VERSION: Final = 6
_NO_NODE: Final = -1


async def handle(broker: "Broker", request: "Request") -> FindCoordinatorResponse:
    """This broker, at the address of the listener that was asked; the topic is made on first use."""
    body: FindCoordinatorRequest = request.body
    error, detail = await _prepare(broker, body.key_type, request.version)
    node_id, host, port = broker.node_id, request.listener.host, request.listener.port
    if error:
        node_id, host, port = _NO_NODE, "", _NO_NODE
    if request.version < _BATCH_VERSION:
        return FindCoordinatorResponse(
            error_code=error.code,
            error_message=detail or error.name,
            node_id=node_id,
            host=host,
            port=port,
        )
    coordinators = [
        Coordinator(
            key=key,
            node_id=node_id,
            host=host,
            port=port,
            error_code=error.code,
            error_message=detail,
        )
        for key in body.coordinator_keys
    ]
    return FindCoordinatorResponse(coordinators=coordinators)


async def _prepare(broker: "Broker", key_type: int, version: int) -> tuple[Error, str]:
    """Sees to it that the coordinator asked for exists."""
    if key_type == GROUP:
        try:
            await broker.groups.ensure_topic()
        except KafkaError as error:
            return Errors.COORDINATOR_NOT_AVAILABLE, str(error)
        return Errors.NONE, ""
    if key_type == TRANSACTION or (key_type == SHARE and version >= _SHARE_VERSION):
        what = "transactions" if key_type == TRANSACTION else "share groups"
        # not a retriable error: the client would wait for what is not going to come
        return Errors.INVALID_REQUEST, f"This broker does not coordinate {what}."
    return Errors.INVALID_REQUEST, f"There are no coordinators of type {key_type}."
