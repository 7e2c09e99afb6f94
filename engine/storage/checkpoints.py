"""Reads and writes the small files of a data directory that are replaced as a whole, such as offset
checkpoints.

An offset checkpoint is text in Kafka's form: a version line (0), a line with the number of entries, and
one line ``topic partition offset`` for each entry.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from bowstring.engine import event_log
from bowstring.engine.storage.open_files import open_file, with_reserve

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOST_LOGS: Final = "lost-log-offset-checkpoint"
"""Logs that are created empty in place of lost ones, until that is reported: their recovery points."""

# Consequence of running without each checkpoint.
_WITHOUT: Final = {
    RECOVERY_POINTS: "after an unclean stop, recovery reads and checks all records",
    LOG_START_OFFSETS: "records deleted by DeleteRecords reappear where their segments still exist",
}

PartitionKey = tuple[str, int]


class CheckpointError(Exception):
    """A checkpoint file that does not have Kafka's format; the message names the file and the line."""


def replace_file(path: Path, content: str) -> None:
    """Replaces the content of `path`. A crash leaves either the old file or the new one."""
    write_whole(path, [content.encode()], ".tmp")


def write_whole(path: Path, parts: Iterable[bytes], unfinished: str) -> int:
    """Writes a file under a temporary name, syncs it and renames it to `path`.

    Args:
        unfinished: suffix of the temporary name.

    Returns:
        the file's size in bytes.

    Raises:
        OSError: the file could not be written; the previous content of `path` is unchanged.
    """
    temporary = f"{path}{unfinished}"
    fd = open_file(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    size_bytes = 0
    try:
        for part in parts:
            view = memoryview(part)
            size_bytes += len(view)
            while view:
                view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(temporary, path)
    sync_directory(path.parent)
    return size_bytes


def sync_directory(path: str | Path) -> None:
    """Syncs a directory, so that the names in it are durable."""
    fd = open_file(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_offsets(
    path: Path,
    offsets: Mapping[PartitionKey, int] | Iterable[tuple[PartitionKey, int]],
    *,
    may_be_missing: bool = False,
) -> None:
    """Writes an offset checkpoint.

    Args:
        may_be_missing: Whether no file says the same as one without entries.
    """
    if may_be_missing and not offsets and not path.exists():
        return
    entries = offsets.items() if isinstance(offsets, Mapping) else offsets
    lines = [f"{topic} {partition} {offset}\n" for (topic, partition), offset in entries]
    replace_file(path, f"0\n{len(lines)}\n{''.join(lines)}")


def read_offsets(path: Path) -> dict[PartitionKey, int]:
    """Returns the entries of an offset checkpoint; none, with a warning in the log, when the file is damaged.

    As in Kafka, the broker runs without the file: it does for every partition the work that the checkpoint
    would have saved, and writes the file again.
    """
    try:
        return checked_offsets(path)
    except CheckpointError as error:
        event_log.warning(
            "a checkpoint file is damaged and ignored; the broker writes a new one, no action is needed",
            detail=str(error),
            consequence=_WITHOUT.get(path.name, "offsets are taken from the logs"),
        )
        return {}


def checked_offsets(path: Path) -> dict[PartitionKey, int]:
    """Returns the entries of an offset checkpoint; none when the file does not exist.

    Raises:
        CheckpointError: The file is malformed.
    """
    try:
        lines = with_reserve(lambda: path.read_text(encoding="utf-8")).splitlines()
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        raise CheckpointError(f"{path}:1: expected text, found bytes that are not text") from None
    if len(lines) < 2 or lines[0].strip() != "0":
        raise CheckpointError(f"{path}:1: expected version 0")
    offsets: dict[PartitionKey, int] = {}
    for number, line in enumerate(lines[2:], 3):
        parts = line.split()
        try:
            topic, partition, offset = parts
            offsets[(topic, int(partition))] = int(offset)
            if int(offset) < 0:
                raise ValueError
        except ValueError:
            raise CheckpointError(f"{path}:{number}: expected 'topic partition offset'") from None
    if lines[1].strip() != str(len(offsets)):
        raise CheckpointError(f"{path}:2: says {lines[1].strip()} entries, but the file has {len(offsets)}")
    return offsets
