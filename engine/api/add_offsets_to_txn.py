"""Handles AddOffsetsToTxn: adds a group's partition of ``__consumer_offsets`` to a transaction."""

from typing import TYPE_CHECKING, Final

from bowstring.engine.metadata.names import GROUPS_TOPIC
from bowstring.engine.transactions.partitions import Producer
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.requests.request import Request
    from bowstring.engine.transactions.service import TransactionCoordinatorService

_FENCED_VERSION: Final = 2


async def handle(
    request: "Request", *, groups: "GroupCoordinatorService", transactions: "TransactionCoordinatorService"
) -> AddOffsetsToTxnResponse:
    """Adds the partition. Clients of transaction version 2 do not send this: TxnOffsetCommit adds it.

    Versions: 2 PRODUCER_FENCED; 4 TRANSACTION_ABORTABLE.
    """
    body: AddOffsetsToTxnRequest = request.body
    if not body.transactional_id:
        return AddOffsetsToTxnResponse(error_code=Errors.INVALID_REQUEST.code)
    partition = (GROUPS_TOPIC, groups.partition_of(body.group_id))
    producer = Producer(body.transactional_id, body.producer_id, body.producer_epoch)
    try:
        error = await transactions.add_partitions(producer, frozenset((partition,)), 0)
    except KafkaError as refused:
        error = refused.error
    if error is Errors.PRODUCER_FENCED and request.version < _FENCED_VERSION:
        error = Errors.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=error.code)
