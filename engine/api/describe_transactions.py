"""Handles DescribeTransactions (KIP-664)."""

from typing import TYPE_CHECKING

from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.transactions.service import TransactionCoordinatorService


async def handle(
    request: "Request", *, time_slices: "TimeSlices", transactions: "TransactionCoordinatorService"
) -> DescribeTransactionsResponse:
    """Describes transactional ids that this broker coordinates; others get NOT_COORDINATOR.

    Versions: only 0 exists.
    """
    body: DescribeTransactionsRequest = request.body
    return DescribeTransactionsResponse(
        transaction_states=[
            _describe(transactions, each) async for each in time_slices.each(body.transactional_ids)
        ]
    )


def _describe(transactions: "TransactionCoordinatorService", transactional_id: str) -> TransactionState:
    error = Errors.INVALID_REQUEST
    if transactional_id:
        try:
            return transactions.shard_of(transactional_id).describe(transactional_id)
        except KafkaError as refused:
            error = refused.error
    return TransactionState(transactional_id=transactional_id, error_code=error.code)
