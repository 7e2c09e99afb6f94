"""IncrementalAlterConfigs: sets, deletes, appends to and subtracts from single configs (KIP-339)."""

from typing import TYPE_CHECKING, Final

from bowstring.engine.api import broker_loggers
from bowstring.engine.api.committing import commit
from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.metadata.config_changes import Change, alter_incrementally
from bowstring.engine.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from bowstring.engine.protocol.schema import MetadataRecord

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request

_BROKER_LOGGER: Final = 8


async def handle(broker: "Broker", request: "Request") -> IncrementalAlterConfigsResponse:
    """Changes configs of topics, of this broker (by its id), of all brokers (the empty name), and log levels.

    Behaviour: each resource changes as a whole or not at all; what changed is in force when the answer
    comes. APPEND and SUBTRACT work on lists only. A resource named twice is refused.

    Versions: 1 changes nothing but the encoding.
    """
    body: IncrementalAlterConfigsRequest = request.body
    resources = [(resource.resource_type, resource.resource_name) for resource in body.resources]
    responses = []
    async with broker.metadata.changing() as image:
        records: list[MetadataRecord] = []
        for resource, key in zip(body.resources, resources, strict=True):
            response = AlterConfigsResourceResponse(
                resource_type=key[0], resource_name=key[1], error_message=None
            )
            responses.append(response)
            changes = [
                Change(config.name, config.config_operation, config.value) for config in resource.configs
            ]
            try:
                if resources.count(key) > 1:
                    raise KafkaError(Errors.INVALID_REQUEST, "Each resource must appear at most once.")
                if key[0] == _BROKER_LOGGER:
                    broker_loggers.alter(changes, validate_only=body.validate_only)
                else:
                    records += alter_incrementally(image, broker.configs, broker.node_id, key, changes)
            except KafkaError as error:
                response.error_code = error.code
                response.error_message = error.detail or error.error.message
        if not body.validate_only:
            await commit(broker, records, responses)
    return IncrementalAlterConfigsResponse(responses=responses)
