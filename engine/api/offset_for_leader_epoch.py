"""Handles OffsetForLeaderEpoch: returns where a leader epoch ends, so that a reader detects divergence
(KIP-320).
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from bowstring.engine.requests.time_slices import streamed
from bowstring.protocol.errors import KafkaError
from bowstring.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from bowstring.engine.requests.led_logs import LedLogs
    from bowstring.engine.requests.request import Request


async def handle(request: "Request", *, led_logs: "LedLogs") -> OffsetForLeaderEpochResponse:
    """Finds the largest epoch not above the requested one, and the offset at which it ends.

    Behaviour: both are -1 when the log has no such epoch.

    Versions: 3 adds the replica id; 4 changes only the encoding.
    """
    body: OffsetForLeaderEpochRequest = request.body
    return OffsetForLeaderEpochResponse(
        topics=streamed(
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=streamed(_ends(led_logs, topic.topic, topic.partitions))
            )
            for topic in body.topics
        )
    )


def _ends(
    led_logs: "LedLogs", topic: str, wanted: Iterable[OffsetForLeaderPartition]
) -> Iterator[EpochEndOffset]:
    for partition in wanted:
        yield _end(led_logs, topic, partition)


def _end(led_logs: "LedLogs", topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    result = EpochEndOffset(partition=wanted.partition)
    try:
        log = led_logs.of(topic, wanted.partition, wanted.current_leader_epoch)
    except KafkaError as error:
        result.error_code = error.code
        return result
    result.leader_epoch, result.end_offset = log.end_offset_for_epoch(wanted.leader_epoch)
    return result
