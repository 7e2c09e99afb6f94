"""Handles requests on the active controller that a node alone answers in the same way: changes of topics and
configs.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from bowstring.engine.api.request_refusals import refusal
from bowstring.engine.api.table import TABLE
from bowstring.engine.controller.service import QuorumController
from bowstring.engine.metadata.image import ImageChange
from bowstring.protocol.errors import KafkaError
from bowstring.protocol.schema import MetadataRecord, Response

if TYPE_CHECKING:
    from bowstring.engine.requests.broker_services import BrokerServices
    from bowstring.engine.requests.request import Request


class ControllerServices:
    """The parts of a controller that these handlers use, under the names that a broker has for them.

    Attributes:
        node_id: None: the configs of any broker may change.
        metadata: The controller.
        committer: Commits; brokers carry the changes out when they follow the log.
        random: For the placement of replicas.
    """

    def __init__(self, broker: "BrokerServices", controller: QuorumController) -> None:
        self.configs = broker.configs
        self.time_slices = broker.time_slices
        self.node_id = None
        self.metadata = controller
        self.committer = _Commits()
        self.random = controller.random


class _Commits:
    async def commit(self, change: ImageChange, records: Sequence[MetadataRecord]) -> None:
        await change.commit(records)


async def handle(broker: "BrokerServices", request: "Request") -> Response:
    """Decides with the controller's image, and answers once the records are committed.

    Behaviour: a node that is not the active controller answers NOT_CONTROLLER for each topic or resource;
    REQUEST_TIMED_OUT when its turn did not come within request.timeout.ms.

    Versions: as on a node alone.
    """
    controller = broker.controller
    assert controller is not None, "only nodes with a controller have listeners of controllers"
    shared = import_module(f"bowstring.engine.api.{TABLE[request.api_key].broker}")
    try:
        answer: Response = await shared.handle(ControllerServices(broker, controller), request)
    except KafkaError as error:
        refused = refusal(request.api_key, request.version, request.body, error)
        assert refused is not None, request.api_key
        return refused
    return answer
