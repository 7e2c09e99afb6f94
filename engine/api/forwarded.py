"""Forwards requests to the active controller, which answers them (KIP-590)."""

from typing import TYPE_CHECKING

from bowstring.engine.protocol.schema import Response

if TYPE_CHECKING:
    from bowstring.engine.requests.broker_services import BrokerServices
    from bowstring.engine.requests.request import Request


async def handle(broker: "BrokerServices", request: "Request") -> Response:
    """Sends the request on, and the answer back.

    Behaviour: NOT_CONTROLLER when no controller answers within request.timeout.ms.

    Versions: the controller gets the newest version that both nodes have.
    """
    assert broker.quorum is not None, "a node alone forwards nothing"
    timeout_ms = broker.configs.value("request.timeout.ms")
    response: Response = await broker.quorum.ask_leader(request.body, timeout_ms)
    return response
