"""Handles DescribeProducers: lists the producers with state in a partition (KIP-664)."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from bowstring.engine.metadata.topic_changes import check_topic_name
from bowstring.engine.requests.time_slices import streamed
from bowstring.protocol.errors import KafkaError
from bowstring.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.requests.led_logs import LedLogs
    from bowstring.engine.requests.request import Request


async def handle(request: "Request", *, led_logs: "LedLogs") -> DescribeProducersResponse:
    """Lists producers by id, with epoch, last sequence and time, and the start of an open transaction.

    Behaviour: leaders and followers answer, each for its own log. An unknown or invalid
    topic is an error of each of its partitions.

    Versions: only 0 exists.
    """
    body: DescribeProducersRequest = request.body
    return DescribeProducersResponse(
        topics=streamed(
            TopicResponse(
                name=topic.name, partitions=streamed(_all(led_logs, topic.name, topic.partition_indexes))
            )
            for topic in body.topics
        )
    )


def _all(led_logs: "LedLogs", topic: str, indexes: Iterable[int]) -> Iterator[PartitionResponse]:
    for index in indexes:
        yield _producers(led_logs, topic, index)


def _producers(led_logs: "LedLogs", topic: str, index: int) -> PartitionResponse:
    try:
        check_topic_name(topic)
        log = led_logs.of(topic, index, or_follower=True)
    except KafkaError as error:
        return PartitionResponse(
            partition_index=index,
            error_code=error.code,
            error_message=error.detail or error.error.message,
        )
    return PartitionResponse(
        partition_index=index,
        active_producers=streamed(
            ProducerState(
                producer_id=producer_id,
                producer_epoch=epoch,
                last_sequence=last_sequence,
                last_timestamp=last_timestamp_ms,
                coordinator_epoch=coordinator_epoch,
                current_txn_start_offset=first_offset,
            )
            for producer_id, epoch, last_sequence, last_timestamp_ms, coordinator_epoch, first_offset in (
                log.active_producers()
            )
        ),
    )
