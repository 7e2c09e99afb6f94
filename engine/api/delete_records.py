"""Handles DeleteRecords: moves the log start offset of partitions forward (KIP-107)."""

import asyncio
from typing import TYPE_CHECKING, Final

from bowstring._native.log.partition_log import LogError
from bowstring.engine import event_log
from bowstring.engine.api.denials import denied_among, names_of
from bowstring.engine.metadata.names import is_internal
from bowstring.engine.storage.checkpoints import LOG_START_OFFSETS
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.led_logs import LedLogs, LedReplicas
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer
    from bowstring.engine.storage.log_manager import LogManager

_HIGH_WATERMARK: Final = -1
_NO_LOW_WATERMARK: Final = -1
_LOOK_S: Final = 0.01


async def handle(
    request: "Request",
    *,
    configs: "BrokerConfigs",
    metadata: "Metadata",
    logs: "LogManager",
    replication: "LedReplicas",
    time_slices: "TimeSlices",
    led_logs: "LedLogs",
    authorizer: "Authorizer",
) -> DeleteRecordsResponse:
    """Deletes the records before an offset.

    Behaviour: offset -1 means the high watermark. An offset beyond it is OFFSET_OUT_OF_RANGE, and one before
    the log start has no effect. Internal topics and topics that are only compacted are refused. The answer
    comes when all replicas that are alive have deleted the records, and has the smallest log start offset of
    them; REQUEST_TIMED_OUT when they have not within the request's timeout, and NOT_LEADER_OR_FOLLOWER when
    another broker leads before they have: it may keep the records. In commit mode the leader's log start is
    on the medium before the answer.

    Versions: 1 and 2 change only the encoding.
    """
    body: DeleteRecordsRequest = request.body
    denied = await denied_among(
        authorizer,
        request,
        AclOperation.DELETE,
        AclResourceType.TOPIC,
        names_of(metadata.image, body.topics, by_id=False),
        time_slices=time_slices,
    )
    results: list[tuple[str, list[DeleteRecordsPartitionResult]]] = []
    async for topic in time_slices.each(body.topics):
        results.append((topic.name, []))
        async for partition in time_slices.each(topic.partitions):
            if topic.name in denied:
                result = DeleteRecordsPartitionResult(partition_index=partition.partition_index)
                _refuse(result, Errors.TOPIC_AUTHORIZATION_FAILED)
            else:
                result = _result(configs, metadata, led_logs, topic.name, partition)
            results[-1][1].append(result)
    await _sync_starts(logs, results)
    await _await_replicas(time_slices, led_logs, replication, results, body.timeout_ms)
    return DeleteRecordsResponse(
        topics=[DeleteRecordsTopicResult(name=name, partitions=partitions) for name, partitions in results]
    )


def _result(
    configs: "BrokerConfigs",
    metadata: "Metadata",
    led_logs: "LedLogs",
    topic: str,
    partition: DeleteRecordsPartition,
) -> DeleteRecordsPartitionResult:
    index = partition.partition_index
    result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=_NO_LOW_WATERMARK)
    try:
        result.low_watermark = _delete(
            topic, index, partition.offset, configs=configs, metadata=metadata, led_logs=led_logs
        )
    except KafkaError as error:
        result.error_code = error.code
    return result


async def _sync_starts(
    logs: "LogManager", results: list[tuple[str, list[DeleteRecordsPartitionResult]]]
) -> None:
    """Writes the checkpoint of log starts, on another thread, if records of logs in commit mode were
    deleted.
    """
    deleted = [
        (each, log)
        for name, partitions in results
        for each in partitions
        if not each.error_code
        and (log := logs.get(name, each.partition_index)) is not None
        and log.in_commit_mode
    ]
    if not deleted:
        return
    written = logs.checkpoint(LOG_START_OFFSETS)
    try:
        await asyncio.get_running_loop().run_in_executor(None, written)
        is_written = True
    except OSError as error:
        is_written = False
        event_log.error(
            "the log starts cannot be written, so DeleteRecords is refused; free space on the disk, then "
            "try again",
            detail=str(error),
        )
    for each, log in deleted:
        if log.failed or not is_written:
            _refuse(each, Errors.KAFKA_STORAGE_ERROR)


async def _await_replicas(
    time_slices: "TimeSlices",
    led_logs: "LedLogs",
    replicas: "LedReplicas",
    results: list[tuple[str, list[DeleteRecordsPartitionResult]]],
    timeout_ms: int,
) -> None:
    """Waits until followers have deleted the records, too."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_ms / 1000
    waiting = [(name, each) for name, partitions in results for each in partitions if not each.error_code]
    while True:
        left = []
        async for name, each in time_slices.each(waiting):
            if not _is_over(led_logs, replicas, name, each):
                left.append((name, each))
        waiting = left
        if not waiting:
            return
        if loop.time() >= deadline_s:
            break
        await asyncio.sleep(_LOOK_S)  # a follower learns the log start with its next fetch
    async for _, each in time_slices.each(waiting):
        _refuse(each, Errors.REQUEST_TIMED_OUT)


def _is_over(
    led_logs: "LedLogs", replicas: "LedReplicas", topic: str, each: DeleteRecordsPartitionResult
) -> bool:
    """Whether all replicas have deleted the records, or this broker can no longer find out."""
    try:
        led_logs.of(topic, each.partition_index)
    except KafkaError as error:
        _refuse(each, error.error)
        return True
    low_watermark = replicas.low_watermark(topic, each.partition_index)
    if low_watermark is None:
        _refuse(each, Errors.NOT_LEADER_OR_FOLLOWER)
        return True
    return low_watermark >= each.low_watermark


def _refuse(each: DeleteRecordsPartitionResult, error: Error) -> None:
    each.error_code = error.code
    each.low_watermark = _NO_LOW_WATERMARK


def _delete(
    topic: str,
    partition: int,
    offset: int,
    *,
    configs: "BrokerConfigs",
    metadata: "Metadata",
    led_logs: "LedLogs",
) -> int:
    log = led_logs.of(topic, partition)
    if is_internal(topic):
        raise KafkaError(Errors.INVALID_TOPIC_EXCEPTION)
    overrides = metadata.image.topic_configs(topic)
    policies = configs.topic_value("cleanup.policy", overrides)
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
