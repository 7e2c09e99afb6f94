"""Handles EndTxn: commits or aborts a transaction."""

from typing import TYPE_CHECKING, Final

from bowstring.engine.transactions.ending import EndRequest, end_error
from bowstring.engine.transactions.transaction import EPOCH_BUMP
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from bowstring.engine.requests.request import Request
    from bowstring.engine.transactions.service import TransactionCoordinatorService

_FENCED_VERSION: Final = 2
_BUMPING_VERSION: Final = 5


async def handle(request: "Request", *, transactions: "TransactionCoordinatorService") -> EndTxnResponse:
    """Answers once the outcome is committed to the transaction log; the markers follow.

    Versions: 2 PRODUCER_FENCED; 4 TRANSACTION_ABORTABLE; 5 raises the epoch and returns it (KIP-890).
    """
    body: EndTxnRequest = request.body
    if not body.transactional_id:
        return end_error(Errors.INVALID_REQUEST)
    version = EPOCH_BUMP if request.version >= _BUMPING_VERSION else 0
    wanted = EndRequest(body.transactional_id, body.producer_id, body.producer_epoch, body.committed, version)
    try:
        answer = await transactions.end(wanted)
    except KafkaError as error:
        return end_error(error.error)
    if answer.error_code == Errors.PRODUCER_FENCED.code and request.version < _FENCED_VERSION:
        answer.error_code = Errors.INVALID_PRODUCER_EPOCH.code
    return answer
