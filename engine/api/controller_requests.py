"""Handles what only controllers answer: to brokers (registration, heartbeats, AlterPartition, ...) and to
operators (elections, reassignments, features).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from bowstring.engine.api.table import TABLE
from bowstring.engine.controller import brokers
from bowstring.engine.controller.decision import Decision
from bowstring.engine.controller.state import ControllerState
from bowstring.engine.requests.listeners import WITHIN
from bowstring.protocol.messages import ApiKeys
from bowstring.protocol.schema import Response

if TYPE_CHECKING:
    from bowstring.engine.controller.service import QuorumController
    from bowstring.engine.requests.request import Request

_DECISIONS: Final = {
    ApiKeys.ELECT_LEADERS: "leader_elections.elect_leaders",
    ApiKeys.ALTER_PARTITION_REASSIGNMENTS: "reassignments.alter_reassignments",
    ApiKeys.LIST_PARTITION_REASSIGNMENTS: "reassignments.list_reassignments",
    ApiKeys.UNREGISTER_BROKER: "brokers.unregister",
    ApiKeys.ALLOCATE_PRODUCER_IDS: "producer_ids.allocate",
    ApiKeys.CONTROLLER_REGISTRATION: "controllers.register_controller",
    ApiKeys.ASSIGN_REPLICAS_TO_DIRS: "directories.assign_replicas",
    ApiKeys.UNREGISTER_CONTROLLER: "controllers.unregister_controller",
    ApiKeys.ALTER_PARTITION: "alter_partition.alter_partition",
    ApiKeys.UPDATE_FEATURES: "features.update_features",
}
"""Functions of engine/controller. Their modules are imported on first use: a node alone needs few of them."""
_WITH_VERSION: Final = frozenset({ApiKeys.ALTER_PARTITION, ApiKeys.UPDATE_FEATURES})
"""Keys of those that depend on the version."""


async def handle(request: "Request", *, controller: "QuorumController") -> Response:
    """Has the controller decide; the answer comes once the decision is committed.

    Behaviour: a node that is not the active controller answers NOT_CONTROLLER. Requests that brokers and
    controllers make for themselves do not wait behind those of their clients.

    Versions: of BrokerRegistration, 3 says how the broker stopped (KIP-966); of AlterPartition, 3 has the
    epochs of brokers (KIP-903); of UpdateFeatures, 1 has kinds of downgrades and 2 no results.
    """
    body, version = request.body, request.version

    if request.api_key == ApiKeys.BROKER_HEARTBEAT:
        return await controller.heartbeat(body, request.received_ns // 1_000_000 or None)

    def decide(state: ControllerState, now_ms: int) -> Decision[Any]:
        if request.api_key == ApiKeys.BROKER_REGISTRATION:
            is_own = request.listener is WITHIN
            return brokers.register(state, body, version, controller.next_offset, now_ms, is_own=is_own)
        module, _, name = _DECISIONS[request.api_key].partition(".")
        decided = getattr(import_module(f"bowstring.engine.controller.{module}"), name)
        versions = (version,) if request.api_key in _WITH_VERSION else ()
        decision: Decision[Any] = decided(state, body, *versions)
        return decision

    answer: Response = await controller.run(decide, urgent=TABLE[request.api_key].is_between_nodes)
    return answer
