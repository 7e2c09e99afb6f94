"""DeleteRecords: moves the start of partitions forward (KIP-107)."""

from typing import TYPE_CHECKING, Final

from bowstring._native.log import LogError
from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.metadata.names import is_internal
from bowstring.engine.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request

_HIGH_WATERMARK: Final = -1
_NO_LOW_WATERMARK: Final = -1


async def handle(broker: "Broker", request: "Request") -> DeleteRecordsResponse:
    """Deletes what lies before an offset.

    Behaviour: offset -1 means the high watermark; beyond it is OFFSET_OUT_OF_RANGE; before the log start
    nothing happens. Internal topics and those that are only compacted are refused. The answer holds the new
    log start offset.

    Versions: 1 and 2 change nothing but the encoding.
    """
    body: DeleteRecordsRequest = request.body
    topics = []
    for topic in body.topics:
        results = []
        for partition in topic.partitions:
            result = DeleteRecordsPartitionResult(
                partition_index=partition.partition_index, low_watermark=_NO_LOW_WATERMARK
            )
            try:
                result.low_watermark = _delete(
                    broker, topic.name, partition.partition_index, partition.offset
                )
            except KafkaError as error:
                result.error_code = error.code
            results.append(result)
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    return DeleteRecordsResponse(topics=topics)


def _delete(broker: "Broker", topic: str, partition: int, offset: int) -> int:
    log = broker.leader_log(topic, partition)
    if is_internal(topic):
        raise KafkaError(Errors.INVALID_TOPIC_EXCEPTION)
    overrides = broker.metadata.image.topic_configs(topic)
    policies = broker.configs.topic_value("cleanup.policy", overrides)
    if "compact" in policies and "delete" not in policies:
        raise KafkaError(Errors.POLICY_VIOLATION)
    if offset == _HIGH_WATERMARK:
        offset = log.high_watermark
    if not 0 <= offset <= log.high_watermark:
        raise KafkaError(Errors.OFFSET_OUT_OF_RANGE)
    if offset <= log.log_start_offset:
        return int(log.log_start_offset)
    try:
        return int(log.delete_records(offset))
    except LogError as error:
        raise KafkaError(Errors.of(error.code), error.message) from error
