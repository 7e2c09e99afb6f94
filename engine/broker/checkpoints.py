"""Small files of a data directory that are replaced whole: offset checkpoints and the like.

An offset checkpoint is text: a version line (0), a line with the number of entries, and one line
``topic partition offset`` for each, as Kafka writes them.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from bowstring.engine.broker import log_lines

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"

# What it means to go on without one.
_WITHOUT: Final = {
    RECOVERY_POINTS: "after an unclean stop, all records are read and checked",
    LOG_START_OFFSETS: "records deleted by DeleteRecords may be back, as far as their segments are there",
}

PartitionKey = tuple[str, int]


class CheckpointError(Exception):
    """A checkpoint file that is not as Kafka writes them; the message names the file and the line."""


def replace_file(path: Path, content: str) -> None:
    """Puts `content` at `path` so that a crash leaves the old file or the new one, never a part."""
    write_whole(path, [content.encode()], ".tmp")


def write_whole(path: Path, parts: Iterable[bytes], unfinished: str) -> int:
    """Writes a file that is complete and on the medium when its name appears.

    Args:
        unfinished: what is behind the name until then.

    Returns:
        its size in bytes.

    Raises:
        OSError: it could not be written; what was at `path` before is still there.
    """
    temporary = f"{path}{unfinished}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
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
    """Makes the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_file_system(path: str | Path) -> None:
    """Makes everything written to the file system of `path` durable, with one call (syncfs).

    Raises:
        OSError: The kernel could not write something, perhaps of another program.
    """
    import ctypes  # a third of the time of a start, for something that only a stop needs

    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(fd) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(path))
    finally:
        os.close(fd)


def write_offsets(
    path: Path, offsets: Mapping[PartitionKey, int] | Iterable[tuple[PartitionKey, int]]
) -> None:
    """Writes an offset checkpoint."""
    entries = offsets.items() if isinstance(offsets, Mapping) else offsets
    lines = [f"{topic} {partition} {offset}\n" for (topic, partition), offset in entries]
    replace_file(path, f"0\n{len(lines)}\n{''.join(lines)}")


def read_offsets(path: Path) -> dict[PartitionKey, int]:
    """The entries of an offset checkpoint; none, with a warning in the log, when the file is damaged.

    The broker can do without: what a checkpoint spares is then done for every partition, and the file is
    written anew. Kafka does the same.
    """
    try:
        return checked_offsets(path)
    except CheckpointError as error:
        log_lines.warning(
            "a checkpoint file is damaged and left out of account; it will be written anew",
            detail=str(error),
            consequence=_WITHOUT.get(path.name, "its offsets are taken to be those of the logs"),
        )
        return {}


def checked_offsets(path: Path) -> dict[PartitionKey, int]:
    """The entries of an offset checkpoint; none when there is no such file.

    Raises:
        CheckpointError: The file is malformed.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        raise CheckpointError(f"{path}:1: expected text, found other bytes") from None
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
        raise CheckpointError(f"{path}:2: says {lines[1].strip()} entries, has {len(offsets)}")
    return offsets
