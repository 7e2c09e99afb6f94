"""Reserves blocks of producer ids for brokers (KIP-730)."""

from typing import Final

from bowstring.engine.controller.decision import Decision
from bowstring.engine.controller.state import ControllerState
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from bowstring.protocol.records.cluster_metadata.settings import ProducerIdsRecord

BLOCK_SIZE: Final = 1000
_MAX: Final = (1 << 63) - 1


def allocate(
    state: ControllerState, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    """Reserves the next block. No id is in two blocks.

    Raises:
        KafkaError: STALE_BROKER_EPOCH. UNKNOWN_SERVER_ERROR: all ids have been used.
    """
    broker = state.broker(request.broker_id, request.broker_epoch)
    first = state.image.next_producer_id
    if first > _MAX - BLOCK_SIZE:
        raise KafkaError(Errors.UNKNOWN_SERVER_ERROR, "All producer ids have been used")
    record = ProducerIdsRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, next_producer_id=first + BLOCK_SIZE
    )
    return Decision(
        [record], AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
    )
