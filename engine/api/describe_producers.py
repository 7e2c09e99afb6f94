"""Handles DescribeProducers: lists the producers with state in a partition (KIP-664)."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from bowstring.engine.api.denials import denies
from bowstring.engine.metadata.topic_changes import check_topic_name
from bowstring.engine.requests.time_slices import streamed
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Errors, KafkaError
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
    from bowstring.engine.security.authorizer import Authorizer


async def handle(
    request: "Request", *, led_logs: "LedLogs", authorizer: "Authorizer"
) -> DescribeProducersResponse:
    """Lists producers by id, with epoch, last sequence and time, and the start of an open transaction.

    Behaviour: leaders and followers answer, each for its own log. An invalid topic, one that the client may
    not read, and an unknown one are errors of each of its partitions, in this order.

    Versions: only 0 exists.
    """
    body: DescribeProducersRequest = request.body

    def partitions(topic: str, indexes: Iterable[int]) -> Iterator[PartitionResponse]:
        try:
            check_topic_name(topic)
            if denies(authorizer, request, AclOperation.READ, AclResourceType.TOPIC, topic):
                raise KafkaError(Errors.TOPIC_AUTHORIZATION_FAILED)
            error = None
        except KafkaError as refused:
            error = refused
        for index in indexes:
            yield _producers(led_logs, topic, index, error)

    return DescribeProducersResponse(
        topics=streamed(
            TopicResponse(
                name=topic.name, partitions=streamed(partitions(topic.name, topic.partition_indexes))
            )
            for topic in body.topics
        )
    )


def _producers(led_logs: "LedLogs", topic: str, index: int, refused: KafkaError | None) -> PartitionResponse:
    try:
        if refused is not None:
            raise refused
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
