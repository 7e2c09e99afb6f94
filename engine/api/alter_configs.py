"""AlterConfigs: replaces all configs of a resource. Clients since Kafka 2.3 use IncrementalAlterConfigs."""

from typing import TYPE_CHECKING

from bowstring.engine.api.committing import commit
from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.metadata.config_changes import replace
from bowstring.engine.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from bowstring.engine.protocol.schema import MetadataRecord

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request


async def handle(broker: "Broker", request: "Request") -> AlterConfigsResponse:
    """Replaces the configs of topics, of this broker (by its id) or of all brokers (the empty name).

    Behaviour: each resource changes as a whole or not at all. What the request leaves out goes back to its
    default. A resource named twice is refused.

    Versions: 1 and 2 change nothing but the encoding.
    """
    body: AlterConfigsRequest = request.body
    resources = [(resource.resource_type, resource.resource_name) for resource in body.resources]
    responses = []
    async with broker.metadata.changing() as image:
        records: list[MetadataRecord] = []
        for resource, key in zip(body.resources, resources, strict=True):
            response = AlterConfigsResourceResponse(
                resource_type=key[0], resource_name=key[1], error_message=None
            )
            responses.append(response)
            try:
                if resources.count(key) > 1:
                    raise KafkaError(Errors.INVALID_REQUEST, "Each resource must appear at most once.")
                wanted = [(config.name, config.value) for config in resource.configs]
                records += replace(image, broker.configs, broker.node_id, key, wanted)
            except KafkaError as error:
                response.error_code = error.code
                response.error_message = error.detail or error.error.message
        if not body.validate_only:
            await commit(broker, records, responses)
    return AlterConfigsResponse(responses=responses)
