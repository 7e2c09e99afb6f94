"""A write-ahead log with joined partition logs, and crashes of both."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bowstring._native.log.durability import durable_to, join
from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.log.wal_replay import replay, survey
from bowstring._native.wal.write_ahead_log import WriteAheadLog
from bowstring.engine.storage.directory_wal import liburing_path
from tests.support.log_batches import NOW_MS, batch, headers, open_log

SEGMENT_BYTES = 4 << 20
BLOCK = 4096
TOPIC_ID = bytes(range(16))


def wal_on(directory: Path, *, io="pwrite", segments=2, **settings) -> WriteAheadLog:
    """Creates a write-ahead log that commits only on request."""
    last_frame = settings.pop("last_frame", None) or survey(directory)
    wal = WriteAheadLog(
        directory,
        last_frame=last_frame,
        segment_bytes=SEGMENT_BYTES,
        io=io,
        liburing=liburing_path(),
        **settings,
    )
    for number in range(segments):
        wal.add_segment(number)
    return wal


@contextmanager
def joined(
    directory: Path, wal: WriteAheadLog, partitions: int = 1, **config
) -> Iterator[list[PartitionLog]]:
    """Yields partition logs in `directory`, joined to `wal` inside the block."""
    logs = []
    for partition in range(partitions):
        path = directory / f"t-{partition}"
        path.mkdir(exist_ok=True)
        log = open_log(path, **config)
        join(log, wal, TOPIC_ID, partition)
        logs.append(log)
    try:
        yield logs
    finally:
        for partition, log in enumerate(logs):
            join(log, None, TOPIC_ID, partition)
        wal.stop()


def append(log: PartitionLog, n: int = 1, size: int = 100, **fields) -> None:
    """Appends `n` batches, each of one value that names its position in the log."""
    for _ in range(n):
        log.append(batch([b"%d" % log.log_end_offset + bytes(size)], **fields), 0, NOW_MS)


def crash(
    directory: Path, to: Path, *, keep_bytes: int | None = None, partitions: int = 1, compacted: int = 0
) -> list[PartitionLog]:
    """Simulates a power failure that keeps `keep_bytes` of each active segment; returns the recovered logs."""
    shutil.copytree(directory, to)
    logs = []
    for partition in range(partitions):
        path = to / f"t-{partition}"
        newest = max(path.glob("*.log"))
        if keep_bytes is not None:
            with open(newest, "r+b") as file:
                file.truncate(keep_bytes)
        logs.append(open_log(path, clean=False, compacted=compacted))
    return logs


def put_back(directory: Path, logs: list[PartitionLog]):
    by_id = {(TOPIC_ID, partition): log for partition, log in enumerate(logs)}
    return replay([directory], by_id)[directory]


def contents(log: PartitionLog) -> bytes:
    """Returns every batch of a log, byte for byte."""
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20, "log_end")
        found.append(data)
        offset = headers(data)[-1].last_offset + 1
    return b"".join(found)


__all__ = [
    "BLOCK",
    "SEGMENT_BYTES",
    "TOPIC_ID",
    "append",
    "contents",
    "crash",
    "durable_to",
    "joined",
    "put_back",
    "wal_on",
]
