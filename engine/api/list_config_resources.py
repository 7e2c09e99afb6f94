"""ListConfigResources: what configs can be described for (KIP-1142)."""

from typing import TYPE_CHECKING, Final

from bowstring.engine.errors import Errors
from bowstring.engine.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request

_TOPIC: Final = 2
_BROKER: Final = 4
_BROKER_LOGGER: Final = 8
_CLIENT_METRICS: Final = 16
_GROUP: Final = 32
_SUPPORTED: Final = (_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP)


async def handle(broker: "Broker", request: "Request") -> ListConfigResourcesResponse:
    """Lists resources.

    Behaviour: no types ask for all. There are no client metrics subscriptions and no group configs yet.

    Versions: 0 lists client metrics subscriptions only (KIP-714); 1 lists every type.
    """
    body: ListConfigResourcesRequest = request.body
    types = set(body.resource_types) if request.version >= 1 else {_CLIENT_METRICS}
    types = types or set(_SUPPORTED)
    if not types.issubset(_SUPPORTED):
        return ListConfigResourcesResponse(error_code=Errors.UNSUPPORTED_VERSION.code)
    image = broker.metadata.image
    resources = []
    for kind in (_BROKER_LOGGER, _BROKER):
        if kind in types:
            resources += [
                ConfigResource(resource_name=str(each), resource_type=kind) for each in image.brokers
            ]
    if _TOPIC in types:
        resources += [ConfigResource(resource_name=name, resource_type=_TOPIC) for name in image.topics]
    return ListConfigResourcesResponse(config_resources=resources)
