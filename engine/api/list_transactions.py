"""Handles ListTransactions: lists the transactional ids that this broker coordinates (KIP-664)."""

import time
from typing import TYPE_CHECKING

from bowstring._native.protocol.message_steps import PAUSE
from bowstring.engine.api.denials import hides
from bowstring.engine.requests.time_slices import streamed
from bowstring.engine.transactions.administration import TransactionFilter
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

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
) -> ListTransactionsResponse:
    """Lists all that the client may describe, or answers COORDINATOR_LOAD_IN_PROGRESS, because an incomplete
    list would look complete.

    Versions: 1 filters by duration (KIP-994); 2 by a regular expression (KIP-1152).
    """
    body: ListTransactionsRequest = request.body
    wanted = TransactionFilter(
        [name async for name in time_slices.each(body.state_filters)],
        [each async for each in time_slices.each(body.producer_id_filters)],
        body.duration_filter,
        body.transactional_id_pattern,
    )
    now_ms = time.time_ns() // 1_000_000
    asked = (authorizer, request, AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID)
    shards = list(transactions.shards())
    return ListTransactionsResponse(
        unknown_state_filters=wanted.unknown_states,
        transaction_states=streamed(
            PAUSE if hides(*asked, each.transactional_id) else each
            for shard in shards
            for each in shard.list_transactions(wanted, now_ms)
        ),
    )
