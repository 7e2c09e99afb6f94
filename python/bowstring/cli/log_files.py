"""Reads the files of a partition's directory, one entry at a time.

Layouts: Kafka's OffsetIndex, TimeIndex, TransactionIndex, ProducerStateManager and checkpoint files.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bowstring._native.base.crc import crc32c
from bowstring._native.record.decode import batch_headers
from bowstring._native.record.types import BatchHeader, CorruptBatch
from bowstring.protocol.whole_numbers import LONG_MAX, whole_number

_BATCH_LENGTH = struct.Struct(">8xi")
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_TRANSACTION_ENTRY = struct.Struct(">hqqqq")
_SNAPSHOT_HEAD = struct.Struct(">hIi")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_SNAPSHOT_CRC_END = 6
_SNAPSHOT_VERSIONS = (1,)
LENGTH_PREFIX_BYTES = 12


class LogFileError(Exception):
    """A file does not have the format that its name implies; the message names it and the defect."""


class OffsetEntry(NamedTuple):
    """The batch with the last offset `offset` begins at byte `position`."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """`timestamp` (ms) is the largest up to `offset`."""

    timestamp: int
    offset: int


class AbortedTransaction(NamedTuple):
    """An entry of a transaction index."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducerSnapshot(NamedTuple):
    """State of a producer in a snapshot; offsets are -1 for none."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


@contextmanager
def mapped(path: Path) -> Iterator[memoryview]:
    """Maps a file; returns empty bytes for an empty file, which cannot be mapped."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            yield memoryview(b"")
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as map_, memoryview(map_) as view:
            yield view


def base_offset(path: Path) -> int:
    """Returns the offset in a segment file's name.

    Raises:
        LogFileError: the name is not an offset.
    """
    name = path.name.split(".")[0].split("-")[0]
    offset = whole_number(name, LONG_MAX)
    if offset is None:
        raise LogFileError(f"the name of {path} is not an offset, such as 00000000000000000000{path.suffix}")
    return offset


def batch_at(data: memoryview, position: int) -> BatchHeader | None:
    """Returns the header of the batch at `position`; None when there is no complete batch."""
    if len(data) - position < LENGTH_PREFIX_BYTES:
        return None
    size = _BATCH_LENGTH.unpack_from(data, position)[0] + LENGTH_PREFIX_BYTES
    if size <= LENGTH_PREFIX_BYTES or position + size > len(data):
        return None
    with data[position : position + size] as one:
        try:
            found = batch_headers(one)
        except CorruptBatch:
            return None
    return found[0]._replace(position=position) if found else None


def batches(data: memoryview, max_bytes: int | None = None) -> Iterator[BatchHeader]:
    """Yields headers of the batches in a segment, in order, up to the first byte that is not a batch."""
    position, end = 0, len(data) if max_bytes is None else min(len(data), max_bytes)
    while position < end:
        header = batch_at(data, position)
        if header is None or position + header.size_bytes > end:
            return
        yield header
        position += header.size_bytes


def offset_entries(data: memoryview, base: int) -> Iterator[OffsetEntry]:
    """Yields entries of an offset index; the file is preallocated, so zeros after the first entry end it."""
    for index in range(len(data) // _OFFSET_ENTRY.size):
        relative, position = _OFFSET_ENTRY.unpack_from(data, index * _OFFSET_ENTRY.size)
        if relative == 0 and index > 0:
            return
        yield OffsetEntry(base + relative, position)


def time_entries(data: memoryview, base: int) -> Iterator[TimeEntry]:
    """Yields entries of a time index; zeros after the first entry end it."""
    for index in range(len(data) // _TIME_ENTRY.size):
        timestamp, relative = _TIME_ENTRY.unpack_from(data, index * _TIME_ENTRY.size)
        if relative == 0 and index > 0:
            return
        yield TimeEntry(timestamp, base + relative)


def check_index(path: Path, data: memoryview, kind: str) -> None:
    """Checks the first and last entry of an index, as Kafka does before it uses it.

    The index of a segment that was not closed cleanly ends in zeros, and its time index fails the check.

    Raises:
        LogFileError: the broker would rebuild the index.
    """
    entry = _OFFSET_ENTRY if kind == "offset" else _TIME_ENTRY
    if len(data) % entry.size:
        raise LogFileError(f"{path}: {len(data)} bytes are not a multiple of the {entry.size}-byte entries")
    if not data:
        return
    first, last = entry.unpack_from(data), entry.unpack_from(data, len(data) - entry.size)
    relative = last[0] if kind == "offset" else last[1]
    if relative < 0:
        raise LogFileError(f"{path}: the last offset is {-relative} below the base offset")
    if kind == "time" and last[0] < first[0]:
        raise LogFileError(f"{path}: the last timestamp {last[0]} is less than the first, {first[0]}")


def transaction_entries(data: memoryview) -> Iterator[AbortedTransaction]:
    """Yields entries of a transaction index."""
    for index in range(len(data) // _TRANSACTION_ENTRY.size):
        yield AbortedTransaction(*_TRANSACTION_ENTRY.unpack_from(data, index * _TRANSACTION_ENTRY.size))


def snapshot_entries(path: Path, data: memoryview) -> list[ProducerSnapshot]:
    """Yields producers of a snapshot file.

    Raises:
        LogFileError: the file is truncated, has an unknown version, or fails its CRC-32C.
    """
    if len(data) < _SNAPSHOT_HEAD.size:
        raise LogFileError(f"{path}: {len(data)} bytes are too few for a producer snapshot")
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    if version not in _SNAPSHOT_VERSIONS:
        raise LogFileError(f"{path}: version {version} of producer snapshots is unknown")
    with data[_SNAPSHOT_CRC_END:] as rest:
        if crc32c(rest) != crc:
            raise LogFileError(f"{path}: the snapshot is corrupt, its CRC-32C does not match")
    if _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size != len(data) or count < 0:
        raise LogFileError(f"{path}: {count} producers do not fit {len(data)} bytes")
    at = _SNAPSHOT_HEAD.size
    return [
        ProducerSnapshot(*_SNAPSHOT_ENTRY.unpack_from(data, at + i * _SNAPSHOT_ENTRY.size))
        for i in range(count)
    ]


def checkpoint_entries(path: Path) -> list[list[str]]:
    """Returns the fields of each line of a text checkpoint (leader epochs, recovery points, log start
    offsets).

    Raises:
        LogFileError: the version is unknown, or the number of lines is wrong.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    number = whole_number(lines[1].strip()) if len(lines) > 1 else None
    if len(lines) < 2 or lines[0].strip() != "0" or number is None:
        raise LogFileError(f"{path}: a checkpoint must begin with version 0 and the number of its entries")
    entries = [line.split() for line in lines[2:] if line.strip()]
    if len(entries) != number:
        raise LogFileError(f"{path}: has {len(entries)} entries, but its second line says {lines[1].strip()}")
    return entries
