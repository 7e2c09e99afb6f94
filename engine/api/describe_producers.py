"""DescribeProducers: the producers a partition remembers (KIP-664)."""

from typing import TYPE_CHECKING

from bowstring.engine.errors import KafkaError
from bowstring.engine.metadata.topic_changes import check_topic_name
from bowstring.engine.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request


async def handle(broker: "Broker", request: "Request") -> DescribeProducersResponse:
    """Lists producers by id, with epoch, last sequence and time, and the start of an open transaction.

    Behaviour: an unknown or badly named topic is an error of each of its partitions.

    Versions: 0 is all there is.
    """
    body: DescribeProducersRequest = request.body
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_producers(broker, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in body.topics
        ]
    )


def _producers(broker: "Broker", topic: str, index: int) -> PartitionResponse:
    try:
        check_topic_name(topic)
        log = broker.leader_log(topic, index)
    except KafkaError as error:
        return PartitionResponse(
            partition_index=index,
            error_code=error.code,
            error_message=error.detail or error.error.message,
        )
    return PartitionResponse(
        partition_index=index,
        active_producers=[
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
        ],
    )
