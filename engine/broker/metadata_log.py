"""__cluster_metadata on one node: records are appended and synced before the image, and the world, see them.

The log is an ordinary partition log in `__cluster_metadata-0`. Each start of the broker is a new leader
epoch, as each new leader of a quorum would be.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from bowstring._native.decode import decode_batches
from bowstring._native.encode import encode_batch
from bowstring._native.log import PartitionLog
from bowstring.engine.broker.data_directory import (
    METADATA_PARTITION_DIRECTORY,
    METADATA_TOPIC_ID,
    DataDirectory,
    DataDirectoryError,
)
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import ClusterImage, MetadataError
from bowstring.engine.metadata.records import decode_record, encode_record
from bowstring.engine.protocol import ProtocolError
from bowstring.engine.protocol.schema import MetadataRecord

# Kafka's own bound on a batch of the metadata log; a change larger than this becomes several batches.
MAX_BATCH_BYTES: Final = 8 * 1024 * 1024
_READ_BYTES: Final = 4 * 1024 * 1024


class MetadataLog:
    """The metadata log and the image it has led to.

    Only `commit` changes the image. A change reads the image, decides, and commits inside one
    ``async with changing()``, so that no two decisions rest on the same state.
    """

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.leader_epoch = 0
        self._lock = asyncio.Lock()
        self._log: PartitionLog | None = None
        self._path = ""

    @property
    def log(self) -> PartitionLog:
        """The log itself; it must be open."""
        assert self._log is not None, "the metadata log is not open"
        return self._log

    @property
    def end_offset(self) -> int:
        """Offset that the next record will have."""
        return int(self.log.log_end_offset)

    def open(self, directory: DataDirectory, configs: BrokerConfigs) -> None:
        """Opens or recovers the log and replays it into the image.

        Raises:
            DataDirectoryError: The log holds what this version cannot read; the message says where.
        """
        path = directory.path / METADATA_PARTITION_DIRECTORY
        is_new = not path.exists()
        path.mkdir(exist_ok=True)
        self._path = str(path)
        config = dict(configs.log_config({}))
        config.update(
            segment_bytes=configs.value("metadata.log.segment.bytes"),
            max_message_bytes=MAX_BATCH_BYTES,
            retention_ms=-1,
            retention_bytes=-1,
            delete_enabled=0,
            compacted=0,
            log_append_time=0,
            compression=-1,
        )
        if is_new:
            directory.write_partition_metadata(METADATA_PARTITION_DIRECTORY, METADATA_TOPIC_ID)
        # After a crash recovered from its first byte: it is small, and everything rests on it.
        self._log = PartitionLog(self._path, config, recovery_point=0, clean_shutdown=directory.was_clean)
        self._replay()
        self.leader_epoch = max(self.log.leader_epoch, 0) + 1
        self.log.assign_epoch(self.leader_epoch, self.end_offset)

    def close(self) -> None:
        """Syncs and closes the log."""
        if self._log is not None:
            self._log.flush()
            self._log.close()
            self._log = None

    def _replay(self) -> None:
        offset = self.log.log_start_offset
        end = self.log.log_end_offset
        while offset < end:
            data = self.log.read(offset, _READ_BYTES, "log_end")
            for record in decode_batches(data):
                if record.offset < offset or record.control:
                    continue
                try:
                    self.image.apply(decode_record(record.value or b""))
                except (ProtocolError, MetadataError) as error:
                    raise DataDirectoryError(
                        f"{self._path}, record {record.offset}: {error}; perhaps a newer version wrote it: "
                        "start that one, or restore the directory from a copy"
                    ) from error
                offset = record.offset + 1

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

    def commit_at_start(self, records: Sequence[MetadataRecord]) -> None:
        """The same before the event loop runs."""
        if records:
            self._append(records)
            self.log.flush()
            self._apply(records)

    def _append(self, records: Sequence[MetadataRecord]) -> None:
        now_ms = time.time_ns() // 1_000_000
        entries: list[tuple[None, bytes, int, list[tuple[str, bytes]]]] = []
        size_bytes = 0
        for record in records:
            value = encode_record(record)
            if size_bytes + len(value) > MAX_BATCH_BYTES // 2:
                self.log.append(encode_batch(entries), self.leader_epoch, now_ms)
                entries, size_bytes = [], 0
            entries.append((None, value, now_ms, []))
            size_bytes += len(value) + 32
        self.log.append(encode_batch(entries), self.leader_epoch, now_ms)

    def _apply(self, records: Sequence[MetadataRecord]) -> None:
        self.image.apply_all(records)
        self.log.advance_high_watermark(self.end_offset)
