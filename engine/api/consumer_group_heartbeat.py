"""Refuses ConsumerGroupHeartbeat: this broker does not have the new group protocol (KIP-848) yet."""

from typing import TYPE_CHECKING, Final

from bowstring.engine.errors import Errors
from bowstring.engine.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from bowstring.engine.requests.broker_services import BrokerServices
    from bowstring.engine.requests.request import Request

_ADVICE: Final = "This broker supports classic consumer groups only: set group.protocol=classic."


async def handle(_broker: "BrokerServices", _request: "Request") -> ConsumerGroupHeartbeatResponse:
    """Refuses with UNSUPPORTED_VERSION, which clients do not retry.

    Behaviour: Kafka answers the same when the feature group.version is 0. As in Kafka, the API is offered
    anyway: librdkafka waits forever for a broker that offers it, and no client chooses the protocol just
    because it is offered (docs/guide/other-clients.md).
    """
    return ConsumerGroupHeartbeatResponse(
        error_code=Errors.UNSUPPORTED_VERSION.code, error_message=_ADVICE, member_epoch=-1
    )
