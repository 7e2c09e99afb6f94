"""Measures one partition's log through PartitionLog: append, read, and the index lookups of a fetch."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import ClassVar

from bench.suites.batch import TIMESTAMP_MS, one_batch
from bowstring._native.log.partition_log import PartitionLog
from bowstring.engine.configs import BrokerConfigs

timer = time.process_time

LEADER_EPOCH = 0
REUSE_AT_BYTES = 256 << 20


class _OpenLog:
    """A new log with a broker's default settings, in a directory of its own."""

    def open_log(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="bowstring-bench-log-")) / "bench-0"
        self.directory.mkdir()
        self.log = PartitionLog(
            str(self.directory), BrokerConfigs().log_config({}), recovery_point=0, clean_shutdown=True
        )
        self.log.assign_epoch(LEADER_EPOCH, 0)

    def teardown(self, *_parameters: int) -> None:
        """Closes the log and removes its files."""
        self.log.close()
        shutil.rmtree(self.directory.parent)


class Append(_OpenLog):
    """Batches of 100-byte records into the page cache; parsed, CRC checked, assigned, indexed, written."""

    param_names: ClassVar = ["records"]
    params: ClassVar = [74, 148, 595, 9000]

    def setup(self, records: int) -> None:
        """An empty log and one batch."""
        self.open_log()
        self.batch = one_batch(records, 100)

    def time_append(self, records: int) -> None:
        """One batch; a full log starts over, so that the bench needs little disk."""
        if self.log.size_bytes > REUSE_AT_BYTES:
            self.log.truncate_fully_and_start_at(0)
        self.log.append(self.batch, LEADER_EPOCH, TIMESTAMP_MS)


class Read(_OpenLog):
    """Of 10,000 batches of 20 records each, about 22 MB, all of it in the page cache."""

    param_names: ClassVar = ["max_bytes"]
    params: ClassVar = [1, 1 << 16, 1 << 20]
    batches = 10_000
    records_per_batch = 20

    def setup(self, max_bytes: int) -> None:
        """Fills the log and chooses random offsets."""
        self.open_log()
        batch = one_batch(self.records_per_batch, 100)
        for _ in range(self.batches):
            self.log.append(batch, LEADER_EPOCH, TIMESTAMP_MS)
        draw = random.Random(1)
        self.offsets = [draw.randrange(self.batches * self.records_per_batch // 2) for _ in range(1024)]
        self.at = 0

    def time_read_at_random(self, max_bytes: int) -> None:
        """Offset index lookup, the headers up to the batch, and the bytes; 1 byte gives one batch."""
        self.at = (self.at + 1) % len(self.offsets)
        self.log.read(self.offsets[self.at], max_bytes, "log_end")


class IndexLookup(Read):
    """Lookups in the same log."""

    params: ClassVar = [1]

    def time_bytes_between(self, max_bytes: int) -> None:
        """Two offset index lookups, nothing read."""
        self.at = (self.at + 1) % len(self.offsets)
        self.log.bytes_between(self.offsets[self.at], self.log.log_end_offset)

    def time_offset_for_timestamp(self, max_bytes: int) -> None:
        """Time index, offset index, then the records of one batch."""
        self.log.offset_for_timestamp(TIMESTAMP_MS)
