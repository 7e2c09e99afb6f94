"""Handles DescribeTransactions (KIP-664)."""

from typing import TYPE_CHECKING

from bowstring.engine.api.denials import denies, hides
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer
    from bowstring.engine.transactions.service import TransactionCoordinatorService


async def handle(
    request: "Request",
    *,
    time_slices: "TimeSlices",
    transactions: "TransactionCoordinatorService",
    authorizer: "Authorizer",
) -> DescribeTransactionsResponse:
    """Describes transactional ids that this broker coordinates; others get NOT_COORDINATOR. Topics that the
    client may not describe are left out.

    Versions: only 0 exists.
    """
    body: DescribeTransactionsRequest = request.body
    operation = AclOperation.DESCRIBE

    def is_seen(topic: str) -> bool:
        return not hides(authorizer, request, operation, AclResourceType.TOPIC, topic)

    states = []
    async for each in time_slices.each(body.transactional_ids):
        if denies(authorizer, request, operation, AclResourceType.TRANSACTIONAL_ID, each):
            error_code = Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.code
            states.append(TransactionState(transactional_id=each, error_code=error_code))
            continue
        state = _describe(transactions, each)
        if authorizer.is_on:
            state.topics = [topic for topic in state.topics if is_seen(topic.topic)]
        states.append(state)
    return DescribeTransactionsResponse(transaction_states=states)


def _describe(transactions: "TransactionCoordinatorService", transactional_id: str) -> TransactionState:
    error = Errors.INVALID_REQUEST
    if transactional_id:
        try:
            return transactions.shard_of(transactional_id).describe(transactional_id)
        except KafkaError as refused:
            error = refused.error
    return TransactionState(transactional_id=transactional_id, error_code=error.code)
