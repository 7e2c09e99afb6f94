"""Forwards requests to the active controller, which answers them (KIP-590)."""

from typing import TYPE_CHECKING, Any, Final

from bowstring.engine.api import broker_loggers
from bowstring.engine.errors import KafkaError
from bowstring.engine.metadata.config_changes import Change
from bowstring.engine.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from bowstring.engine.protocol.schema import Response

if TYPE_CHECKING:
    from bowstring.engine.requests.broker_services import BrokerServices
    from bowstring.engine.requests.request import Request

_BROKER_LOGGER: Final = 8


async def handle(broker: "BrokerServices", request: "Request") -> Response:
    """Sends the request on, and the answer back.

    Behaviour: NOT_CONTROLLER when no controller answers within request.timeout.ms. Log levels are this
    broker's own, and stay here.

    Versions: the controller gets that of the request, because the answer must fit it.
    """
    assert broker.quorum is not None, "a node alone forwards nothing"
    timeout_ms = broker.configs.value("request.timeout.ms")
    body: Any = request.body
    own: list[AlterConfigsResourceResponse] = []
    if isinstance(body, IncrementalAlterConfigsRequest):
        own = [_alter(each, body) for each in body.resources if each.resource_type == _BROKER_LOGGER]
    if not own:
        response: Response = await broker.quorum.ask_leader(body, timeout_ms, request.version)
        return response
    others = [each for each in body.resources if each.resource_type != _BROKER_LOGGER]
    if not others:
        return IncrementalAlterConfigsResponse(responses=own)
    body = IncrementalAlterConfigsRequest(resources=others, validate_only=body.validate_only)
    answer: IncrementalAlterConfigsResponse = await broker.quorum.ask_leader(
        body, timeout_ms, request.version
    )
    answer.responses = [*own, *answer.responses]
    return answer


def _alter(resource: Any, body: IncrementalAlterConfigsRequest) -> AlterConfigsResourceResponse:
    """Sets log levels of this broker."""
    response = AlterConfigsResourceResponse(
        resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
    )
    changes = [Change(config.name, config.config_operation, config.value) for config in resource.configs]
    try:
        broker_loggers.alter(changes, validate_only=body.validate_only)
    except KafkaError as error:
        response.error_code = error.code
        response.error_message = error.detail or error.error.message
    return response
