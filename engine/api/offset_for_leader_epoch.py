"""Handles OffsetForLeaderEpoch: returns where a leader epoch ends, so that a reader detects divergence
(KIP-320).
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from bowstring.engine.api.denials import allows_on_cluster, denies
from bowstring.engine.requests.time_slices import streamed
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from bowstring.engine.requests.led_logs import LedLogs
    from bowstring.engine.requests.request import Request
    from bowstring.engine.security.authorizer import Authorizer


async def handle(
    request: "Request", *, led_logs: "LedLogs", authorizer: "Authorizer"
) -> OffsetForLeaderEpochResponse:
    """Finds the largest epoch not above the requested one, and the offset at which it ends.

    Behaviour: both are -1 when the log has no such epoch. Brokers may read every topic. Those that the
    client may not describe come last.

    Versions: 3 adds the replica id; 4 changes only the encoding.
    """
    return OffsetForLeaderEpochResponse(topics=streamed(_topics(request, led_logs, authorizer)))


def _topics(
    request: "Request", led_logs: "LedLogs", authorizer: "Authorizer"
) -> Iterator[OffsetForLeaderTopicResult]:
    body: OffsetForLeaderEpochRequest = request.body
    is_broker = allows_on_cluster(authorizer, request, AclOperation.CLUSTER_ACTION)
    denied: list[OffsetForLeaderTopic] = []
    for topic in body.topics:
        name = topic.topic
        if not is_broker and denies(authorizer, request, AclOperation.DESCRIBE, AclResourceType.TOPIC, name):
            denied.append(topic)
            continue
        yield OffsetForLeaderTopicResult(
            topic=name, partitions=streamed(_ends(led_logs, name, topic.partitions))
        )
    for topic in denied:
        yield OffsetForLeaderTopicResult(topic=topic.topic, partitions=streamed(_refused(topic)))


def _refused(topic: OffsetForLeaderTopic) -> Iterator[EpochEndOffset]:
    for each in topic.partitions:
        yield EpochEndOffset(partition=each.partition, error_code=Errors.TOPIC_AUTHORIZATION_FAILED.code)


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
