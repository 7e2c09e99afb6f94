"""Snapshot files of the metadata log: `<end offset>-<epoch>.checkpoint`, written whole, newest first.

A file appears under its name only when it is complete and on the medium (Kafka's `.part` files are the
unfinished ones). Old ones go by metadata.max.retention.ms and .bytes; the newest stays.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from bowstring._native.decode import decode_batches
from bowstring._native.record_types import CorruptBatch
from bowstring.engine.broker import log_lines
from bowstring.engine.broker.checkpoints import write_whole
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.metadata.quorum import QuorumFacts
from bowstring.engine.metadata.snapshot import SnapshotError, SnapshotId, decode_snapshot

_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_PART: Final = ".part"


class LoadedSnapshot(NamedTuple):
    """A snapshot as it was read."""

    id: SnapshotId
    image: ClusterImage
    quorum: QuorumFacts


class MetadataSnapshots:
    """The snapshots in the metadata log's directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def ids(self) -> list[SnapshotId]:
        """What is there, oldest first."""
        found = (_NAME.fullmatch(name) for name in os.listdir(self._directory))
        return sorted(SnapshotId(int(match[1]), int(match[2])) for match in found if match)

    def path(self, id: SnapshotId) -> Path:
        """Where a snapshot lies."""
        return self._directory / f"{id.end_offset:020d}-{id.epoch:010d}.checkpoint"

    def load_newest(self) -> LoadedSnapshot | None:
        """The newest snapshot that can be read. Each one that cannot is an error in the broker's log."""
        for id in reversed(self.ids()):
            path = self.path(id)
            try:
                image, quorum = decode_snapshot(path.read_bytes())
            except (SnapshotError, OSError) as error:
                log_lines.error(
                    "a snapshot of the metadata log cannot be used; an older one, or the log, stands in",
                    file=str(path),
                    detail=str(error),
                )
            else:
                return LoadedSnapshot(id, image, quorum)
        return None

    def remove_unfinished(self) -> None:
        """Unlinks what a crash left of snapshots being written."""
        for name in os.listdir(self._directory):
            if name.endswith(_PART) and _NAME.fullmatch(name.removesuffix(_PART)):
                os.unlink(self._directory / name)

    def write(self, id: SnapshotId, batches: Iterable[bytes]) -> int:
        """Writes a snapshot; returns its size in bytes.

        Raises:
            OSError: It could not be written; nothing is left under its name.
        """
        return write_whole(self.path(id), batches, _PART)

    def retire(
        self, log_bytes: int, now_ms: int, retention_ms: int, retention_bytes: int
    ) -> SnapshotId | None:
        """Unlinks snapshots too old, or beyond what they and the log may take; never the newest.

        Returns the oldest that is left when any went: nobody needs the log below it.
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
        """When a snapshot was begun: the timestamp of its header batch, or the file's when it is damaged."""
        path = self.path(id)
        try:
            with path.open("rb") as file:
                head = file.read(12)
                head += file.read(int.from_bytes(head[8:12], "big"))
            return decode_batches(head, limit=1)[0].timestamp
        except (CorruptBatch, IndexError):
            return path.stat().st_mtime_ns // 1_000_000
