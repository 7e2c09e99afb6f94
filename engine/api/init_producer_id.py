"""InitProducerId: an id for an idempotent producer (KIP-98)."""

from typing import TYPE_CHECKING

from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request


async def handle(broker: "Broker", request: "Request") -> InitProducerIdResponse:
    """Gives out a producer id that was never given before, in epoch 0.

    Behaviour: without a transactional id the id and epoch a producer had are of no interest (KIP-360); only
    one without the other is refused. A transactional id is refused for good with UNSUPPORTED_VERSION: there
    is no transaction coordinator yet, and an error that may be retried would let the producer wait for one.

    Versions: 3 adds the id and epoch the producer has (KIP-360); 4 and 5 new transaction errors; 6 two-phase
    commit (KIP-939), which has no meaning without transactions.
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
