"""Measures group commit: batches staged in the write-ahead log of a directory, then written to the medium
together.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import ClassVar

from bench.suites.batch import TIMESTAMP_MS, one_batch
from bowstring._native.log.durability import durable_to, join
from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.wal.write_ahead_log import WriteAheadLog
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.storage.directory_wal import liburing_path

timer = time.process_time

TOPIC_ID = bytes(range(16))
SEGMENT_BYTES = 32 << 20
LEADER_EPOCH = 0
REUSE_AT_BYTES = 128 << 20


class GroupCommit:
    """Commits of several batches of ten 100-byte records of one partition."""

    param_names: ClassVar = ["io", "batches"]
    params: ClassVar = (["pwrite", "io_uring"], [1, 32])

    def setup(self, io: str, batches: int) -> None:
        """A write-ahead log of two segments, and a partition's log joined to it."""
        self.directory = Path(tempfile.mkdtemp(prefix="bowstring-bench-wal-"))
        try:
            self.wal = WriteAheadLog(
                self.directory, segment_bytes=SEGMENT_BYTES, io=io, liburing=liburing_path()
            )
        except OSError as error:
            shutil.rmtree(self.directory)
            raise NotImplementedError(str(error)) from error
        for number in range(2):
            self.wal.add_segment(number)
        folder = self.directory / "bench-0"
        folder.mkdir()
        config = BrokerConfigs().log_config({})
        self.log = PartitionLog(str(folder), config, recovery_point=0, clean_shutdown=True)
        self.log.assign_epoch(LEADER_EPOCH, 0)
        join(self.log, self.wal, TOPIC_ID, 0)
        self.batch = one_batch(10, 100)

    def time_commit(self, io: str, batches: int) -> None:
        """Appends, one commit, and the high watermark that it allows."""
        for _ in range(batches):
            self.log.append(self.batch, LEADER_EPOCH, TIMESTAMP_MS)
        self.wal.commit()
        durable_to(self.log, self.log.log_end_offset)
        if self.wal.take_wants_segment():
            # Like a checkpoint: sync the partition's file, and reuse the full segments.
            self.log.flush()
            self.wal.released(self.wal.closed_frame)
            if self.log.size_bytes > REUSE_AT_BYTES:
                self.log.truncate_fully_and_start_at(0)

    def teardown(self, io: str, batches: int) -> None:
        """Detaches the log and removes the files."""
        join(self.log, None, TOPIC_ID, 0)
        self.wal.stop()
        self.log.close()
        shutil.rmtree(self.directory)
