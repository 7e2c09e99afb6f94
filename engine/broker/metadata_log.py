"""__cluster_metadata on one node: records are appended and synced before the image, and the world, see them.

The log is an ordinary partition log in `__cluster_metadata-0`. Each start of the broker is a new leader
epoch, as each new leader of a quorum would be, and begins with the control record that says so. A snapshot
stands for the records below its end, so that neither the log nor the time to replay it grows for ever.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from bowstring._native.decode import decode_batches
from bowstring._native.encode import encode_batch
from bowstring._native.log import LogError, PartitionLog
from bowstring._native.record_types import CorruptBatch, Record
from bowstring.engine.broker import log_lines
from bowstring.engine.broker.checkpoints import replace_file, sync_directory
from bowstring.engine.broker.data_directory import (
    METADATA_PARTITION_DIRECTORY,
    METADATA_TOPIC_ID,
    DataDirectory,
)
from bowstring.engine.broker.directory_lock import DataDirectoryError
from bowstring.engine.broker.metadata_snapshots import MetadataSnapshots
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.features import HIGHEST_METADATA_VERSION, METADATA_VERSION
from bowstring.engine.metadata.image import ClusterImage, MetadataError
from bowstring.engine.metadata.quorum import QUORUM_STATE, QuorumFacts, leader_change, quorum_epoch
from bowstring.engine.metadata.records import decode_record, encode_record
from bowstring.engine.metadata.snapshot import SnapshotId, encode_snapshot
from bowstring.engine.protocol import ProtocolError
from bowstring.engine.protocol.records.cluster_metadata.markers import AbortTransactionRecord
from bowstring.engine.protocol.records.control_batch import decode_control_key
from bowstring.engine.protocol.schema import MetadataRecord

# Kafka's own bound on a batch of the metadata log; a change larger than this becomes several batches.
MAX_BATCH_BYTES: Final = 8 * 1024 * 1024
_READ_BYTES: Final = 4 * 1024 * 1024


class MetadataLog:
    """The metadata log and the image it has led to.

    Only `commit` changes the image. A change reads the image, decides, and commits inside one
    ``async with changing()``, so that no two decisions rest on the same state.

    Attributes:
        image: The cluster as the log leaves it.
        quorum: kraft.version and voters, as the log leaves them.
        leader_epoch: This start's epoch.
    """

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.quorum = QuorumFacts()
        self.leader_epoch = 0
        self._lock = asyncio.Lock()
        self._log: PartitionLog | None = None
        self._path = Path()
        self._configs: BrokerConfigs
        self._snapshots: MetadataSnapshots
        # What the next snapshot will add, and when the last record was written.
        self._new_bytes = 0
        self._last_timestamp_ms = 0
        self._timer: asyncio.TimerHandle | None = None
        self._snapshotting: asyncio.Task[None] | None = None

    @property
    def log(self) -> PartitionLog:
        """The log itself; it must be open."""
        assert self._log is not None, "the metadata log is not open"
        return self._log

    @property
    def end_offset(self) -> int:
        """Offset that the next record will have."""
        return int(self.log.log_end_offset)

    # ------------------------------------------------------------ opening

    def open(self, directory: DataDirectory, configs: BrokerConfigs) -> None:
        """Opens or recovers the log, replays the newest snapshot and what follows it, and begins an epoch.

        Raises:
            DataDirectoryError: The log holds what this version cannot read; the message says where.
        """
        path = directory.path / METADATA_PARTITION_DIRECTORY
        is_new = not path.exists()
        path.mkdir(exist_ok=True)
        self._path, self._configs, self._snapshots = path, configs, MetadataSnapshots(path)
        if is_new:
            directory.write_partition_metadata(METADATA_PARTITION_DIRECTORY, METADATA_TOPIC_ID)
            sync_directory(directory.path)  # commits count on the log's own name, too
        # After a crash recovered from its first byte: it is small, and everything rests on it.
        self._log = PartitionLog(
            str(path),
            self._log_config(),
            recovery_point=0,
            clean_shutdown=directory.was_clean,
            health=directory.health,
        )
        self._snapshots.remove_unfinished()
        self._replay(self._load_snapshot())
        self._check(directory.node_id)
        self._begin_epoch(directory.node_id)

    def _log_config(self) -> dict[str, int]:
        config = dict(self._configs.log_config({}))
        config.update(
            segment_bytes=self._configs.value("metadata.log.segment.bytes"),
            segment_ms=self._configs.value("metadata.log.segment.ms"),
            max_message_bytes=MAX_BATCH_BYTES,
            retention_ms=-1,
            retention_bytes=-1,
            delete_enabled=0,
            compacted=0,
            log_append_time=0,
            compression=-1,
            # No one reads the log while the broker runs, so removed segments need not linger.
            file_delete_delay_ms=0,
        )
        return config

    def _load_snapshot(self) -> int:
        """Puts the newest usable snapshot in force; returns the offset at which replay goes on."""
        log_start = int(self.log.log_start_offset)
        loaded = self._snapshots.load_newest()
        offset = loaded.id.end_offset if loaded is not None else 0
        if offset < log_start:
            has = f"no usable snapshot reaches further than {offset}" if loaded else "has no usable snapshot"
            raise DataDirectoryError(
                f"{self._path} begins at offset {log_start} and {has}; what came before is lost: restore a "
                ".checkpoint file of it, or the directory, from a copy"
            )
        if loaded is None:
            return log_start
        if offset > self.end_offset:
            # As on a node that has just fetched the snapshot: the log begins anew where it ends.
            self.log.truncate_fully_and_start_at(offset)
        self.image, self.quorum = loaded.image, loaded.quorum
        self.leader_epoch = loaded.id.epoch
        return offset

    def _replay(self, offset: int) -> None:
        end = self.end_offset
        self._new_bytes = int(self.log.bytes_between(offset, end)) if offset < end else 0
        while offset < end:
            data = self.log.read(offset, _READ_BYTES, "log_end")
            try:
                for record in decode_batches(data):
                    if record.offset >= offset:
                        offset = record.offset
                        self._replay_one(record)
                        offset += 1
            except (ProtocolError, MetadataError, CorruptBatch) as error:
                raise DataDirectoryError(
                    f"{self._path}, record {offset}: {error}; perhaps a newer version wrote it: "
                    "start that one, or restore the directory from a copy"
                ) from error

    def _replay_one(self, record: Record) -> None:
        self._last_timestamp_ms = record.timestamp
        if record.control:
            self.quorum.apply(decode_control_key(record.key or b""), record.value or b"")
        else:
            self.image.apply(decode_record(record.value or b""))

    def _check(self, node_id: int) -> None:
        level = self.image.features.get(METADATA_VERSION, HIGHEST_METADATA_VERSION)
        if level > HIGHEST_METADATA_VERSION:
            raise DataDirectoryError(
                f"{self._path} is at metadata.version {level}, and {HIGHEST_METADATA_VERSION} is the highest "
                "known here: start the version that wrote it"
            )
        voters = self.quorum.voter_ids()
        if voters not in ([], [node_id]):
            raise DataDirectoryError(
                f"{self._path} belongs to a quorum of the controllers {', '.join(map(str, voters))}; "
                f"only a log of which node {node_id} is the one voter can be used"
            )

    def _begin_epoch(self, node_id: int) -> None:
        """Takes the log up as its leader, in an epoch above every one that was."""
        self.leader_epoch = max(self.leader_epoch, int(self.log.leader_epoch), self._epoch_seen(), 0) + 1
        self.log.assign_epoch(self.leader_epoch, self.end_offset)
        key, value = leader_change(node_id)
        now_ms = time.time_ns() // 1_000_000
        self._append_batch(encode_batch([(key, value, now_ms, None)], control=True), now_ms)
        if self.image.in_transaction:
            # Its controller stopped in the middle of it; none of its records count (KIP-868).
            abort = AbortTransactionRecord(reason="the controller stopped before the transaction ended")
            self._append([abort])
            self.image.apply(abort)
        replace_file(self._path / QUORUM_STATE, self.quorum.quorum_state(node_id, self.leader_epoch))

    def _epoch_seen(self) -> int:
        path = self._path / QUORUM_STATE
        try:
            return quorum_epoch(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return 0
        except ValueError as error:
            log_lines.error("a damaged file is written anew from the log", file=str(path), detail=str(error))
            return 0

    def close(self) -> None:
        """Syncs and closes the log."""
        if self._log is not None:
            log, self._log = self._log, None
            log.flush()
            log.close()

    # ------------------------------------------------------------ changes

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[ClusterImage]:
        """Holds off every other change, for a decision and its commit."""
        async with self._lock:
            yield self.image

    async def commit(self, records: Sequence[MetadataRecord]) -> None:
        """Appends and syncs the records, then applies them to the image. Inside `changing` only.

        Raises:
            LogError: The log could not be written; the image is as it was.
        """
        assert self._lock.locked(), "a commit belongs inside `async with changing()`"
        if records:
            self._append(records)
            await asyncio.get_running_loop().run_in_executor(None, self.log.flush)
            self._apply(records)
            self.watch_snapshots()

    def commit_alone(self, records: Sequence[MetadataRecord]) -> None:
        """The same before the event loop serves anything, or when it no longer does."""
        if records:
            self._append(records)
            self.log.flush()
            self._apply(records)

    def _append(self, records: Sequence[MetadataRecord]) -> None:
        now_ms = time.time_ns() // 1_000_000
        level = self.image.features.get(METADATA_VERSION, HIGHEST_METADATA_VERSION)
        entries: list[tuple[None, bytes, int, None]] = []
        size_bytes = 0
        for record in records:
            value = encode_record(record, level)
            if size_bytes + len(value) > MAX_BATCH_BYTES // 2:
                self._append_batch(encode_batch(entries), now_ms)
                entries, size_bytes = [], 0
            entries.append((None, value, now_ms, None))
            size_bytes += len(value) + 32
        self._append_batch(encode_batch(entries), now_ms)

    def _append_batch(self, batch: bytes, now_ms: int) -> None:
        self.log.append(batch, self.leader_epoch, now_ms)
        self._new_bytes += len(batch)
        self._last_timestamp_ms = now_ms

    def _apply(self, records: Sequence[MetadataRecord]) -> None:
        self.image.apply_all(records)
        self.log.advance_high_watermark(self.end_offset)

    # ------------------------------------------------------------ snapshots

    def watch_snapshots(self) -> None:
        """Begins a snapshot when enough is new, or sets the timer for it. On the control loop."""
        if self._new_bytes >= self._configs.value("metadata.log.max.record.bytes.between.snapshots"):
            self._begin_snapshot()
            return
        interval_ms = self._configs.value("metadata.log.max.snapshot.interval.ms")
        if self._timer is None and interval_ms > 0 and self._new_bytes > 0:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(interval_ms / 1000, self._begin_snapshot)

    def _begin_snapshot(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._snapshotting is None or self._snapshotting.done():
            self._snapshotting = asyncio.get_running_loop().create_task(self._snapshot())

    async def _snapshot(self) -> None:
        # Changes wait: the image is read on another thread. Whoever only reads does not.
        try:
            async with self._lock:
                await asyncio.get_running_loop().run_in_executor(None, self.write_snapshot)
        except (OSError, LogError) as error:
            log_lines.error("a snapshot of the metadata log cannot be written", detail=str(error))

    def write_snapshot(self) -> SnapshotId:
        """Writes a snapshot and lets go of what it makes superfluous. The image may not change meanwhile.

        Raises:
            OSError, LogError: It could not be written; the log and older snapshots stand.
        """
        now_ms = time.time_ns() // 1_000_000
        id = SnapshotId(self.end_offset, self.leader_epoch)
        self._new_bytes = 0
        batches = encode_snapshot(self.image, self.quorum, id, self._last_timestamp_ms, now_ms)
        size_bytes = self._snapshots.write(id, batches)
        log_lines.info(
            "the metadata log has a snapshot",
            end_offset=id.end_offset,
            epoch=id.epoch,
            size_bytes=size_bytes,
        )
        value = self._configs.value
        oldest = self._snapshots.retire(
            int(self.log.size_bytes),
            now_ms,
            value("metadata.max.retention.ms"),
            value("metadata.max.retention.bytes"),
        )
        if oldest is not None:
            self.log.delete_records(oldest.end_offset)
            self.log.apply_retention(now_ms)
            self.log.delete_expired_files(now_ms)
        return id

    async def stop_snapshots(self) -> None:
        """Begins no more snapshots, and waits for one that is being written."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._snapshotting is not None:
            await self._snapshotting
