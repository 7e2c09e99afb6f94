"""Verifies the directory of a stopped broker: every batch, and the small files that a start needs.

Does what the scrubber does for a running broker. Writes nothing.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bowstring._native.base.crc import crc32c
from bowstring._native.log.verify import verify_file
from bowstring.engine.storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CheckpointError,
    checked_offsets,
)
from bowstring.engine.storage.log_directory import (
    META_PROPERTIES,
    METADATA_PARTITION_DIRECTORY,
)
from bowstring.protocol.whole_numbers import whole_number

CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
_PIECE_BYTES: Final = 64 << 20
_ENTRY_BYTES: Final = {".index": 8, ".timeindex": 12, ".txnindex": 34}


@dataclass(frozen=True)
class BadPlace:
    """One defect.

    Attributes:
        file: Path of the file.
        what: The problem.
        position: First byte concerned; -1 for the whole file.
        size_bytes: Bytes concerned; 0 when unknown.
        first_offset: First record offset concerned; -1 for none.
        end_offset: Offset at which the log continues; -1 when it does not, or when that is unknown.
        rebuilt: The broker repairs it by itself at start or when it needs the file.
    """

    file: str
    what: str
    position: int = -1
    size_bytes: int = 0
    first_offset: int = -1
    end_offset: int = -1
    rebuilt: bool = False


@dataclass
class ScrubResult:
    """Progress and findings of a scrub."""

    partitions: int = 0
    segments: int = 0
    size_bytes: int = 0
    batches: int = 0
    records: int = 0
    bad: list[BadPlace] = field(default_factory=list)


def partitions_of(path: Path) -> list[Path]:
    """Returns the partition directories of a data directory; `path` itself when it is one."""
    found = [
        Path(entry.path)
        for entry in os.scandir(path)
        if entry.is_dir() and whole_number(entry.name.rpartition("-")[2]) is not None
    ]
    if not found and any(path.glob("[0-9]*.log")):
        return [path]
    return sorted(found)


def size_of(partitions: Iterable[Path]) -> int:
    """Number of bytes that a scrub of these partitions reads."""
    return sum(file.stat().st_size for each in partitions for file in each.glob("[0-9]*.log"))


def scrub_directory(
    path: Path, partitions: list[Path], progress: Callable[[int], None] = lambda _: None
) -> ScrubResult:
    """Verifies partitions and the small files of their data directory.

    Args:
        path: The data directory.
        partitions: Its partitions, by `partitions_of`.
        progress: Called with the bytes read since the last call.

    Raises:
        OSError: A directory cannot be listed. Unreadable files are findings, not errors.
    """
    result = ScrubResult()
    compacted = _check_small_files(path, result)
    for each in partitions:
        result.partitions += 1
        _scrub_partition(each, each.name in compacted, result, progress)
    return result


def _check_small_files(path: Path, result: ScrubResult) -> set[str]:
    """Checks the checkpoints; returns the partitions that have been compacted, whose offsets have gaps."""
    compacted: set[str] = set()
    for name in (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS):
        try:
            offsets = checked_offsets(path / name)
        except (CheckpointError, OSError) as error:
            result.bad.append(BadPlace(str(path / name), str(error), rebuilt=True))
            continue
        if name == CLEANER_OFFSETS:
            compacted = {f"{topic}-{partition}" for topic, partition in offsets}
    holds_partitions = any(
        whole_number(entry.name.rpartition("-")[2]) is not None for entry in os.scandir(path)
    )
    if holds_partitions and not (path / META_PROPERTIES).exists():
        result.bad.append(BadPlace(str(path / META_PROPERTIES), "the file is missing"))
    return compacted


def _scrub_partition(
    directory: Path, compacted: bool, result: ScrubResult, progress: Callable[[int], None]
) -> None:
    end_offset: int | None = None
    paths = sorted(directory.glob("[0-9]*.log"))
    for path in paths:
        base_offset = int(path.stem)
        if end_offset is not None and end_offset < base_offset and not compacted:
            result.bad.append(
                BadPlace(
                    str(path),
                    "a segment is missing before this one",
                    first_offset=end_offset,
                    end_offset=base_offset,
                )
            )
        end_offset = _scrub_segment(path, base_offset, result, progress)
        if directory.name != METADATA_PARTITION_DIRECTORY:
            _check_indexes(path, result, is_newest=path == paths[-1])
    for path in sorted(directory.glob("[0-9]*.snapshot")):
        _check_snapshot(path, result)


def _scrub_segment(
    path: Path, base_offset: int, result: ScrubResult, progress: Callable[[int], None]
) -> int | None:
    """Verifies one segment; returns the offset after its last batch, or None when the file cannot be read."""
    position, next_offset, done = 0, base_offset, False
    result.segments += 1
    while not done:
        try:
            piece = verify_file(
                path, base_offset, position=position, next_offset=next_offset, max_bytes=_PIECE_BYTES
            )
        except OSError as error:
            result.bad.append(BadPlace(str(path), f"it cannot be read: {error.strerror}"))
            return None
        progress(piece["position"] - position)
        result.size_bytes += piece["position"] - position
        result.batches += piece["batches"]
        result.records += piece["records"]
        result.bad += [BadPlace(str(path), **damage) for damage in piece["damage"]]
        position, next_offset, done = piece["position"], piece["next_offset"], piece["done"]
    return next_offset


def _check_indexes(path: Path, result: ScrubResult, *, is_newest: bool) -> None:
    """After a crash the newest segment has no index files yet: they come with their first entries."""
    for suffix, entry_bytes in _ENTRY_BYTES.items():
        index = path.with_suffix(suffix)
        try:
            size = index.stat().st_size
        except FileNotFoundError:
            if suffix != ".txnindex" and not is_newest:
                result.bad.append(BadPlace(str(index), "the file is missing", rebuilt=True))
            continue
        if size % entry_bytes:
            what = f"size {size} bytes is not a multiple of the {entry_bytes} bytes of an entry"
            result.bad.append(BadPlace(str(index), what, rebuilt=True))


def _check_snapshot(path: Path, result: ScrubResult) -> None:
    data = path.read_bytes()
    if len(data) < 10 or int.from_bytes(data[2:6], "big") != crc32c(data[6:]):
        result.bad.append(BadPlace(str(path), "the CRC does not match", rebuilt=True))
