"""Handles AlterConfigs: replaces all configs of a resource. Clients since Kafka 2.3 use
IncrementalAlterConfigs.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from bowstring.engine.api.config_resources import Key, alter_each
from bowstring.engine.metadata.config_changes import replace
from bowstring.engine.metadata.image import ClusterImage
from bowstring.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from bowstring.protocol.schema import MetadataRecord

if TYPE_CHECKING:
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.metadata.committer import Committer
    from bowstring.engine.metadata.image import ChangingImage
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices


async def handle(
    request: "Request",
    *,
    configs: "BrokerConfigs",
    node_id: int | None,
    metadata: "ChangingImage",
    committer: "Committer",
    time_slices: "TimeSlices",
) -> AlterConfigsResponse:
    """Replaces the configs of topics, of this broker (by its id) or of all brokers (the empty name).

    Behaviour: each resource changes completely or not at all. Configs that the request omits return to their
    defaults. A resource named twice is refused.

    Versions: 1 and 2 change only the encoding.
    """
    body: AlterConfigsRequest = request.body

    def change(image: ClusterImage, key: Key, resource: Any) -> Iterable[MetadataRecord]:
        wanted = [(config.name, config.value) for config in resource.configs]
        return replace(image, configs, node_id, key, wanted)

    responses = await alter_each(
        body,
        AlterConfigsResourceResponse,
        change,
        metadata=metadata,
        committer=committer,
        time_slices=time_slices,
    )
    return AlterConfigsResponse(responses=responses)
