"""Handles InitProducerId: allocates an id for an idempotent producer (KIP-98)."""

from typing import TYPE_CHECKING

from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.requests.broker_services import BrokerServices
    from bowstring.engine.requests.request import Request


async def handle(broker: "BrokerServices", request: "Request") -> InitProducerIdResponse:
    """Allocates a producer id that was never used before, with epoch 0.

    Behaviour: without a transactional id, the producer's previous id and epoch are ignored (KIP-360); only
    one without the other is refused. A transactional id is refused with UNSUPPORTED_VERSION: there is no
    transaction coordinator yet, and a producer would retry after a retriable error.

    Versions: 3 adds the producer's previous id and epoch (KIP-360); 4 and 5 new transaction errors; 6
    two-phase commit (KIP-939), which has no meaning without transactions.
    """
    body: InitProducerIdRequest = request.body
    if body.transactional_id is not None:
        error = Errors.UNSUPPORTED_VERSION if body.transactional_id else Errors.INVALID_REQUEST
        return InitProducerIdResponse(error_code=error.code, producer_epoch=-1)
    if (body.producer_id == -1) != (body.producer_epoch == -1):
        return InitProducerIdResponse(error_code=Errors.INVALID_REQUEST.code, producer_epoch=-1)
    try:
        producer_id = await broker.producer_ids.allocate()
    except KafkaError as error:
        return InitProducerIdResponse(error_code=error.code, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
