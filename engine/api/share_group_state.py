"""Handles the requests of brokers to share coordinators: InitializeShareGroupState, ReadShareGroupState,
WriteShareGroupState, DeleteShareGroupState and ReadShareGroupStateSummary (KIP-932).
"""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from bowstring.engine.requests.time_slices import portions
from bowstring.engine.share.persister.interface import SharePartitionKey
from bowstring.engine.share.persister.state_apis import STATE_APIS
from bowstring.protocol.schema import Response

if TYPE_CHECKING:
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.share.coordinator.service import ShareCoordinatorService

_AT_ONCE: Final = 100
"""Share partitions that are handled together: each waits for its commit."""


async def handle(
    request: "Request", *, time_slices: "TimeSlices", share_coordinator: "ShareCoordinatorService"
) -> Response:
    """Answers when all changes are committed or refused.

    Behaviour: without a group id, without topics, or with a topic without partitions, nothing is done and the
    answer is empty.

    Versions: 1 of writes and summaries has the count of records whose delivery is complete (KIP-1226).
    """
    body: Any = request.body
    api = STATE_APIS[request.api_key]
    results: list[tuple[bytes, Any]] = []
    if body.group_id and not [topic async for topic in time_slices.each(body.topics) if not topic.partitions]:
        async for portion in time_slices.each(portions(_wanted(body), _AT_ONCE)):
            found = await asyncio.gather(
                *(share_coordinator.serve(api.key, key, data) for key, data in portion)
            )
            results += [(key.topic_id, each) for (key, _), each in zip(portion, found, strict=True)]
    return api.answer(results)


def _wanted(body: Any) -> Iterator[tuple[SharePartitionKey, Any]]:
    for topic in body.topics:
        for each in topic.partitions:
            yield SharePartitionKey(body.group_id, topic.topic_id, each.partition), each
