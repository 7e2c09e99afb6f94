"""AlterReplicaLogDirs: moves partitions between this broker's log directories (KIP-113)."""

from typing import TYPE_CHECKING

from bowstring.engine.broker.data_directory import NAME_BYTES_MAX, DataDirectory, future_directory
from bowstring.engine.errors import Error, Errors
from bowstring.engine.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request


async def handle(broker: "Broker", request: "Request") -> AlterReplicaLogDirsResponse:
    """Starts moves, which go on behind the answer; DescribeLogDirs shows them as future replicas.

    Behaviour: a partition that is in the directory already is done; one that is moving elsewhere turns
    round. For a partition that is not here the directory is remembered until it is made, and the answer is
    REPLICA_NOT_AVAILABLE.

    Versions: 2 is flexible.
    """
    body: AlterReplicaLogDirsRequest = request.body
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in body.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                error = await _move(broker, directory.path, topic.name, index)
                result = AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error.code)
                results.setdefault(topic.name, []).append(result)
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in results.items()
        ]
    )


async def _move(broker: "Broker", path: str, topic: str, index: int) -> Error:
    directory = broker.directories.by_path(path)
    error = _refusal(broker, directory, topic, index)
    if error is not Errors.NONE or directory is None:
        return error
    image = broker.metadata.image.topics.get(topic)
    if image is None or broker.logs.get(topic, index) is None:
        broker.directories.preferred[topic, index] = directory
        return Errors.REPLICA_NOT_AVAILABLE
    if not broker.directories.all_online and broker.moves.get(topic, index) is None:
        # As Kafka: with a directory offline there may be a copy that nobody sees.
        return Errors.KAFKA_STORAGE_ERROR
    await broker.moves.start(image, index, directory)
    return Errors.NONE


def _refusal(broker: "Broker", directory: DataDirectory | None, topic: str, index: int) -> Error:
    if len(future_directory(topic, index).encode()) > NAME_BYTES_MAX:
        return Errors.INVALID_TOPIC_EXCEPTION
    if directory is None:
        return Errors.LOG_DIR_NOT_FOUND
    if directory.health.failed or broker.logs.is_offline(topic, index):
        return Errors.KAFKA_STORAGE_ERROR
    return Errors.INVALID_REPLICA_ASSIGNMENT if broker.logs.is_cordoned(directory) else Errors.NONE
