"""Handles WriteTxnMarkers: ends transactions in the partitions that this broker leads.

Transaction coordinators send it, and admin clients that abort a hanging transaction.
"""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from bowstring.engine.requests.time_slices import portions
from bowstring.engine.transactions.marker_writer import Marker
from bowstring.engine.transactions.transaction import TopicPartition
from bowstring.protocol.errors import Error
from bowstring.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.transactions.service import TransactionCoordinatorService

_AT_ONCE: Final = 100
"""Markers that are written together: each waits for its commit."""


async def handle(
    request: "Request", *, time_slices: "TimeSlices", transactions: "TransactionCoordinatorService"
) -> WriteTxnMarkersResponse:
    """Answers when all markers are committed or refused.

    Versions: 2 says under which transaction version the transaction ends (KIP-1228).
    """
    body: WriteTxnMarkersRequest = request.body
    errors: dict[int, dict[TopicPartition, Error]] = {}
    async for portion in time_slices.each(portions(_wanted(body), _AT_ONCE)):
        written = await asyncio.gather(
            *(transactions.writer.write(marker, partitions) for marker, partitions in portion)
        )
        for (marker, _), found in zip(portion, written, strict=True):
            errors.setdefault(marker.producer_id, {}).update(found)
    markers = []
    async for producer_id, found in time_slices.each(errors.items()):
        topics = await _topics(time_slices, found)
        markers.append(WritableTxnMarkerResult(producer_id=producer_id, topics=topics))
    return WriteTxnMarkersResponse(markers=markers)


def _wanted(body: WriteTxnMarkersRequest) -> Iterator[tuple[Marker, list[TopicPartition]]]:
    """Yields each marker with one partition at a time; with none if it has none, as it is answered, too."""
    for each in body.markers:
        marker = Marker(
            each.producer_id,
            each.producer_epoch,
            each.transaction_result,
            each.coordinator_epoch,
            each.transaction_version,
        )
        is_empty = True
        for topic in each.topics:
            for index in topic.partition_indexes:
                is_empty = False
                yield marker, [(topic.name, index)]
        if is_empty:
            yield marker, []


async def _topics(
    time_slices: "TimeSlices", errors: dict[TopicPartition, Error]
) -> list[WritableTxnMarkerTopicResult]:
    by_topic: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    async for (name, index), error in time_slices.each(errors.items()):
        result = WritableTxnMarkerPartitionResult(partition_index=index, error_code=error.code)
        by_topic.setdefault(name, []).append(result)
    results = []
    async for name, found in time_slices.each(by_topic.items()):
        results.append(WritableTxnMarkerTopicResult(name=name, partitions=found))
    return results
