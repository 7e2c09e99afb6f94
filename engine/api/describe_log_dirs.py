"""Handles DescribeLogDirs: returns log directories and the size of each partition in them (KIP-113)."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from bowstring.engine.storage.log_directory import LogDirectory
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from bowstring._native.log.partition_log import PartitionLog
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.storage.disk_reads import DiskReads
    from bowstring.engine.storage.log_directories import LogDirectories
    from bowstring.engine.storage.log_manager import LogManager
    from bowstring.engine.storage.replica_moves import ReplicaMoves

_Topics = dict[str, list[DescribeLogDirsPartition]]


async def handle(
    request: "Request",
    *,
    directories: "LogDirectories",
    logs: "LogManager",
    moves: "ReplicaMoves",
    time_slices: "TimeSlices",
    disk_reads: "DiskReads",
) -> DescribeLogDirsResponse:
    """Describes this broker's directories and the moves between them.

    Behaviour: null topics request every partition; unknown partitions are left out. A failed directory is
    described only by KAFKA_STORAGE_ERROR. The lag of a future replica is how far its end is behind the log's.

    Versions: 3 adds a top-level error; 4 size and free space of the volume (KIP-827); 5 whether the directory
    is cordoned (KIP-1066).
    """
    wanted = await _wanted(logs, time_slices, request.body)

    def is_wanted(topic: str, index: int) -> bool:
        return wanted is None or index in wanted.get(topic, ())

    found: dict[LogDirectory, _Topics] = {directory: {} for directory in directories}
    async for topic, index, log in time_slices.each(logs if wanted is None else _held(logs, wanted)):
        lag = max(log.high_watermark - log.log_end_offset, 0)
        _add(found[directories.of(log)], topic, index, log.size_bytes, lag, is_future=False)
    for move in moves:
        source = logs.get(move.topic.name, move.index)
        if source is not None and source is not move.log and is_wanted(move.topic.name, move.index):
            # A move that waits for its turn has no copy yet.
            end, size_bytes = (
                (move.log.log_end_offset, move.log.size_bytes) if move.log is not None else (0, 0)
            )
            lag = source.log_end_offset - end
            _add(found[move.directory], move.topic.name, move.index, size_bytes, lag, is_future=True)
    volumes = await disk_reads.run(_volumes, list(found))
    return DescribeLogDirsResponse(
        results=[
            _describe(logs, directory, topics, volumes[directory]) for directory, topics in found.items()
        ]
    )


def _held(logs: "LogManager", wanted: dict[str, set[int]]) -> Iterator[tuple[str, int, "PartitionLog"]]:
    """Yields those of the wanted partitions that this broker has, without a look at the others."""
    for topic, indexes in wanted.items():
        for index in sorted(indexes):
            log = logs.get(topic, index)
            if log is not None:
                yield topic, index, log


async def _wanted(
    logs: "LogManager", time_slices: "TimeSlices", body: DescribeLogDirsRequest
) -> dict[str, set[int]] | None:
    """Returns the requested partitions that may exist; None for all."""
    if body.topics is None:
        return None
    wanted: dict[str, set[int]] = {}
    async for topic in time_slices.each(body.topics):
        count = len(logs.of_topic(topic.topic))
        if count == 0:
            continue
        indexes = wanted.setdefault(topic.topic, set())
        async for index in time_slices.each(topic.partitions):
            if 0 <= index < count:
                indexes.add(index)
    return wanted


def _volumes(directories: list[LogDirectory]) -> dict[LogDirectory, os.statvfs_result | None]:
    """Returns size and usage of the volumes of directories, None if unknown. May wait for the disk."""
    found: dict[LogDirectory, os.statvfs_result | None] = {}
    for directory in directories:
        try:
            found[directory] = None if directory.health.failed else os.statvfs(directory.path)
        except OSError:
            found[directory] = None
    return found


def _add(topics: _Topics, topic: str, index: int, size_bytes: int, lag: int, *, is_future: bool) -> None:
    entry = DescribeLogDirsPartition(
        partition_index=index, partition_size=size_bytes, offset_lag=lag, is_future_key=is_future
    )
    topics.setdefault(topic, []).append(entry)


def _describe(
    logs: "LogManager", directory: LogDirectory, topics: _Topics, volume: os.statvfs_result | None
) -> DescribeLogDirsResult:
    if volume is None:
        return DescribeLogDirsResult(log_dir=str(directory.path), error_code=Errors.KAFKA_STORAGE_ERROR.code)
    return DescribeLogDirsResult(
        log_dir=str(directory.path),
        topics=[DescribeLogDirsTopic(name=name, partitions=entries) for name, entries in topics.items()],
        total_bytes=volume.f_frsize * volume.f_blocks,
        usable_bytes=volume.f_frsize * volume.f_bavail,
        is_cordoned=logs.is_cordoned(directory),
    )
