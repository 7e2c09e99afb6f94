"""Handles WriteTxnMarkers: ends transactions in the partitions that this broker leads.

Transaction coordinators send it, and admin clients that abort a hanging transaction.
"""

import asyncio
from itertools import groupby
from typing import TYPE_CHECKING

from bowstring.engine.errors import Error
from bowstring.engine.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from bowstring.engine.transactions.shell.marker_writer import Marker
from bowstring.engine.transactions.transaction import TopicPartition

if TYPE_CHECKING:
    from bowstring.engine.requests.broker_services import BrokerServices
    from bowstring.engine.requests.request import Request


async def handle(broker: "BrokerServices", request: "Request") -> WriteTxnMarkersResponse:
    """Answers when all markers are committed or refused.

    Versions: 2 says under which transaction version the transaction ends (KIP-1228).
    """
    body: WriteTxnMarkersRequest = request.body
    markers = list(body.markers)
    written = await asyncio.gather(*(_write(broker, each) for each in markers))
    errors: dict[int, dict[TopicPartition, Error]] = {}
    for marker, found in zip(markers, written, strict=True):
        errors.setdefault(marker.producer_id, {}).update(found)
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(producer_id=producer_id, topics=_topics(found))
            for producer_id, found in errors.items()
        ]
    )


async def _write(broker: "BrokerServices", marker: WritableTxnMarker) -> dict[TopicPartition, Error]:
    partitions = [(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]
    return await broker.transactions.writer.write(
        Marker(
            marker.producer_id,
            marker.producer_epoch,
            marker.transaction_result,
            marker.coordinator_epoch,
            marker.transaction_version,
        ),
        partitions,
    )


def _topics(errors: dict[TopicPartition, Error]) -> list[WritableTxnMarkerTopicResult]:
    return [
        WritableTxnMarkerTopicResult(
            name=name,
            partitions=[
                WritableTxnMarkerPartitionResult(partition_index=index, error_code=error.code)
                for (_, index), error in each
            ],
        )
        for name, each in groupby(
            sorted(errors.items(), key=lambda item: item[0]), key=lambda item: item[0][0]
        )
    ]
