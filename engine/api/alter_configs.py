"""Handles AlterConfigs: replaces all configs of a resource. Clients since Kafka 2.3 use
IncrementalAlterConfigs.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from bowstring.engine.api.config_resources import Key, alter_each
from bowstring.engine.metadata.config_changes import replace
from bowstring.engine.metadata.image import ClusterImage
from bowstring.protocol.messages.alter_configs import (
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
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
) -> AlterConfigsResponse:
    """Replaces the configs of topics, of a broker (by its id) or of all brokers (the empty name).

    Behaviour: each resource changes completely or not at all. Configs that the request omits return to their
    defaults. A resource named twice is refused. NOT_CONTROLLER and REQUEST_TIMED_OUT as from CreateTopics.

    Versions: 1 and 2 change only the encoding.
    """

    def change(image: ClusterImage, key: Key, resource: Any) -> Iterable[MetadataRecord]:
        wanted = [(config.name, config.value) for config in resource.configs]
        return replace(image, configs, key, wanted)

    responses = await alter_each(
        request,
        AlterConfigsResourceResponse,
        change,
        controller=controller,
        time_slices=time_slices,
        authorizer=authorizer,
    )
    return AlterConfigsResponse(responses=responses)
