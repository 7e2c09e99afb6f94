"""Repairs a metadata log with committed records that no node can apply (`bowstring quorum repair`).

The log stays as it is. A snapshot takes its place up to the end of the batch with the first such record, and
leaves those records out. Equal logs give equal snapshots, so each node is repaired alone, whatever it is. A
snapshot may hold only what is committed: a node that ends with such a record has applied all before it, and
counts the record's batch as committed.
"""

import mmap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from bowstring._native.record.decode import batch_headers, decode_batches
from bowstring._native.record.types import CorruptBatch, Record
from bowstring.engine.metadata.image import TOPIC_RESOURCE, ClusterImage, MetadataError
from bowstring.engine.metadata.quorum import QuorumFacts
from bowstring.engine.metadata.records import decode_record
from bowstring.engine.metadata.snapshot import SnapshotId, encode_snapshot
from bowstring.engine.metadata.store.snapshots import MetadataSnapshots
from bowstring.engine.storage.directory_lock import DataDirectoryError, locked
from bowstring.engine.storage.log_directory import METADATA_PARTITION_DIRECTORY
from bowstring.protocol import ProtocolError
from bowstring.protocol.records.cluster_metadata.markers import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord
from bowstring.protocol.records.cluster_metadata.topics import TopicRecord
from bowstring.protocol.records.control_batch import decode_control_key
from bowstring.protocol.schema import MetadataRecord
from bowstring.protocol.whole_numbers import LONG_MAX, whole_number

_LENGTH_AT: Final = 8
_PREFIX_BYTES: Final = 12
_HEADER_BYTES: Final = 61


class Dropped(NamedTuple):
    """A record that the snapshot leaves out.

    Attributes:
        offset: Of the record.
        record: Its type and fields.
        why: Why it cannot be applied.
    """

    offset: int
    record: str
    why: str


class Repair(NamedTuple):
    """What a repair does, or would do.

    Attributes:
        dropped: The records that are left out; none: the log needs no repair.
        end_offset, epoch: Of the snapshot.
        log_end_offset: The end of the log. Records between are applied at the next start.
        snapshot: The snapshot's file.
    """

    dropped: list[Dropped]
    end_offset: int
    epoch: int
    log_end_offset: int
    snapshot: Path


def repair(directory: Path, *, through: int | None = None, dry_run: bool = False) -> Repair:
    """Writes a snapshot without the records that cannot be applied.

    Args:
        directory: The data directory of a stopped node, with `__cluster_metadata-0`.
        through: Such records are left out up to the batch with this offset, which all voters must have. None:
            only those of the first batch that has one.
        dry_run: Writes nothing.

    Raises:
        DataDirectoryError: The directory is in use, has no metadata log, or cannot be read for another
            reason.
        OSError: The disk fails.
    """
    path = directory / METADATA_PARTITION_DIRECTORY
    if not path.is_dir():
        raise DataDirectoryError(f"{directory} has no {METADATA_PARTITION_DIRECTORY}; name metadata.log.dir")
    with locked(directory, "stop it first"):
        replay = _Replay(path)
        end = replay.run(through)
        snapshots = MetadataSnapshots(path)
        found = Repair(replay.dropped, *end, replay.log_end_offset, snapshots.path(end))
        if found.dropped and not dry_run:
            now_ms = time.time_ns() // 1_000_000
            batches = encode_snapshot(replay.image, replay.quorum, end, replay.timestamp_ms, now_ms)
            snapshots.write(end, batches)
        return found


class _Replay:
    """Replays a log and leaves out what cannot be applied."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.dropped: list[Dropped] = []
        self.timestamp_ms = 0
        loaded = MetadataSnapshots(path).load_newest()
        self.image, self.quorum = (loaded.image, loaded.quorum) if loaded else (ClusterImage(), QuorumFacts())
        self._offset = loaded.id.end_offset if loaded else 0
        self.log_end_offset = self._offset
        # Records of the metadata transaction that is open, with their offsets.
        self._open: list[tuple[int, MetadataRecord]] | None = None
        self._dropped_topics: set[str] = set()

    def run(self, through: int | None) -> SnapshotId:
        """Replays until a snapshot can replace all that is left out; returns its id."""
        end = SnapshotId(self._offset, 0)
        is_complete = False
        for last_offset, epoch, records in self._batches():
            self.log_end_offset = last_offset + 1
            if is_complete:
                continue
            self._dropped_topics.clear()
            for record in records:
                self._take(record)
            end = SnapshotId(last_offset + 1, epoch)
            is_covered = bool(self.dropped) if through is None else last_offset >= through
            is_complete = is_covered and self._open is None
        if self.dropped and self._open is not None:
            raise DataDirectoryError(
                f"{self.path} ends inside a metadata transaction; give a smaller --through, or none"
            )
        return end

    def _batches(self) -> Iterator[tuple[int, int, list[Record]]]:
        """Yields last offset, epoch and records of each batch after the snapshot; stops at an incomplete one,
        which a crash leaves.
        """
        for file in sorted(
            each for each in self.path.glob("*.log") if whole_number(each.stem, LONG_MAX) is not None
        ):
            if file.stat().st_size == 0:
                continue
            with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
                position = 0
                while position + _HEADER_BYTES <= len(data):
                    length_at = position + _LENGTH_AT
                    size_bytes = _PREFIX_BYTES + int.from_bytes(data[length_at : length_at + 4], "big")
                    if size_bytes < _HEADER_BYTES or position + size_bytes > len(data):
                        break
                    batch = data[position : position + size_bytes]
                    position += size_bytes
                    try:
                        (header,) = batch_headers(batch)
                        records = decode_batches(batch)
                    except (CorruptBatch, ValueError):
                        break
                    if header.last_offset >= self._offset:
                        yield header.last_offset, header.leader_epoch, records

    def _take(self, record: Record) -> None:
        if record.offset < self._offset:
            return
        self.timestamp_ms = record.timestamp
        try:
            if record.control:
                self.quorum.apply(decode_control_key(record.key or b""), record.value or b"")
                return
            decoded = decode_record(record.value or b"")
        except ProtocolError as error:
            raise DataDirectoryError(
                f"{self.path}, record {record.offset}: {error}; a newer version may have written it: repair "
                "it with that version"
            ) from error
        if isinstance(decoded, BeginTransactionRecord):
            self._open = []
        elif isinstance(decoded, EndTransactionRecord):
            done, self._open = self._open or [], None
            for offset, each in done:
                self._apply(offset, each)
        elif isinstance(decoded, AbortTransactionRecord):
            self._open = None
        elif self._open is not None:
            self._open.append((record.offset, decoded))
        else:
            self._apply(record.offset, decoded)

    def _apply(self, offset: int, record: MetadataRecord) -> None:
        try:
            if (
                isinstance(record, ConfigRecord)
                and record.resource_type == TOPIC_RESOURCE
                and record.resource_name in self._dropped_topics
            ):
                raise MetadataError("it belongs to the creation of a topic that is left out")
            self.image.apply(record)
        except MetadataError as error:
            self.dropped.append(Dropped(offset, repr(record), str(error)))
            if isinstance(record, TopicRecord):
                self._dropped_topics.add(record.name)
