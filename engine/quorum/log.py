"""Keeps a replica's metadata log and its snapshots on disk, as the core of the quorum needs them (RaftLog).

Appends go to the page cache; `sync` and `install_snapshot` are for a thread. Everything else belongs to the
event loop. Snapshots have Kafka's names, `<end offset>-<epoch>.checkpoint`, unfinished ones with `.part`.
"""

import os
import time
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring._native.record.decode import batch_headers
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.metadata.quorum import QuorumFacts
from bowstring.engine.metadata.snapshot import SnapshotId, decode_snapshot
from bowstring.engine.metadata.store.snapshots import MetadataSnapshots
from bowstring.engine.quorum.synced_end import SyncedEnd
from bowstring.engine.raft.keys import BOOTSTRAP_SNAPSHOT, OffsetAndEpoch
from bowstring.engine.raft.log import NotAppendedError
from bowstring.engine.storage.checkpoints import sync_directory
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directory import METADATA_PARTITION_DIRECTORY, OWNER_ONLY, LogDirectory
from bowstring.engine.storage.open_files import open_file, with_reserve
from bowstring.protocol.errors import Errors
from bowstring.protocol.ids import METADATA_TOPIC_ID

_AS_WRITTEN: Final = -2
"""PartitionLog.append keeps offset and epoch of the batch."""
_NO_OFFSET: Final = 1 << 62
PART: Final = ".part"


class MetadataRaftLog:
    """The metadata log of a replica and its snapshots.

    Attributes:
        path: The directory of both.
    """

    def __init__(
        self, directory: LogDirectory, log_config: Mapping[str, int], *, is_only_copy: bool = False
    ) -> None:
        """Opens the log and brings it into a state in which a replica may start.

        Args:
            is_only_copy: No other node has the log, from which this one could copy it.

        Raises:
            DataDirectoryError: Records are lost that were synced, and that others count on.
            LogError, OSError: The disk fails.
        """
        self.path = path = directory.path / METADATA_PARTITION_DIRECTORY
        self._is_only_copy = is_only_copy
        is_new = not path.exists()
        path.mkdir(mode=OWNER_ONLY, exist_ok=True)
        if is_new or not any(path.glob("partition.metadata")):
            directory.write_partition_metadata(METADATA_PARTITION_DIRECTORY, METADATA_TOPIC_ID)
            sync_directory(directory.path)
        self._files = MetadataSnapshots(path)
        self._files.remove_unfinished()
        self._snapshots = self._usable_snapshots()
        self._part: tuple[OffsetAndEpoch, int] | None = None
        self._epochs: list[tuple[int, int]] = []
        self._epochs_of: tuple[int, int, int] | None = None
        self.synced_end = SyncedEnd(path)
        # After a crash all of the log is checked: it is small, and everything depends on it.
        self._log = PartitionLog(
            str(path),
            dict(log_config),
            recovery_point=0,
            clean_shutdown=directory.was_clean,
            health=directory.health,
        )
        try:
            self._check()
            if self.synced_end.offset < self.end_offset and not directory.was_clean:
                self._rewrite()
        except BaseException:
            self.leave()
            raise

    def _usable_snapshots(self) -> list[OffsetAndEpoch]:
        """Returns the ids of the snapshots that can be read, oldest first.

        One that is damaged is set aside: a follower must not get it, and the log may have what it covers.
        """
        usable = []
        ids = self._files.ids()
        loaded = self._files.load_newest() if ids else None
        for id in ids:
            if loaded is not None and id <= loaded.id:
                usable.append(OffsetAndEpoch(id.end_offset, id.epoch))
            else:
                path = self._files.path(id)
                os.replace(path, f"{path}.damaged")
        return usable

    def _check(self) -> None:
        latest = self.latest_snapshot_id()
        reach = 0 if latest is None else latest.offset
        lost_from = max(self.end_offset, reach)
        if self.synced_end.offset > lost_from:
            raise DataDirectoryError(
                f"{self.path} was synced up to offset {self.synced_end.offset}, but ends at {lost_from}: "
                f"{self._lost_records()}"
            )
        if self.start_offset > reach:
            or_else = "" if self._is_only_copy else ", or give this node an empty data directory"
            raise DataDirectoryError(
                f"{self.path} begins at offset {self.start_offset}, and no usable snapshot reaches that; "
                f"restore one of its .checkpoint files from a copy{or_else}"
            )
        if latest is not None and latest != BOOTSTRAP_SNAPSHOT and self._is_behind(latest):
            self._start_after(latest)

    def _lost_records(self) -> str:
        if self._is_only_copy:
            return (
                "the disk has lost or damaged records behind that. Restore the directory from a copy; to go "
                f"on without those records, delete {self.synced_end.path}"
            )
        return (
            "records are damaged that the other controllers count on. Give this node an empty data directory "
            "(bowstring format --no-initial-controllers): it comes back as an observer and copies the "
            "metadata from the others"
        )

    def _rewrite(self) -> None:
        """Writes the log again: if a sync failed before the stop, the page cache shows records that no later
        sync would write.
        """
        from bowstring._native.log.replay import rewrite_unsynced  # not at start: most follow a clean stop

        rewrite_unsynced([self._log])
        if self._log.failed:
            raise LogError(Errors.KAFKA_STORAGE_ERROR.code, f"{self.path} cannot be written")

    def _is_behind(self, id: OffsetAndEpoch) -> bool:
        return (id.epoch, id.offset) > (max(self._log.leader_epoch, 0), self.end_offset)

    def _start_after(self, id: OffsetAndEpoch) -> None:
        self.synced_end.cut_to(id.offset)
        self._log.truncate_fully_and_start_at(id.offset)

    # ------------------------------------------------------------ the log

    @property
    def start_offset(self) -> int:
        """Offset of the first record."""
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""
        return self._log.log_end_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of the log without the snapshots."""
        return self._log.size_bytes

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record, or of the snapshot that the log starts after; 0 when there is neither."""
        epoch = self._log.leader_epoch
        if epoch >= 0:
            return epoch
        latest = self.latest_snapshot_id()
        return 0 if latest is None else latest.epoch

    def append(self, batch: bytes) -> None:
        """Appends record batches whose offsets and epochs are assigned and checked.

        Raises:
            NotAppendedError: There are no descriptors or no memory now; batches before one are appended.
            LogError: The disk fails.
        """
        now_ms = time.time_ns() // 1_000_000
        for header in batch_headers(batch):
            end = header.position + header.size_bytes
            whole = batch if end - header.position == len(batch) else batch[header.position : end]
            try:
                self._log.append(whole, _AS_WRITTEN, now_ms)
            except LogError as error:
                if self._log.refuses and not self._log.failed:
                    raise NotAppendedError(str(error)) from error
                raise

    def truncate_to(self, offset: int) -> None:
        """Removes the records from `offset` on. It is durable on return."""
        self.synced_end.cut_to(offset)
        self._log.truncate_to(offset)

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Returns the largest epoch up to `epoch` in the log, and the offset at which it ends.

        When all epochs of the log are larger: the log's start and the epoch of the snapshot there.
        """
        epochs = self._epoch_starts()
        place = bisect_right(epochs, (epoch, _NO_OFFSET)) - 1
        if place < 0:
            id = self.earliest_snapshot_id()
            is_below = id is not None and id.offset == self.start_offset and id.epoch <= epoch
            return OffsetAndEpoch(self.start_offset, id.epoch if id is not None and is_below else 0)
        end = epochs[place + 1][1] if place + 1 < len(epochs) else self.end_offset
        return OffsetAndEpoch(end, epochs[place][0])

    def _epoch_starts(self) -> list[tuple[int, int]]:
        of = (self._log.leader_epoch, self.start_offset, self.synced_end.cuts)
        if of != self._epochs_of:
            self._epochs, self._epochs_of = self._log.epochs(), of
        return self._epochs

    def epoch_at(self, offset: int) -> int:
        """Returns the epoch of the record at `offset`, which is in the log."""
        epochs = self._epoch_starts()
        place = bisect_right(epochs, offset, key=lambda each: each[1]) - 1
        return epochs[place][0] if place >= 0 else self.last_epoch

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Returns whole batches from the one with `offset` on, at least one and then up to `max_bytes`."""
        return self._log.read(offset, max_bytes, "log_end")

    def advance_high_watermark(self, offset: int) -> None:
        """Notes the committed offset, so that snapshots may replace older records."""
        self._log.advance_high_watermark(offset)

    def bytes_from(self, offset: int) -> int:
        """Returns the bytes of the batches from `offset` on, about."""
        offset = max(offset, self.start_offset)
        return self._log.bytes_between(offset, self.end_offset) if offset < self.end_offset else 0

    # ------------------------------------------------------------ on a thread

    def sync(self, end_offset: int, cuts: int) -> None:
        """Syncs the log, and notes that everything below `end_offset` is on the medium."""
        self._log.flush()
        self.synced_end.raise_to(end_offset, cuts)

    def install_snapshot(self, id: OffsetAndEpoch) -> tuple[ClusterImage, QuorumFacts]:
        """Completes the fetched snapshot, starts the log after it, and returns its content.

        Raises:
            SnapshotError: It is damaged, and deleted.
        """
        part = self._part_path(id)
        try:
            content = decode_snapshot(with_reserve(part.read_bytes), SnapshotId(*id))
        except Exception:
            part.unlink(missing_ok=True)
            raise
        fd = open_file(part, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(part, self._path(id))
        sync_directory(self.path)
        self._start_after(id)
        return content

    # ------------------------------------------------------------ snapshots

    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        """The newest complete snapshot."""
        return self._snapshots[-1] if self._snapshots else None

    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        """The oldest complete snapshot."""
        return self._snapshots[0] if self._snapshots else None

    def snapshot_size(self, id: OffsetAndEpoch) -> int | None:
        """The size in bytes of a complete snapshot; None when there is no such snapshot."""
        return self._path(id).stat().st_size if id in self._snapshots else None

    def read_snapshot(self, id: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        """Returns bytes of a complete snapshot."""
        fd = open_file(self._path(id), os.O_RDONLY)
        try:
            return os.pread(fd, max_bytes, position)
        finally:
            os.close(fd)

    def begin_snapshot(self, id: OffsetAndEpoch) -> None:
        """Begins an incomplete snapshot, in place of any other incomplete one."""
        if self._part is not None:
            self._part_path(self._part[0]).unlink(missing_ok=True)
        with_reserve(lambda: self._part_path(id).write_bytes(b""))
        self._part = (id, 0)

    def append_snapshot(self, id: OffsetAndEpoch, data: bytes) -> int:
        """Appends to the incomplete snapshot; returns its size in bytes."""
        assert self._part is not None and self._part[0] == id, (self._part, id)
        with with_reserve(lambda: self._part_path(id).open("ab")) as file:
            file.write(data)
        self._part = (id, self._part[1] + len(data))
        return self._part[1]

    def snapshot_installed(self, id: OffsetAndEpoch) -> None:
        """Takes the installed snapshot in, and forgets older ones, which the log does not continue."""
        self._part = None
        for old in self._snapshots:
            self._path(old).unlink(missing_ok=True)
        self._snapshots = [id]

    def snapshot_failed(self) -> None:
        """Forgets the incomplete snapshot."""
        self._part = None

    def write_snapshot(self, id: OffsetAndEpoch, batches: Iterable[bytes]) -> int:
        """Writes a snapshot of this node's own, on a thread; returns its size in bytes."""
        return self._files.write(SnapshotId(*id), batches)

    def snapshot_written(
        self, id: OffsetAndEpoch, now_ms: int, retention_ms: int, retention_bytes: int
    ) -> None:
        """Takes a snapshot of this node's own in, and deletes old ones with the records that they replace."""
        self._snapshots = sorted({*self._snapshots, id})
        oldest = self._files.retire(self.size_bytes, now_ms, retention_ms, retention_bytes)
        if oldest is not None:
            self._snapshots = [OffsetAndEpoch(*each) for each in self._files.ids()]
            self._log.delete_records(oldest.end_offset)
            self._log.apply_retention(now_ms)
            self._log.delete_expired_files(now_ms)

    def load_snapshot(self, id: OffsetAndEpoch) -> tuple[ClusterImage, QuorumFacts]:
        """Returns the content of a complete snapshot."""
        return decode_snapshot(with_reserve(self._path(id).read_bytes), SnapshotId(*id))

    def _path(self, id: OffsetAndEpoch) -> Path:
        return self._files.path(SnapshotId(*id))

    def _part_path(self, id: OffsetAndEpoch) -> Path:
        return Path(f"{self._path(id)}{PART}")

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        """Syncs and closes the log."""
        cuts, end = self.synced_end.cuts, self.end_offset
        self._log.flush()
        self.synced_end.raise_to(end, cuts)
        self._log.close()
        self.synced_end.close()

    def leave(self) -> None:
        """Closes the log of a node that cannot start with it; syncs nothing."""
        self._log.close(sync=False)
        self.synced_end.close()
