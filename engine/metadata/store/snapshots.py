"""Reads, writes and retires snapshot files of the metadata log, `<end offset>-<epoch>.checkpoint`.

A file gets its name only when it is complete and on the medium (Kafka's `.part` files are unfinished ones).
metadata.max.retention.ms and .bytes limit old snapshots; the newest is always kept.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from bowstring._native.record.decode import decode_batches
from bowstring._native.record.types import CorruptBatch
from bowstring.engine import event_log
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.metadata.quorum import QuorumFacts
from bowstring.engine.metadata.snapshot import SnapshotError, SnapshotId, decode_snapshot
from bowstring.engine.storage.checkpoints import write_whole
from bowstring.engine.storage.open_files import with_reserve

_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_PART: Final = ".part"


class LoadedSnapshot(NamedTuple):
    """A decoded snapshot."""

    id: SnapshotId
    image: ClusterImage
    quorum: QuorumFacts


class MetadataSnapshots:
    """The snapshots in the metadata log's directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def ids(self) -> list[SnapshotId]:
        """Returns the ids of existing snapshots, oldest first."""
        names = with_reserve(lambda: os.listdir(self._directory))
        found = (_NAME.fullmatch(name) for name in names)
        return sorted(SnapshotId(int(match[1]), int(match[2])) for match in found if match)

    def path(self, id: SnapshotId) -> Path:
        """Returns the path of a snapshot."""
        return self._directory / f"{id.end_offset:020d}-{id.epoch:010d}.checkpoint"

    def load_newest(self) -> LoadedSnapshot | None:
        """Loads the newest snapshot that is not damaged. Logs an error for each damaged one.

        Raises:
            OSError: A file cannot be read now, such as for want of a descriptor. It may be intact, so no
                older one takes its place.
        """
        for id in reversed(self.ids()):
            path = self.path(id)
            try:
                image, quorum = decode_snapshot(with_reserve(path.read_bytes), id)
            except SnapshotError as error:
                event_log.error(
                    "a snapshot of the metadata log is damaged and cannot be read; the broker uses an older "
                    "one or the log instead. Delete the file, and check the disk",
                    file=str(path),
                    detail=str(error),
                )
            else:
                return LoadedSnapshot(id, image, quorum)
        return None

    def remove_unfinished(self) -> None:
        """Deletes unfinished snapshots that a crash has left."""
        for name in os.listdir(self._directory):
            if name.endswith(_PART) and _NAME.fullmatch(name.removesuffix(_PART)):
                os.unlink(self._directory / name)

    def write(self, id: SnapshotId, batches: Iterable[bytes]) -> int:
        """Writes a snapshot; returns its size in bytes.

        Raises:
            OSError: The snapshot could not be written; no file has its name.
        """
        return write_whole(self.path(id), batches, _PART)

    def retire(
        self, log_bytes: int, now_ms: int, retention_ms: int, retention_bytes: int
    ) -> SnapshotId | None:
        """Deletes snapshots that are too old, or while they and the log exceed the size limit; never the
        newest.

        Returns the oldest remaining snapshot if any was deleted: the log below it is no longer needed.
        """
        ids = self.ids()
        sizes = {id: self.path(id).stat().st_size for id in ids}
        went = False
        while len(ids) > 1:
            too_large = 0 <= retention_bytes < log_bytes + sum(sizes[id] for id in ids)
            if not too_large and not 0 <= retention_ms < now_ms - self._timestamp_ms(ids[0]):
                break
            os.unlink(self.path(ids.pop(0)))
            went = True
        return ids[0] if went else None

    def _timestamp_ms(self, id: SnapshotId) -> int:
        """Start time of a snapshot: the timestamp of its header batch, or the file's when the batch is
        damaged.
        """
        path = self.path(id)
        try:
            with with_reserve(lambda: path.open("rb")) as file:
                head = file.read(12)
                head += file.read(int.from_bytes(head[8:12], "big"))
            return decode_batches(head, limit=1)[0].timestamp
        except (CorruptBatch, IndexError):
            return path.stat().st_mtime_ns // 1_000_000
