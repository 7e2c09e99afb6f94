"""Measures the parts of a start after a crash, of a checkpoint and of the scrubber."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import ClassVar

from bench.suites.batch import TIMESTAMP_MS, one_batch
from bowstring._native.log.checkpoint import flush_logs
from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.log.scan import scan_file
from bowstring.engine.configs import BrokerConfigs

timer = time.process_time

LEADER_EPOCH = 0


class _Logs:
    """Logs with a broker's default settings below a directory of their own."""

    def make(self, n: int) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="bowstring-bench-recovery-"))
        self.logs = []
        for index in range(n):
            (self.directory / f"bench-{index}").mkdir()
            self.logs.append(self.open(index, point=0, clean=True))
            self.logs[-1].assign_epoch(LEADER_EPOCH, 0)

    def open(self, index: int, *, point: int, clean: bool) -> PartitionLog:
        return PartitionLog(
            str(self.directory / f"bench-{index}"),
            BrokerConfigs().log_config({"message.timestamp.type": "LogAppendTime"}),
            recovery_point=point,
            clean_shutdown=clean,
        )

    def fill(self, log: PartitionLog, size_bytes: int, batch: bytes) -> None:
        while log.size_bytes < size_bytes:
            log.append(batch, LEADER_EPOCH, TIMESTAMP_MS + log.log_end_offset)

    def teardown(self, *_parameters: int) -> None:
        """Removes the files."""
        self.logs.clear()
        shutil.rmtree(self.directory)


class Scan(_Logs):
    """Headers and CRCs of 32 MB in the page cache, by the size of their batches."""

    param_names: ClassVar = ["batch_bytes"]
    params: ClassVar = [1 << 10, 1 << 14, 1 << 18]
    size_bytes = 32_000_000

    def setup(self, batch_bytes: int) -> None:
        """Writes the file."""
        self.make(1)
        self.fill(self.logs[0], self.size_bytes, one_batch(1, batch_bytes))
        self.path = self.directory / "bench-0" / f"{0:020d}.log"

    def time_scan(self, batch_bytes: int) -> None:
        """The whole file; 10,667 µs are 3 GB/s."""
        scan_file(self.path)


class Recovery(_Logs):
    """A log of 32 MB whose last part was written after a checkpoint."""

    param_names: ClassVar = ["new_bytes"]
    params: ClassVar = [0, 1 << 20, 1 << 24]
    size_bytes = 32_000_000

    def setup(self, new_bytes: int) -> None:
        """Fills the log, with a checkpoint on the way, and leaves it unclosed."""
        self.make(1)
        batch = one_batch(16, 1024)
        self.fill(self.logs[0], self.size_bytes - new_bytes, batch)
        flush_logs(self.logs)
        self.fill(self.logs[0], self.size_bytes, batch)
        self.point = self.logs[0].recovery_point

    def time_open(self, new_bytes: int) -> None:
        """Opens it after an unclean stop: the time depends on the new records."""
        self.open(0, point=self.point, clean=False)


class Checkpoint(_Logs):
    """Logs with one new batch each, or none."""

    param_names: ClassVar = ["logs"]
    params: ClassVar = [1, 100]

    def setup(self, logs: int) -> None:
        """Empty logs."""
        self.make(logs)
        self.batch = one_batch(1, 100)

    def time_something_new(self, logs: int) -> None:
        """Appends to all and puts them on the medium."""
        for each in self.logs:
            each.append(self.batch, LEADER_EPOCH, TIMESTAMP_MS)
        flush_logs(self.logs)

    def time_nothing_new(self, logs: int) -> None:
        """A lock each."""
        flush_logs(self.logs)
