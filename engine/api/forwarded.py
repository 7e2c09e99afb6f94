"""Forwards requests to the active controller, which answers them (KIP-590)."""

from typing import TYPE_CHECKING, Any, Final

from bowstring.engine.api import broker_loggers
from bowstring.engine.errors import KafkaError
from bowstring.engine.metadata.config_changes import Change
from bowstring.engine.metadata.replication_limit import check_replicas_max
from bowstring.engine.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
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
    if isinstance(body, CreateTopicsRequest):
        return await _create_topics(broker, body, timeout_ms, request.version)
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


async def _create_topics(
    broker: "BrokerServices", body: CreateTopicsRequest, timeout_ms: int, version: int
) -> CreateTopicsResponse:
    """Sends topics on, except those with more replicas than brokers keep."""
    assert broker.quorum is not None, "a node alone forwards nothing"
    others: list[CreatableTopic] = []
    refused: list[CreatableTopicResult] = []
    for topic in body.topics:
        try:
            for assignment in topic.assignments:
                check_replicas_max(len(assignment.broker_ids))
            if topic.replication_factor == -1 and not topic.assignments:
                # The controller's default may be another one.
                topic.replication_factor = broker.configs.value("default.replication.factor")
            check_replicas_max(topic.replication_factor)
        except KafkaError as error:
            refused.append(
                CreatableTopicResult(
                    name=topic.name, error_code=error.code, error_message=error.detail or error.error.message
                )
            )
        else:
            others.append(topic)
    if not others and refused:
        return CreateTopicsResponse(topics=refused)
    body.topics = others
    answer: CreateTopicsResponse = await broker.quorum.ask_leader(body, timeout_ms, version)
    answer.topics = [*answer.topics, *refused]
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
