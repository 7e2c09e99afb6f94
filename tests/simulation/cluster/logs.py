"""The logs of a node's replicas: real ones, on a medium that loses unsynced data when the power fails."""

import os
import shutil
import tempfile

from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.record.decode import batch_headers

AS_WRITTEN = -2
"""PartitionLog.append keeps offset and epoch of the batch."""
ALL = 1 << 30
FIRST_SEGMENT = "00000000000000000000.log"
CONFIG = {
    "segment_bytes": 1 << 30,
    "segment_ms": 7 * 86400000,
    "segment_jitter_ms": 0,
    "segment_index_bytes": 4096,
    "index_interval_bytes": 4096,
    "max_message_bytes": 1048588,
    "max_decompressed_message_bytes": 2147483639,
    "retention_ms": -1,
    "retention_bytes": -1,
    "file_delete_delay_ms": 60000,
    "timestamp_before_max_ms": (1 << 63) - 1,
    "timestamp_after_max_ms": (1 << 63) - 1,
    "producer_id_expiration_ms": 1 << 60,
    "flush_messages": (1 << 63) - 1,
    "flush_ms": (1 << 63) - 1,
    "log_append_time": 0,
    "compacted": 0,
    "delete_enabled": 1,
    "compression": -1,
    "schemas": 0,
}


class Medium:
    """The files of a run, in memory if the machine has such a directory."""

    def __init__(self):
        self.path = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self._number = 0

    def new_directory(self):
        self._number += 1
        path = f"{self.path}/{self._number}"
        os.mkdir(path)
        return path

    def close(self):
        shutil.rmtree(self.path)


class ReplicaLog:
    """One replica's log through the lives of its node.

    Attributes:
        log: Of the present life; None while the node is down.
        durable: Records below are on the medium.
        checkpoint: The high watermark that the next life begins with.
    """

    def __init__(self, medium):
        self.medium = medium
        self.path = medium.new_directory()
        self.log: PartitionLog | None = None
        self.durable = 0
        self.checkpoint = 0
        # The log end of the life that has ended.
        self.end_when_down = 0
        self._batches_when_down: list[tuple[int, int]] = []
        self._syncing: list[list[int]] = []
        self._due: list[tuple[int, object]] = []
        self._kept: list[bytes] | None = None
        self._torn = b""
        self._recovery_point = 0

    # ---- lives

    def open(self, *, is_commit_mode):
        """Opens the log, as after a crash unless it was closed."""
        if self._kept is not None:
            self._write_kept()
        self.log = PartitionLog(self.path, CONFIG, recovery_point=self._recovery_point)
        self.log.advance_high_watermark(self.checkpoint)
        # In commit mode, a start syncs the data that it found.
        end = self.log.log_end_offset
        self.durable = end if is_commit_mode else min(self.durable, end)

    def _write_kept(self):
        self.path = self.medium.new_directory()
        log = PartitionLog(self.path, CONFIG)
        for batch in self._kept:
            log.append(batch, AS_WRITTEN, 0)
        del log
        if self._torn:
            with open(f"{self.path}/{FIRST_SEGMENT}", "ab") as file:
                file.write(self._torn)
        self._kept, self._torn = None, b""
        self._recovery_point = 0

    def close(self):
        """A clean stop."""
        self.end_when_down, self._batches_when_down = self.log.log_end_offset, self.batches()
        self.log.close(sync=False)
        self._recovery_point = self.log.recovery_point
        self.durable, self.checkpoint = self.log.log_end_offset, self.log.high_watermark
        self.log, self._syncing, self._due = None, [], []

    def kill(self):
        """The process ends; what it wrote is in the page cache."""
        self.end_when_down, self._batches_when_down = self.log.log_end_offset, self.batches()
        self._recovery_point = self.log.recovery_point
        self.log, self._syncing, self._due = None, [], []

    def power_off(self, number, torn):
        """Loses batches that were not synced, from a random one on. Returns the lost ones: (base, end, epoch)."""
        data = self.log.read(self.log.log_start_offset, ALL, "log_end") if self.log.log_end_offset else b""
        batches = batch_headers(data)
        open_ones = [each for each in batches if each.last_offset >= self.durable]
        kept = len(batches) - len(open_ones) + number % (len(open_ones) + 1)
        self._kept = [data[each.position : each.position + each.size_bytes] for each in batches[:kept]]
        lost = batches[kept:]
        if torn and lost:
            first = lost[0]
            self._torn = data[first.position : first.position + first.size_bytes // 2]
        self.kill()
        self.end_when_down = lost[0].base_offset if lost else self.end_when_down
        del self._batches_when_down[kept:]
        return [(each.base_offset, each.last_offset + 1, each.leader_epoch) for each in lost]

    # ---- while it is open

    def flush(self):
        """The system writes the page cache."""
        self.durable = max(self.durable, self.log.flush())

    def begin_sync(self):
        """Begins to make the current data durable; returns what `end_sync` needs."""
        sync = [self.log.log_end_offset]
        self._syncing.append(sync)
        return sync

    def end_sync(self, sync):
        """Records cut meanwhile do not count."""
        if sync in self._syncing:
            self._syncing.remove(sync)
            self.durable = max(self.durable, sync[0])

    def when_durable(self, offset, call):
        self._due.append((offset, call))

    def take_due(self):
        """Returns what waited for the durable end."""
        due = [call for offset, call in self._due if offset <= self.durable]
        self._due = [each for each in self._due if each[0] > self.durable]
        return due

    def truncate_to(self, offset):
        self.log.truncate_to(offset)
        self._cut(self.log.log_end_offset)

    def start_again_at(self, offset):
        self.log.truncate_fully_and_start_at(offset)
        self._cut(offset)
        self.durable = offset

    def _cut(self, offset):
        self.durable = min(self.durable, offset)
        self.checkpoint = min(self.checkpoint, offset)
        for sync in self._syncing:
            sync[0] = min(sync[0], offset)

    def batches(self):
        """Base offset and epoch of each batch; for a node that is down, as of its last moment."""
        if self.log is None:
            return self._batches_when_down
        return [(each.base_offset, each.leader_epoch) for each in batch_headers(self.read_all())]

    def read_all(self):
        """All batches, also of a node that is down after its process ended."""
        if self.log is None:
            return b"".join(self._kept) if self._kept is not None else None
        return self.log.read(self.log.log_start_offset, ALL, "log_end") if self.log.log_end_offset else b""


class LogStore:
    """All logs of a node; what `ReplicaManager` needs of them."""

    def __init__(self, medium, *, is_commit_mode):
        self.medium = medium
        self.is_commit_mode = is_commit_mode
        self.logs: dict[tuple[str, int], ReplicaLog] = {}
        # The epoch in which the broker stopped cleanly, as in a directory's clean-shutdown file.
        self.clean_epoch = -1
        self.disks_lost = 0

    def create(self, image, topic, partition):
        key = (topic.name, partition)
        if key not in self.logs:
            self.logs[key] = ReplicaLog(self.medium)
        if self.logs[key].log is None:
            self.logs[key].open(is_commit_mode=self.is_commit_mode)
        return True

    def remove(self, topic, partition):
        self.logs.pop((topic, partition)).kill()

    def opened(self):
        return [(key, each) for key, each in self.logs.items() if each.log is not None]
