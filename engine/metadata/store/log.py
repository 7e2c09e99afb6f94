"""Writes __cluster_metadata on one node: appends and syncs records before the image and clients see them.

The log is an ordinary partition log in `__cluster_metadata-0`. Each start of the broker is a new leader
epoch, like each new leader of a quorum, and starts with the control record of a leader change. A snapshot
replaces the records below its end, so that the log and its replay time stay bounded.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring._native.record.decode import decode_batches
from bowstring._native.record.encode import encode_batch
from bowstring._native.record.types import CorruptBatch, Record
from bowstring.engine import background, event_log
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.features import TRANSACTIONS_SINCE
from bowstring.engine.metadata.image import ClusterImage, ImageChange, MetadataError
from bowstring.engine.metadata.quorum import QUORUM_STATE, QuorumFacts, leader_change, quorum_epoch
from bowstring.engine.metadata.records import decode_record, encode_record
from bowstring.engine.metadata.snapshot import SnapshotId, encode_snapshot
from bowstring.engine.metadata.store.log_config import MAX_BATCH_BYTES, metadata_log_config
from bowstring.engine.metadata.store.reader import unusable_record
from bowstring.engine.metadata.store.snapshots import MetadataSnapshots
from bowstring.engine.storage.checkpoints import replace_file, sync_directory
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directory import METADATA_PARTITION_DIRECTORY, LogDirectory
from bowstring.engine.turns import Turn, Turns
from bowstring.protocol import ProtocolError
from bowstring.protocol.features import HIGHEST_METADATA_VERSION, METADATA_VERSION
from bowstring.protocol.ids import METADATA_TOPIC_ID
from bowstring.protocol.records.cluster_metadata.markers import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from bowstring.protocol.records.control import VotersRecord
from bowstring.protocol.records.control_batch import decode_control_key
from bowstring.protocol.schema import MetadataRecord

_READ_BYTES: Final = 4 * 1024 * 1024


class MetadataLog:
    """The metadata log and the current image.

    A change reads the image, decides, and commits inside one ``async with changing()``, so that no two
    decisions use the same state. A record is written only if it can be applied.

    Attributes:
        image: The cluster after all records of the log.
        quorum: kraft.version and voters after all records of the log.
        leader_epoch: The epoch of this start.
    """

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.quorum = QuorumFacts()
        self.leader_epoch = 0
        self._turns = Turns()
        self._not_undone: LogError | None = None
        self._log: PartitionLog | None = None
        self._path = Path()
        self._configs: BrokerConfigs
        self._snapshots: MetadataSnapshots
        # Bytes since the last snapshot, and the time of the last record.
        self._new_bytes = 0
        self._last_timestamp_ms = 0
        self._timer: asyncio.TimerHandle | None = None
        self._snapshotting: asyncio.Task[None] | None = None

    @property
    def log(self) -> PartitionLog:
        """The partition log. It must be open."""
        assert self._log is not None, "the metadata log is not open"
        return self._log

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""
        return int(self.log.log_end_offset)

    # ------------------------------------------------------------ opening

    def open(self, directory: LogDirectory, configs: BrokerConfigs) -> None:
        """Opens or recovers the log, replays the newest snapshot and the records after it, and starts an
        epoch.

        Raises:
            DataDirectoryError: The log holds something that this version cannot read; the message says
                where.
        """
        path = directory.path / METADATA_PARTITION_DIRECTORY
        is_new = not path.exists()
        path.mkdir(exist_ok=True)
        self._path, self._configs, self._snapshots = path, configs, MetadataSnapshots(path)
        if is_new:
            directory.write_partition_metadata(METADATA_PARTITION_DIRECTORY, METADATA_TOPIC_ID)
            sync_directory(directory.path)  # commits are durable only if the log's own name is
        # After a crash, check the log from its first byte: it is small, and everything depends on it.
        self._log = PartitionLog(
            str(path),
            metadata_log_config(configs),
            recovery_point=0,
            clean_shutdown=directory.was_clean,
            health=directory.health,
        )
        self._snapshots.remove_unfinished()
        self._replay(self._load_snapshot())
        self._check(directory.node_id)
        self._begin_epoch(directory.node_id)

    def _load_snapshot(self) -> int:
        """Loads the newest usable snapshot; returns the offset at which replay continues."""
        log_start = int(self.log.log_start_offset)
        loaded = self._snapshots.load_newest()
        offset = loaded.id.end_offset if loaded is not None else 0
        if offset < log_start:
            has = f"no usable snapshot reaches further than {offset}" if loaded else "has no usable snapshot"
            raise DataDirectoryError(
                f"{self._path} begins at offset {log_start} and {has}; earlier records are lost: restore "
                "one of its .checkpoint files, or the directory, from a copy"
            )
        if loaded is None:
            return log_start
        if offset > self.end_offset:
            # As on a node that has just fetched the snapshot: the log starts again at its end.
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
                raise unusable_record(self._path, offset, error) from error

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
                f"{self._path} is at metadata.version {level}, but this version supports at most "
                f"{HIGHEST_METADATA_VERSION}: start the version that wrote it"
            )
        voters = self.quorum.voter_ids()
        if voters not in ([], [node_id]):
            raise DataDirectoryError(
                f"{self._path} belongs to a quorum of the controllers {', '.join(map(str, voters))}; only a "
                f"log whose one voter is node {node_id} can be used"
            )

    def _begin_epoch(self, node_id: int) -> None:
        """Becomes leader of the log, in an epoch above all earlier ones."""
        self.leader_epoch = max(self.leader_epoch, int(self.log.leader_epoch), self._epoch_seen(), 0) + 1
        self.log.assign_epoch(self.leader_epoch, self.end_offset)
        key, value = leader_change(node_id)
        now_ms = time.time_ns() // 1_000_000
        self._append(encode_batch([(key, value, now_ms, None)], control=True))
        self.log.flush()
        if self.image.in_transaction:
            # The controller stopped during a transaction; none of its records count (KIP-868).
            self.commit_alone(
                [AbortTransactionRecord(reason="the controller stopped before the transaction ended")]
            )
        replace_file(self._path / QUORUM_STATE, self.quorum.quorum_state(node_id, self.leader_epoch))

    def _epoch_seen(self) -> int:
        path = self._path / QUORUM_STATE
        try:
            return quorum_epoch(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return 0
        except ValueError as error:
            event_log.error(
                "the quorum-state file of the metadata log is damaged and is rebuilt from the log; no action "
                "is needed",
                file=str(path),
                detail=str(error),
            )
            return 0

    def close(self) -> None:
        """Syncs and closes the log."""
        if self._log is not None:
            log, self._log = self._log, None
            log.flush()
            log.close()

    # ------------------------------------------------------------ changes

    @asynccontextmanager
    async def changing(self) -> AsyncIterator["LogChange"]:
        """Blocks all other changes during a decision and its commit."""
        turn = await self._turns.take()
        try:
            yield LogChange(self, turn)
        finally:
            turn.end()

    def commit_alone(self, records: Sequence[MetadataRecord]) -> None:
        """Commits without `changing`, before the event loop serves requests or after it has stopped
        serving.

        Raises:
            LogError: As for `LogChange.commit`.
            MetadataError: A record cannot be applied; nothing is written.
        """
        if records:
            start = self.end_offset
            for batch in self.prepared(records):
                with self._undone_on_failure(start):
                    self._append(batch)
                    self.log.flush()
            self._apply(records)

    def prepared(self, records: Sequence[MetadataRecord]) -> list[bytes]:
        """Returns the batches to write, all encoded and checked before the first is written.

        Raises:
            MetadataError: A record cannot be applied.
            LogError: An earlier failure has left the log in a state in which nothing can be written.
        """
        if self._not_undone is not None:
            raise self._not_undone
        self.image.check(records)
        batches = list(self._batches(records))
        level = self.image.features.get(METADATA_VERSION, HIGHEST_METADATA_VERSION)
        if len(batches) > 1 and level >= TRANSACTIONS_SINCE:
            # A crash between two batches leaves nothing of the change (KIP-868).
            begin, end = (
                list(self._batches([each])) for each in (BeginTransactionRecord(), EndTransactionRecord())
            )
            return [*begin, *batches, *end]
        return batches

    async def write(self, batches: Sequence[bytes], apply: Callable[[], None]) -> None:
        """Appends and syncs batches one after the other, and then applies their records: all or none.

        Raises:
            LogError: The log cannot be written. It ends where it did before.
        """
        start = self.end_offset
        for batch in batches:
            with self._undone_on_failure(start):
                self._append(batch)
                await asyncio.get_running_loop().run_in_executor(None, self.log.flush)
        apply()
        self.log.advance_high_watermark(self.end_offset)
        self.watch_snapshots()

    async def upgrade_kraft_version(self, change: ImageChange, version: int, voters: VotersRecord) -> None:
        """Raises kraft.version, which puts the one voter into the log (KIP-853), within a change.

        Raises:
            LogError, OSError: The log or `quorum-state` could not be written. The next start writes
                `quorum-state` again.
        """
        assert isinstance(change, LogChange), change
        facts = QuorumFacts()
        facts.kraft_version, facts.voters = version, voters
        now_ms = time.time_ns() // 1_000_000
        records = [(key, value, now_ms, None) for key, value in facts.records()]

        def apply() -> None:
            self.quorum = facts

        await change.write([*self.prepared([]), encode_batch(records, control=True)], apply)
        (voter,) = facts.voter_ids()
        state = facts.quorum_state(voter, self.leader_epoch)
        await asyncio.get_running_loop().run_in_executor(None, replace_file, self._path / QUORUM_STATE, state)

    @contextmanager
    def _undone_on_failure(self, offset: int) -> Iterator[None]:
        """Cuts the log back to where a change began that could not be written.

        The rest of it would be replayed at the next start, although the image does not have it: a
        repeated request would write it a second time.
        """
        try:
            yield
        except LogError as error:
            try:
                self.log.truncate_to(offset)
            except LogError:
                self._not_undone = error
                event_log.error(
                    "the metadata log could not be written, nor cut back to its last change; nothing can be "
                    "changed before a restart. Check the disk, then restart the broker",
                    directory=str(self._path),
                    detail=str(error),
                )
            raise

    def _batches(self, records: Sequence[MetadataRecord]) -> Iterator[bytes]:
        """Splits records into batches of a bounded size.

        Each batch is synced before the next one is appended. A power loss then leaves at most one torn batch
        at the end, which the next start cuts off. Everything before a complete batch was synced, so damage
        there is real damage.
        """
        now_ms = time.time_ns() // 1_000_000
        level = self.image.features.get(METADATA_VERSION, HIGHEST_METADATA_VERSION)
        entries: list[tuple[None, bytes, int, None]] = []
        size_bytes = 0
        for record in records:
            value = encode_record(record, level)
            if entries and size_bytes + len(value) > MAX_BATCH_BYTES // 2:
                yield encode_batch(entries)
                entries, size_bytes = [], 0
            entries.append((None, value, now_ms, None))
            size_bytes += len(value) + 32
        if entries:
            yield encode_batch(entries)

    def _append(self, batch: bytes) -> None:
        now_ms = time.time_ns() // 1_000_000
        self.log.append(batch, self.leader_epoch, now_ms)
        self._new_bytes += len(batch)
        self._last_timestamp_ms = now_ms

    def _apply(self, records: Sequence[MetadataRecord]) -> None:
        self.image.apply_all(records)
        self.log.advance_high_watermark(self.end_offset)

    # ------------------------------------------------------------ snapshots

    def watch_snapshots(self) -> None:
        """Starts a snapshot when enough bytes are new, or sets the timer for it. On the control loop."""
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
            self._snapshotting = background.spawn(self._snapshot(), "snapshot of the metadata log")

    async def _snapshot(self) -> None:
        # Another thread reads the image, so changes must wait. Readers need not.
        try:
            async with self.changing():
                await asyncio.get_running_loop().run_in_executor(None, self.write_snapshot)
        except (OSError, LogError) as error:
            event_log.error(
                "a snapshot of the metadata log could not be written and is retried later; check the disk",
                detail=str(error),
            )

    def write_snapshot(self) -> SnapshotId:
        """Writes a snapshot and deletes what it replaces. The image must not change meanwhile.

        Raises:
            OSError, LogError: The snapshot could not be written; the log and older snapshots are unchanged.
        """
        now_ms = time.time_ns() // 1_000_000
        id = SnapshotId(self.end_offset, self.leader_epoch)
        self._new_bytes = 0
        batches = encode_snapshot(self.image, self.quorum, id, self._last_timestamp_ms, now_ms)
        size_bytes = self._snapshots.write(id, batches)
        event_log.info(
            "snapshot of the metadata log written",
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

    async def settle(self) -> None:
        """Starts no more snapshots; waits for the one in progress and for a change that is being written."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._snapshotting is not None:
            await self._snapshotting
        async with self.changing():
            pass


class LogChange:
    """One change of the cluster by a node alone, inside `MetadataLog.changing`."""

    def __init__(self, log: MetadataLog, turn: Turn) -> None:
        self._log = log
        self._turn = turn

    @property
    def image(self) -> ClusterImage:
        """The cluster, which nothing else changes until this change ends."""
        return self._log.image

    async def commit(self, records: Sequence[MetadataRecord]) -> None:
        """Appends and syncs the records, then applies them to the image: all or none.

        Raises:
            LogError: The log could not be written; the log and the image are unchanged.
            MetadataError: A record cannot be applied; nothing is written.
        """
        if records:
            log = self._log
            await self.write(log.prepared(records), lambda: log.image.apply_all(records))

    async def write(self, batches: Sequence[bytes], apply: Callable[[], None]) -> None:
        """Writes batches and then applies them, even if the task is cancelled: else the image would lack what
        the log has. The turn lasts until all is written.
        """
        assert self._turn.is_held, "commit inside `async with changing()`"
        writing = asyncio.get_running_loop().create_task(self._log.write(batches, apply))
        self._turn.end_after(writing)
        await asyncio.shield(writing)
