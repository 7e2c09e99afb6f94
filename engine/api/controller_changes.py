"""Handles requests on the active controller that a node alone answers in the same way: changes of topics and
configs.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from bowstring.engine.controller.shell import Controller
from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.metadata.image import ImageChange
from bowstring.engine.protocol.messages.alter_configs import (
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from bowstring.engine.protocol.messages.create_partitions import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from bowstring.engine.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from bowstring.engine.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from bowstring.engine.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalResourceResponse,
)
from bowstring.engine.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsResponse
from bowstring.engine.protocol.schema import MetadataRecord, Response

if TYPE_CHECKING:
    from bowstring.engine.requests.broker_services import BrokerServices
    from bowstring.engine.requests.request import Request

_SHARED: Final = {
    19: "create_topics",
    20: "delete_topics",
    33: "alter_configs",
    37: "create_partitions",
    44: "incremental_alter_configs",
}


class ControllerServices:
    """The parts of a controller that these handlers use, under the names that a broker has for them.

    Attributes:
        node_id: None: the configs of any broker may change.
        metadata: The controller.
        changes: Commits; brokers carry the changes out when they follow the log.
        random: For the placement of replicas.
    """

    def __init__(self, broker: "BrokerServices", controller: Controller) -> None:
        self.configs = broker.configs
        self.time_slices = broker.time_slices
        self.node_id = None
        self.metadata = controller
        self.changes = _Commits()
        self.random = controller.random


class _Commits:
    async def commit(self, change: ImageChange, records: Sequence[MetadataRecord]) -> None:
        await change.commit(records)


async def handle(broker: "BrokerServices", request: "Request") -> Response:
    """Decides with the controller's image, and answers once the records are committed.

    Behaviour: a node that is not the active controller answers NOT_CONTROLLER for each topic or resource.

    Versions: as on a node alone.
    """
    controller = broker.controller
    assert controller is not None, "only nodes with a controller have listeners of controllers"
    shared = import_module(f"bowstring.engine.api.{_SHARED[request.api_key]}")
    try:
        answer: Response = await shared.handle(ControllerServices(broker, controller), request)
    except KafkaError as error:
        if error.error is not Errors.NOT_CONTROLLER:
            raise
        return _REFUSALS[request.api_key](request.body, _error_of(error))
    return answer


def _error_of(error: KafkaError) -> dict[str, Any]:
    return {"error_code": error.code, "error_message": error.detail or error.error.message}


def _topics_refused(body: Any, error: dict[str, Any]) -> Response:
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name=each.name, **error) for each in body.topics]
    )


def _deletions_refused(body: Any, error: dict[str, Any]) -> Response:
    named = [DeletableTopicResult(name=name, **error) for name in body.topic_names]
    by_both = [DeletableTopicResult(name=each.name, topic_id=each.topic_id, **error) for each in body.topics]
    return DeleteTopicsResponse(responses=named + by_both)


def _partitions_refused(body: Any, error: dict[str, Any]) -> Response:
    return CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(name=each.name, **error) for each in body.topics]
    )


def _configs_refused(
    response: Callable[..., Response], result: Callable[..., Any]
) -> Callable[[Any, dict[str, Any]], Response]:
    def refused(body: Any, error: dict[str, Any]) -> Response:
        return response(
            responses=[
                result(resource_type=each.resource_type, resource_name=each.resource_name, **error)
                for each in body.resources
            ]
        )

    return refused


_REFUSALS: Final[dict[int, Callable[[Any, dict[str, Any]], Response]]] = {
    19: _topics_refused,
    20: _deletions_refused,
    33: _configs_refused(AlterConfigsResponse, AlterConfigsResourceResponse),
    37: _partitions_refused,
    44: _configs_refused(IncrementalAlterConfigsResponse, IncrementalResourceResponse),
}
