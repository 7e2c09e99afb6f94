"""Handles what only controllers answer: to brokers (registration, heartbeats, AlterPartition, ...) and to
operators (elections, reassignments, features).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from bowstring.engine.controller import (
    alter_partition,
    brokers,
    controllers,
    directories,
    elections,
    features,
    producer_ids,
    reassignments,
)
from bowstring.engine.controller.decision import Decision
from bowstring.engine.controller.state import ControllerState
from bowstring.engine.protocol.schema import Response

if TYPE_CHECKING:
    from bowstring.engine.requests.broker_services import BrokerServices
    from bowstring.engine.requests.request import Request

_WITH_BODY: Final[dict[int, Callable[[ControllerState, Any], Decision[Any]]]] = {
    43: elections.elect_leaders,
    45: reassignments.alter_reassignments,
    46: reassignments.list_reassignments,
    64: brokers.unregister,
    67: producer_ids.allocate,
    70: controllers.register_controller,
    73: directories.assign_replicas,
    94: controllers.unregister_controller,
}
_WITH_VERSION: Final[dict[int, Callable[[ControllerState, Any, int], Decision[Any]]]] = {
    56: alter_partition.alter_partition,
    57: features.update_features,
}
_REGISTRATION: Final = 62
_HEARTBEAT: Final = 63
_URGENT: Final = frozenset({56, 62, 63, 67, 70, 73})
"""What brokers and controllers ask for themselves; it does not wait behind what their clients ask for."""


async def handle(broker: "BrokerServices", request: "Request") -> Response:
    """Has the controller decide; the answer comes once the decision is committed.

    Behaviour: a node that is not the active controller answers NOT_CONTROLLER.

    Versions: of BrokerRegistration, 3 tells how the broker stopped (KIP-966); of AlterPartition, 3 has the
    epochs of brokers (KIP-903); of UpdateFeatures, 1 has kinds of downgrades and 2 no results.
    """
    controller = broker.controller
    assert controller is not None, "only nodes with a controller have listeners of controllers"
    body, version = request.body, request.version

    if request.api_key == _HEARTBEAT:
        return await controller.heartbeat(body, request.received_ns // 1_000_000 or None)

    def decide(state: ControllerState, now_ms: int) -> Decision[Any]:
        if request.api_key == _REGISTRATION:
            return brokers.register(state, body, version, controller.next_offset, now_ms)
        if request.api_key in _WITH_VERSION:
            return _WITH_VERSION[request.api_key](state, body, version)
        return _WITH_BODY[request.api_key](state, body)

    answer: Response = await controller.run(decide, urgent=request.api_key in _URGENT)
    return answer
