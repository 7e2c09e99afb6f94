"""Handles ListOffsets: finds the offset of a timestamp or of a special position of a log."""

from collections.abc import AsyncIterator, Iterator, Set
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring._native.protocol.message_steps import PAUSE
from bowstring._native.record.decode import decode_batches
from bowstring.engine.api.denials import denied_among, names_of
from bowstring.engine.requests.time_slices import portions, streamed
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.led_logs import LedLogs
    from bowstring.engine.requests.listeners import Listener
    from bowstring.engine.requests.request import Received, Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer
    from bowstring.engine.storage.disk_reads import DiskReads

# Looking up members of an enumeration takes longer than a decision.
_DESCRIBE: Final = AclOperation.DESCRIBE
_TOPIC: Final = AclResourceType.TOPIC
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
# Every replica answers a request with this replica id, as in Kafka.
_ANY_REPLICA: Final = -2
_READ_COMMITTED: Final = 1
_EPOCH_VERSION: Final = 4
_UNKNOWN_END_VERSION: Final = 5
_SEARCHES_AT_ONCE: Final = 64
# Most partitions that are answered without a task.
_FEW: Final = 100
_NONE_TWICE: Final[frozenset[str]] = frozenset()

Position = tuple[int, int, int]
"""Timestamp, offset and leader epoch; each is -1 when there is none."""
_NOWHERE: Final[Position] = (-1, -1, -1)


class Search(NamedTuple):
    """A search by timestamp in a log; results at or beyond `end` are ignored.

    `unknown` is the error code instead, when they may be committed; else 0.
    """

    log: PartitionLog
    timestamp: int
    end: int
    unknown: int


class _Asked(NamedTuple):
    """What an answer needs of a request."""

    version: int
    body: ListOffsetsRequest


Answers = Iterator[ListOffsetsPartitionResponse] | AsyncIterator[ListOffsetsPartitionResponse]


def at_once(
    body: ListOffsetsRequest,
    message: "Received",
    listener: "Listener",
    *,
    metadata: "Metadata",
    led_logs: "LedLogs",
    authorizer: "Authorizer",
) -> ListOffsetsResponse | None:
    """Answers for few partitions whose logs need not be searched and that the client may see, the usual case;
    None: call `handle`.
    """
    seen: set[tuple[str, int]] = set()
    count = 0
    for topic in body.topics:
        for each in topic.partitions:
            count += 1
            seen.add((topic.name, each.partition_index))
            if _is_searched_for(each.timestamp):
                return None
    if len(seen) < count or count > _FEW:
        return None
    if authorizer.is_on:
        wanted = [(_DESCRIBE, _TOPIC, topic.name) for topic in body.topics]
        if not authorizer.permits(message, wanted):
            return None
        authorizer.note_permitted(message, wanted)
    asked = _Asked(message.api_version, body)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _answer(asked, topic.name, each, _NONE_TWICE, metadata=metadata, led_logs=led_logs)[0]
                    for each in topic.partitions
                ],
            )
            for topic in body.topics
            if topic.partitions
        ]
    )


async def handle(
    request: "Request",
    *,
    metadata: "Metadata",
    time_slices: "TimeSlices",
    disk_reads: "DiskReads",
    led_logs: "LedLogs",
    authorizer: "Authorizer",
) -> ListOffsetsResponse:
    """Finds offsets.

    Behaviour: a consumer sees offsets up to the high watermark, with read_committed up to the last stable
    offset; a replica sees the log end. Only the leader answers, except to replica id -2. A timestamp later
    than every record gives offset -1. A partition named twice is refused. A new leader whose high watermark
    is below the start of its epoch returns an error for the end and for a record beyond it: the previous
    leader may have answered with later offsets (KIP-207). Topics that the client may not describe come last.

    Versions: 2 adds the isolation level (KIP-98); 4 leader epochs (KIP-320); 5 OFFSET_NOT_AVAILABLE instead
    of LEADER_NOT_AVAILABLE for the end of such a leader (KIP-207); 7 the record with the largest timestamp
    (KIP-734); 8 and 9 the ends of local and tiered data (KIP-405, KIP-1005); 10 a timeout for
    remote reads; 11 the first offset that is not uploaded yet (KIP-1023). Without remote storage all data is
    local.
    """
    body: ListOffsetsRequest = request.body
    names = names_of(metadata.image, body.topics, by_id=False)
    operation, kind = AclOperation.DESCRIBE, AclResourceType.TOPIC
    denied = await denied_among(authorizer, request, operation, kind, names, time_slices=time_slices)
    # Strings, because a million other objects would burden the garbage collector.
    seen: set[str] = set()
    twice: set[str] = set()
    searching = False
    async for topic in time_slices.each(body.topics):
        async for partition in time_slices.each(topic.partitions):
            key = _key(topic.name, partition.partition_index)
            if key in seen:
                twice.add(key)
            seen.add(key)
            searching = searching or _is_searched_for(partition.timestamp)

    def partitions(topic: ListOffsetsTopic) -> Answers:
        if searching:
            return _searched(
                request, topic, twice, metadata=metadata, disk_reads=disk_reads, led_logs=led_logs
            )
        return _looked_up(metadata, led_logs, request, topic, twice)

    answered = (
        ListOffsetsTopicResponse(name=topic.name, partitions=streamed(partitions(topic)))
        if len(topic.partitions) > 0 and topic.name not in denied
        else PAUSE
        for topic in body.topics
    )
    return ListOffsetsResponse(topics=streamed(chain(answered, _all_refused(body, denied))))


def _all_refused(body: ListOffsetsRequest, denied: Set[str]) -> Iterator[ListOffsetsTopicResponse]:
    """Yields the answers for topics that the client may not describe."""
    for topic in body.topics if denied else ():
        if topic.name in denied:
            yield ListOffsetsTopicResponse(name=topic.name, partitions=streamed(_refused(topic)))
        else:
            yield PAUSE


def _refused(topic: ListOffsetsTopic) -> Iterator[ListOffsetsPartitionResponse]:
    for each in topic.partitions:
        yield ListOffsetsPartitionResponse(
            partition_index=each.partition_index, error_code=Errors.TOPIC_AUTHORIZATION_FAILED.code
        )


def _key(topic: str, index: int) -> str:
    return f"{index} {topic}"


def _is_searched_for(timestamp: int) -> bool:
    return timestamp >= 0 or timestamp == MAX_TIMESTAMP


def _looked_up(
    metadata: "Metadata", led_logs: "LedLogs", request: "Request", topic: ListOffsetsTopic, twice: set[str]
) -> Iterator[ListOffsetsPartitionResponse]:
    for partition in topic.partitions:
        yield _answer(request, topic.name, partition, twice, metadata=metadata, led_logs=led_logs)[0]


async def _searched(
    request: "Request",
    topic: ListOffsetsTopic,
    twice: set[str],
    *,
    metadata: "Metadata",
    disk_reads: "DiskReads",
    led_logs: "LedLogs",
) -> AsyncIterator[ListOffsetsPartitionResponse]:
    """Searches by timestamp on another thread, some at a time, because the segments may not be in memory."""
    for portion in portions(topic.partitions, _SEARCHES_AT_ONCE):
        answers = [
            _answer(request, topic.name, partition, twice, metadata=metadata, led_logs=led_logs)
            for partition in portion
        ]
        searches = [(response, search) for response, search in answers if search is not None]
        if searches:
            await disk_reads.run(_search, searches, request.version)
        for response, _ in answers:
            yield response


def _search(searches: list[tuple[ListOffsetsPartitionResponse, "Search"]], version: int) -> None:
    """Runs searches on a thread that may wait for the disk."""
    for response, (log, timestamp, end, unknown) in searches:
        try:
            found = _latest(log) if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
        except LogError as error:
            response.error_code = error.code
            continue
        if found is None or (found[1] >= end and not unknown):
            _fill(response, _NOWHERE, version)
        elif found[1] >= end:
            response.error_code = unknown
        else:
            _fill(response, found, version)


def _latest(log: PartitionLog) -> Position | None:
    """Returns the first record with the largest timestamp; the first of all if none has one, as in Kafka."""
    found = log.max_timestamp()
    start = log.log_start_offset
    if found is not None or start >= log.log_end_offset:
        return found
    for record in decode_batches(log.read(start, 1)):
        if record.offset >= start:
            return -1, record.offset, log.epoch_for_offset(record.offset)
    return None


def _answer(
    request: "Request | _Asked",
    topic: str,
    wanted: ListOffsetsPartition,
    twice: Set[str],
    *,
    metadata: "Metadata",
    led_logs: "LedLogs",
) -> tuple[ListOffsetsPartitionResponse, "Search | None"]:
    """Returns the answer for a partition, or the search that is needed for it."""
    response = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    try:
        if _key(topic, wanted.partition_index) in twice:
            raise KafkaError(Errors.INVALID_REQUEST)
        if wanted.timestamp < 0 and request.version < _MIN_VERSION.get(wanted.timestamp, 0x7FFF):
            raise KafkaError(Errors.UNSUPPORTED_VERSION)
        found = _find(request.body, topic, wanted, request.version, metadata=metadata, led_logs=led_logs)
    except KafkaError as error:
        response.error_code = error.code
        return response, None
    if isinstance(found, Search):
        return response, found
    _fill(response, found, request.version)
    return response, None


def _fill(response: ListOffsetsPartitionResponse, found: Position, version: int) -> None:
    response.timestamp, response.offset, epoch = found
    if version >= _EPOCH_VERSION:
        response.leader_epoch = epoch


def _unknown_end(log: PartitionLog, epoch: int, version: int) -> int:
    """Returns the error code of a leader that cannot determine yet which records are committed; else 0."""
    if log.high_watermark == log.log_end_offset or log.epoch_for_offset(log.high_watermark) >= epoch:
        return 0
    error = Errors.OFFSET_NOT_AVAILABLE if version >= _UNKNOWN_END_VERSION else Errors.LEADER_NOT_AVAILABLE
    return error.code


def _find(
    body: ListOffsetsRequest,
    topic: str,
    wanted: ListOffsetsPartition,
    version: int,
    *,
    metadata: "Metadata",
    led_logs: "LedLogs",
) -> "Position | Search":
    log = led_logs.of(
        topic,
        wanted.partition_index,
        wanted.current_leader_epoch,
        or_follower=body.replica_id == _ANY_REPLICA,
    )
    if body.replica_id != _CONSUMER:
        end = log.log_end_offset
    elif body.isolation_level == _READ_COMMITTED:
        end = log.last_stable_offset
    else:
        end = log.high_watermark
    epoch = metadata.image.topics[topic].partitions[wanted.partition_index].leader_epoch
    unknown = _unknown_end(log, epoch, version) if body.replica_id == _CONSUMER else 0
    if wanted.timestamp == LATEST:
        if unknown:
            raise KafkaError(Errors.of(unknown))
        return -1, end, epoch
    if wanted.timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, log.epoch_for_offset(log.log_start_offset)
    if wanted.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOWHERE
    return Search(log, wanted.timestamp, end, unknown)
