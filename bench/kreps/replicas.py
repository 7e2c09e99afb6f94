"""Compares the replicas of a topic on disk: the same batches, byte for byte, and no record missing."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from io import RawIOBase
from pathlib import Path
from typing import NamedTuple

# Base offset and length of a batch; its length counts from behind both.
_HEAD = struct.Struct(">qi")
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT = 23
_HEADER_BYTES = 61
_PIECE_BYTES = 8 << 20


class ReplicaFacts(NamedTuple):
    """One replica: the offset behind its last record, its bytes, and their CRC-32."""

    end_offset: int
    size_bytes: int
    crc32: int


def replicas_in(data: Path, topic: str) -> dict[int, ReplicaFacts]:
    """Reads the replicas of a topic in a log directory.

    Returns:
        By partition. Space behind the last batch, which a broker reserves, does not count.
    """
    found = {}
    for directory in data.glob(f"{topic}-*"):
        name, _, partition = directory.name.rpartition("-")
        if name == topic and partition.isdigit():
            found[int(partition)] = _replica(directory)
    return found


def difference(found: Mapping[str, Mapping[int, ReplicaFacts]], replication: int, records: int) -> str:
    """Returns what is wrong with the replicas, by broker and partition; "" if nothing is.

    Args:
        replication: Replicas that each partition should have.
        records: The least number of records of all partitions together.
    """
    by_partition: dict[int, dict[str, ReplicaFacts]] = {}
    for broker, replicas in found.items():
        for partition, facts in replicas.items():
            by_partition.setdefault(partition, {})[broker] = facts
    stored = 0
    for partition, facts_of in sorted(by_partition.items()):
        if len(facts_of) != replication:
            return f"partition {partition} has {len(facts_of)} of {replication} replicas"
        if len({(facts.end_offset, facts.crc32) for facts in facts_of.values()}) > 1:
            told = ", ".join(f"{broker}: {facts}" for broker, facts in facts_of.items())
            return f"partition {partition} differs: {told}"
        stored += next(iter(facts_of.values())).end_offset
    return f"{stored:,} records of {records:,} are stored" if stored < records else ""


def _replica(directory: Path) -> ReplicaFacts:
    end, size, crc = 0, 0, 0
    for segment in sorted(directory.glob("*.log")):
        start = end = int(segment.stem)
        # Not mapped: a broker may cut the space behind the last batch off meanwhile.
        with segment.open("rb", buffering=0) as file:
            for batches, behind in _batches(file, start):
                crc = zlib.crc32(batches, crc)
                size += len(batches)
                end = behind
    return ReplicaFacts(end, size, crc)


def _batches(file: RawIOBase, next_offset: int) -> Iterator[tuple[memoryview, int]]:
    """Yields the bytes of whole batches, and the offset behind them, until there is none more."""
    rest = b""
    while piece := file.read(_PIECE_BYTES):
        view = memoryview(rest + piece)
        at = 0
        while at + _HEADER_BYTES <= len(view):
            base_offset, length = _HEAD.unpack_from(view, at)
            if base_offset != next_offset or length < _HEADER_BYTES - _HEAD.size:
                yield view[:at], next_offset
                return
            if at + _HEAD.size + length > len(view):
                break
            next_offset += _LAST_OFFSET_DELTA.unpack_from(view, at + _LAST_OFFSET_DELTA_AT)[0] + 1
            at += _HEAD.size + length
        yield view[:at], next_offset
        rest = bytes(view[at:])
