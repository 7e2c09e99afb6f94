"""Writes this node's own snapshots of the metadata log, when enough is new or the newest one is old."""

import asyncio
import time
from typing import Final

from bowstring._native.log.partition_log import LogError
from bowstring.engine import background, event_log
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.snapshot import SnapshotId, encode_snapshot
from bowstring.engine.quorum.applier import ImageApplier
from bowstring.engine.quorum.log import MetadataRaftLog
from bowstring.engine.raft.keys import OffsetAndEpoch
from bowstring.engine.raft.replica import RaftReplica

_RETRY_S: Final = 60.0


class OwnSnapshots:
    """Snapshots of the applied image. A thread writes a copy of it, while the image changes."""

    def __init__(self, log: MetadataRaftLog, applier: ImageApplier, configs: BrokerConfigs) -> None:
        self._log = log
        self._applier = applier
        self._configs = configs
        self._due_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None

    def watch(self, replica: RaftReplica) -> None:
        """Begins a snapshot if one is due. Call it after records were applied."""
        applier, now_s = self._applier, time.monotonic()
        if self._writing is not None or applier.new_bytes == 0 or applier.image.in_transaction:
            return
        interval_ms = self._configs.value("metadata.log.max.snapshot.interval.ms")
        if self._due_s is None and interval_ms > 0:
            self._set_due(replica, interval_ms / 1000)
        many = applier.new_bytes >= self._configs.value("metadata.log.max.record.bytes.between.snapshots")
        if many or (self._due_s is not None and now_s >= self._due_s):
            latest = self._log.latest_snapshot_id()
            if latest is None or latest < (applier.applied, applier.epoch):
                self._writing = background.spawn(self._write(replica), "snapshot of the metadata log")

    def _set_due(self, replica: RaftReplica, delay_s: float) -> None:
        """Has a snapshot come due. With a timer, because an idle cluster of one node applies nothing that
        would call `watch`.
        """
        self._forget_due()
        self._due_s = time.monotonic() + delay_s
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._come_due, replica)

    def _come_due(self, replica: RaftReplica) -> None:
        self._due_s = time.monotonic()
        self.watch(replica)

    def _forget_due(self) -> None:
        self._due_s = None
        if self._timer is not None:
            self._timer.cancel()

    async def _write(self, replica: RaftReplica) -> None:
        applier, now_ms = self._applier, time.time_ns() // 1_000_000
        id = OffsetAndEpoch(applier.applied, applier.epoch)
        image, facts, timestamp_ms = applier.image.copy(), applier.quorum.copy(), applier.last_timestamp_ms
        new_bytes = applier.new_bytes
        value = self._configs.value
        try:
            batches = encode_snapshot(image, facts, SnapshotId(*id), timestamp_ms, now_ms)
            loop = asyncio.get_running_loop()
            size_bytes = await loop.run_in_executor(None, self._log.write_snapshot, id, batches)
            self._log.snapshot_written(
                *(id, now_ms, value("metadata.max.retention.ms"), value("metadata.max.retention.bytes"))
            )
            replica.snapshot_created(id)
        except (OSError, LogError) as error:
            event_log.error(
                "a snapshot of the metadata log could not be written and is retried later; check the disk",
                detail=str(error),
            )
            self._set_due(replica, _RETRY_S)
        else:
            applier.new_bytes = max(0, applier.new_bytes - new_bytes)
            self._forget_due()
            event_log.info(
                "snapshot of the metadata log written",
                end_offset=id.offset,
                epoch=id.epoch,
                size_bytes=size_bytes,
            )
        finally:
            self._writing = None

    async def stop(self) -> None:
        """Waits for the snapshot in progress, and begins no other."""
        self._forget_due()
        if self._writing is not None:
            await asyncio.wait({self._writing})
