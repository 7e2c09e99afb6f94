"""OffsetForLeaderEpoch: where a leader epoch ends, by which a reader sees that it diverged (KIP-320)."""

from typing import TYPE_CHECKING

from bowstring.engine.errors import KafkaError
from bowstring.engine.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request


async def handle(broker: "Broker", request: "Request") -> OffsetForLeaderEpochResponse:
    """Finds the largest epoch not above the one asked for, and the offset at which it ends.

    Behaviour: both are -1 when the log knows no such epoch.

    Versions: 3 adds the replica id; 4 changes nothing but the encoding.
    """
    body: OffsetForLeaderEpochRequest = request.body
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_end(broker, topic.topic, partition) for partition in topic.partitions],
            )
            for topic in body.topics
        ]
    )


def _end(broker: "Broker", topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    result = EpochEndOffset(partition=wanted.partition)
    try:
        log = broker.leader_log(topic, wanted.partition, wanted.current_leader_epoch)
    except KafkaError as error:
        result.error_code = error.code
        return result
    result.leader_epoch, result.end_offset = log.end_offset_for_epoch(wanted.leader_epoch)
    return result
