"""Handles DeleteRecords: moves the log start offset of partitions forward (KIP-107)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from bowstring._native.log.partition_log import LogError
from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.metadata.names import is_internal
from bowstring.engine.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from bowstring.engine.requests.time_slices import streamed

if TYPE_CHECKING:
    from bowstring.engine.requests.broker_services import BrokerServices
    from bowstring.engine.requests.request import Request

_HIGH_WATERMARK: Final = -1
_NO_LOW_WATERMARK: Final = -1


async def handle(broker: "BrokerServices", request: "Request") -> DeleteRecordsResponse:
    """Deletes the records before an offset.

    Behaviour: offset -1 means the high watermark. An offset beyond it is OFFSET_OUT_OF_RANGE, and one before
    the log start has no effect. Internal topics and topics that are only compacted are refused. The answer
    has the new log start offset.

    Versions: 1 and 2 change only the encoding.
    """
    body: DeleteRecordsRequest = request.body
    return DeleteRecordsResponse(
        topics=streamed(
            DeleteRecordsTopicResult(name=topic.name, partitions=streamed(_results(broker, topic)))
            for topic in body.topics
        )
    )


def _results(broker: "BrokerServices", topic: DeleteRecordsTopic) -> Iterator[DeleteRecordsPartitionResult]:
    for partition in topic.partitions:
        index = partition.partition_index
        result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=_NO_LOW_WATERMARK)
        try:
            result.low_watermark = _delete(broker, topic.name, index, partition.offset)
        except KafkaError as error:
            result.error_code = error.code
        yield result


def _delete(broker: "BrokerServices", topic: str, partition: int, offset: int) -> int:
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
