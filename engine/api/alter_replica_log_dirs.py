"""Handles AlterReplicaLogDirs: moves partitions between this broker's log directories (KIP-113)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bowstring.engine.api.partition_answers import Answers
from bowstring.engine.requests.time_slices import streamed
from bowstring.engine.storage.log_directory import NAME_BYTES_MAX, LogDirectory, future_directory
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.ids import ZERO_UUID
from bowstring.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.storage.log_directories import LogDirectories
    from bowstring.engine.storage.log_manager import LogManager
    from bowstring.engine.storage.replica_moves import ReplicaMoves


async def handle(
    request: "Request",
    *,
    directories: "LogDirectories",
    metadata: "Metadata",
    logs: "LogManager",
    moves: "ReplicaMoves",
    time_slices: "TimeSlices",
) -> AlterReplicaLogDirsResponse:
    """Starts moves, which continue after the answer; DescribeLogDirs shows them as future replicas.

    Behaviour: a partition that is already in the directory needs no move. A partition that is moving
    elsewhere changes its target. For a partition that does not exist here, the broker stores the directory
    for its creation and answers REPLICA_NOT_AVAILABLE. It does so for the last 100,000 partitions.

    Versions: 2 is flexible.
    """
    body: AlterReplicaLogDirsRequest = request.body
    answers = Answers()
    async for directory in time_slices.each(body.dirs):
        async for topic in time_slices.each(directory.topics):
            async for index in time_slices.each(topic.partitions):
                error = await _move(
                    directory.path,
                    topic.name,
                    index,
                    directories=directories,
                    metadata=metadata,
                    logs=logs,
                    moves=moves,
                )
                answers.add(topic.name, ZERO_UUID, index, error.code)
    return AlterReplicaLogDirsResponse(results=streamed(answers.topics(_answer)))


def _answer(
    name: str, topic_id: bytes, partitions: Iterator[tuple[int, int]]
) -> AlterReplicaLogDirTopicResult:
    return AlterReplicaLogDirTopicResult(
        topic_name=name,
        partitions=streamed(
            AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
            for index, code in partitions
        ),
    )


async def _move(
    path: str,
    topic: str,
    index: int,
    *,
    directories: "LogDirectories",
    metadata: "Metadata",
    logs: "LogManager",
    moves: "ReplicaMoves",
) -> Error:
    directory = directories.by_path(path)
    error = _refusal(logs, directory, topic, index)
    if error is not Errors.NONE or directory is None:
        return error
    image = metadata.image.topics.get(topic)
    if image is None or logs.get(topic, index) is None:
        directories.prefer(topic, index, directory)
        return Errors.REPLICA_NOT_AVAILABLE
    if not directories.all_online and moves.get(topic, index) is None:
        # As in Kafka: an offline directory may hold a copy that cannot be seen.
        return Errors.KAFKA_STORAGE_ERROR
    await moves.start(image, index, directory)
    return Errors.NONE


def _refusal(logs: "LogManager", directory: LogDirectory | None, topic: str, index: int) -> Error:
    if len(future_directory(topic, index).encode()) > NAME_BYTES_MAX:
        return Errors.INVALID_TOPIC_EXCEPTION
    if directory is None:
        return Errors.LOG_DIR_NOT_FOUND
    if directory.health.failed or logs.is_offline(topic, index):
        return Errors.KAFKA_STORAGE_ERROR
    return Errors.INVALID_REPLICA_ASSIGNMENT if logs.is_cordoned(directory) else Errors.NONE
