"""ListOffsets: the offset of a timestamp, or of one of the special places of a log."""

from typing import TYPE_CHECKING, Final

from bowstring._native.log import LogError
from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

_MIN_VERSION: Final = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_CONSUMER: Final = -1
_READ_COMMITTED: Final = 1

Position = tuple[int, int, int]
"""Timestamp, offset and leader epoch, each -1 when there is none."""
_NOWHERE: Final[Position] = (-1, -1, -1)


async def handle(broker: "Broker", request: "Request") -> ListOffsetsResponse:
    """Finds offsets.

    Behaviour: a consumer sees no further than the high watermark, with read_committed no further than the
    last stable offset; a replica sees the log end. A timestamp later than every record gives offset -1. A
    partition named twice is refused.

    Versions: 2 adds the isolation level (KIP-98); 4 leader epochs (KIP-320); 7 the record with the largest
    timestamp (KIP-734); 8 and 9 the ends of what is local and tiered (KIP-405, KIP-1005); 10 a timeout for
    remote reads; 11 the first offset not uploaded yet (KIP-1023). Without remote storage everything is
    local and nothing tiered.
    """
    body: ListOffsetsRequest = request.body
    named: dict[tuple[str, int], int] = {}
    for topic in body.topics:
        for partition in topic.partitions:
            key = (topic.name, partition.partition_index)
            named[key] = named.get(key, 0) + 1
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _answer(
                        broker,
                        request,
                        topic.name,
                        partition,
                        duplicate=named[(topic.name, partition.partition_index)] > 1,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in body.topics
            if topic.partitions
        ]
    )


def _answer(
    broker: "Broker", request: "Request", topic: str, wanted: ListOffsetsPartition, *, duplicate: bool
) -> ListOffsetsPartitionResponse:
    index = wanted.partition_index
    try:
        if duplicate:
            raise KafkaError(Errors.INVALID_REQUEST)
        if wanted.timestamp < 0 and request.version < _MIN_VERSION.get(wanted.timestamp, 0x7FFF):
            raise KafkaError(Errors.UNSUPPORTED_VERSION)
        timestamp, offset, epoch = _find(broker, request.body, topic, wanted)
    except (KafkaError, LogError) as error:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=error.code)
    return ListOffsetsPartitionResponse(
        partition_index=index,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch if request.version >= 4 else -1,
    )


def _find(broker: "Broker", body: ListOffsetsRequest, topic: str, wanted: ListOffsetsPartition) -> Position:
    log = broker.leader_log(topic, wanted.partition_index, wanted.current_leader_epoch)
    if body.replica_id != _CONSUMER:
        end = log.log_end_offset
    elif body.isolation_level == _READ_COMMITTED:
        end = log.last_stable_offset
    else:
        end = log.high_watermark
    if wanted.timestamp == LATEST:
        epoch = broker.metadata.image.topics[topic].partitions[wanted.partition_index].leader_epoch
        return -1, end, epoch
    if wanted.timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, log.epoch_for_offset(log.log_start_offset)
    if wanted.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOWHERE
    if wanted.timestamp == MAX_TIMESTAMP:
        found = log.max_timestamp()
    else:
        found = log.offset_for_timestamp(wanted.timestamp)
    return found if found is not None and found[1] < end else _NOWHERE
