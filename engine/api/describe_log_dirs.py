"""DescribeLogDirs: log directories, and the size of each partition in them (KIP-113)."""

import os
from typing import TYPE_CHECKING

from bowstring.engine.broker.data_directory import DataDirectory
from bowstring.engine.errors import Errors
from bowstring.engine.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request

_Topics = dict[str, list[DescribeLogDirsPartition]]


async def handle(broker: "Broker", request: "Request") -> DescribeLogDirsResponse:
    """Describes this broker's directories, and what is on its way from one to another.

    Behaviour: null topics ask for every partition; partitions that are not here are left out. Of a directory
    that has failed only KAFKA_STORAGE_ERROR is told. A copy's lag is how far its end is behind the log's.

    Versions: 3 adds a top-level error; 4 the size of the volume and what is free of it (KIP-827); 5 whether
    the directory is cordoned (KIP-1066).
    """
    body: DescribeLogDirsRequest = request.body
    wanted = None if body.topics is None else {topic.topic: set(topic.partitions) for topic in body.topics}

    def is_wanted(topic: str, index: int) -> bool:
        return wanted is None or index in wanted.get(topic, ())

    found: dict[DataDirectory, _Topics] = {directory: {} for directory in broker.directories}
    for topic, index, log in broker.logs:
        if is_wanted(topic, index):
            lag = max(log.high_watermark - log.log_end_offset, 0)
            _add(found[broker.directories.of(log)], topic, index, log.size_bytes, lag, is_future=False)
    for move in broker.moves:
        source = broker.logs.get(move.topic.name, move.index)
        if source is not None and source is not move.log and is_wanted(move.topic.name, move.index):
            # One that waits for its turn has nothing yet.
            end, size_bytes = (
                (move.log.log_end_offset, move.log.size_bytes) if move.log is not None else (0, 0)
            )
            lag = source.log_end_offset - end
            _add(found[move.directory], move.topic.name, move.index, size_bytes, lag, is_future=True)
    return DescribeLogDirsResponse(
        results=[_describe(broker, directory, topics) for directory, topics in found.items()]
    )


def _add(topics: _Topics, topic: str, index: int, size_bytes: int, lag: int, *, is_future: bool) -> None:
    entry = DescribeLogDirsPartition(
        partition_index=index, partition_size=size_bytes, offset_lag=lag, is_future_key=is_future
    )
    topics.setdefault(topic, []).append(entry)


def _describe(broker: "Broker", directory: DataDirectory, topics: _Topics) -> DescribeLogDirsResult:
    failed = DescribeLogDirsResult(log_dir=str(directory.path), error_code=Errors.KAFKA_STORAGE_ERROR.code)
    if directory.health.failed:
        return failed
    try:
        volume = os.statvfs(directory.path)
    except OSError:
        return failed
    return DescribeLogDirsResult(
        log_dir=str(directory.path),
        topics=[DescribeLogDirsTopic(name=name, partitions=entries) for name, entries in topics.items()],
        total_bytes=volume.f_frsize * volume.f_blocks,
        usable_bytes=volume.f_frsize * volume.f_bavail,
        is_cordoned=broker.logs.is_cordoned(directory),
    )
