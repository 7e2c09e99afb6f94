"""Handles ListConfigResources: lists resources whose configs can be described (KIP-1142)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from bowstring.engine.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from bowstring.engine.requests.time_slices import streamed
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.metadata.image import ClusterImage, Metadata
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices

_BROKER_LOGGER: Final = 8
_NAMED: Final = (GROUP_RESOURCE, CLIENT_METRICS_RESOURCE)
_SUPPORTED: Final = (TOPIC_RESOURCE, BROKER_RESOURCE, _BROKER_LOGGER, *_NAMED)


async def handle(
    request: "Request", *, metadata: "Metadata", time_slices: "TimeSlices"
) -> ListConfigResourcesResponse:
    """Lists resources.

    Behaviour: no types request all. Only groups and client metrics subscriptions with configs are listed.

    Versions: 0 lists client metrics subscriptions only (KIP-714); 1 lists every type.
    """
    body: ListConfigResourcesRequest = request.body
    types = {CLIENT_METRICS_RESOURCE}
    if request.version >= 1:
        types = set(await time_slices.different(body.resource_types))
    types = types or set(_SUPPORTED)
    if not types.issubset(_SUPPORTED):
        return ListConfigResourcesResponse(error_code=Errors.UNSUPPORTED_VERSION.code)
    return ListConfigResourcesResponse(config_resources=streamed(_resources(metadata.image, types)))


def _resources(image: "ClusterImage", types: set[int]) -> Iterator[ConfigResource]:
    for kind, name in list(image.configs):
        if kind in _NAMED and kind in types:
            yield ConfigResource(resource_name=name, resource_type=kind)
    for kind in (_BROKER_LOGGER, BROKER_RESOURCE):
        if kind in types:
            for broker_id in list(image.brokers):
                yield ConfigResource(resource_name=str(broker_id), resource_type=kind)
    if TOPIC_RESOURCE in types:
        for name in list(image.topics):
            yield ConfigResource(resource_name=name, resource_type=TOPIC_RESOURCE)
