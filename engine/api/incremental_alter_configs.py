"""Handles IncrementalAlterConfigs: sets, deletes, appends to and subtracts from single configs (KIP-339)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from bowstring.engine.api import broker_loggers
from bowstring.engine.api.config_resources import BROKER_LOGGER, Key, alter_each
from bowstring.engine.metadata.config_changes import Change, alter_incrementally
from bowstring.engine.metadata.image import ClusterImage
from bowstring.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from bowstring.protocol.schema import MetadataRecord

if TYPE_CHECKING:
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.controller.service import QuorumController
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer


async def handle(
    request: "Request",
    *,
    configs: "BrokerConfigs",
    controller: "QuorumController",
    time_slices: "TimeSlices",
    authorizer: "Authorizer",
) -> IncrementalAlterConfigsResponse:
    """Changes configs of topics, of a broker (by its id), of all brokers (the empty name), and log levels.

    Behaviour: each resource changes completely or not at all; changes are in force when the answer is sent.
    APPEND and SUBTRACT work on lists only. A resource named twice is refused. Log levels are those of this
    controller: brokers keep theirs. NOT_CONTROLLER and REQUEST_TIMED_OUT as from CreateTopics.

    Versions: 1 changes only the encoding.
    """
    body: IncrementalAlterConfigsRequest = request.body

    def change(image: ClusterImage, key: Key, resource: Any) -> Iterable[MetadataRecord]:
        changes = [Change(config.name, config.config_operation, config.value) for config in resource.configs]
        if key[0] == BROKER_LOGGER:
            broker_loggers.alter(changes, validate_only=body.validate_only)
            return ()
        return alter_incrementally(image, configs, key, changes)

    responses = await alter_each(
        request,
        AlterConfigsResourceResponse,
        change,
        controller=controller,
        time_slices=time_slices,
        authorizer=authorizer,
    )
    return IncrementalAlterConfigsResponse(responses=responses)
