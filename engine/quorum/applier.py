"""Applies the committed records of the metadata log to the image of the cluster, and calls listeners."""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from bowstring._native.record.decode import batch_headers, decode_batches
from bowstring._native.record.types import CorruptBatch, Record
from bowstring.engine.metadata.image import ClusterImage, MetadataError
from bowstring.engine.metadata.quorum import QuorumFacts
from bowstring.engine.metadata.records import decode_record
from bowstring.engine.metadata.snapshot import SnapshotError
from bowstring.engine.metadata.store.reader import unusable_record
from bowstring.engine.quorum.log import MetadataRaftLog
from bowstring.engine.raft.keys import OffsetAndEpoch
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.protocol import ProtocolError
from bowstring.protocol.features import HIGHEST_METADATA_VERSION, METADATA_VERSION
from bowstring.protocol.records.control_batch import decode_control_key
from bowstring.protocol.schema import MetadataRecord

AppliedListener = Callable[[Sequence[MetadataRecord], int, int], None]
"""Called with the records of a batch, the offset after it, and its epoch."""
SnapshotListener = Callable[[ClusterImage, int, int], None]
"""Called with the whole image, the offset that it reaches, and the epoch there."""
_FRAME_VERSION: Final = 1
_READ_BYTES: Final = 256 * 1024
_DECODED_AT_ONCE: Final = 64


class _Batch:
    """A committed batch on its way into the image.

    Attributes:
        end_offset, epoch: Of the batch.
        records: Those that are not decoded yet; None before the first.
        decoded, controls: Metadata records, and keys and values of control records.
        offset: Of the next record.
    """

    def __init__(self, data: bytes, end_offset: int, epoch: int) -> None:
        self.data = data
        self.end_offset = end_offset
        self.epoch = epoch
        self.records: Iterator[Record] | None = None
        self.decoded: list[MetadataRecord] = []
        self.controls: list[tuple[bytes, bytes]] = []
        self.offset = end_offset


class ImageApplier:
    """The image of the cluster as of a committed offset.

    Attributes:
        image: The cluster after the records below `applied`.
        quorum: kraft.version and voters there.
        applied: Offset of the next record to apply.
        epoch: Epoch of the last applied record.
        last_timestamp_ms: Its timestamp.
        new_bytes: Bytes applied since the last snapshot.
        on_applied, on_snapshot: Listeners; see the types.
    """

    def __init__(self, log: MetadataRaftLog) -> None:
        self._log = log
        self.image = ClusterImage()
        self.quorum = QuorumFacts()
        self.applied = 0
        self.epoch = 0
        self.last_timestamp_ms = 0
        self.new_bytes = 0
        self.on_applied: list[AppliedListener] = []
        self.on_snapshot: list[SnapshotListener] = []
        self._batches: deque[_Batch] = deque()

    def load(self) -> None:
        """Starts from the newest snapshot.

        Raises:
            DataDirectoryError: It is damaged.
            OSError: It cannot be read now.
        """
        id = self._log.latest_snapshot_id()
        if id is None:
            return
        try:
            self.take(id, *self._log.load_snapshot(id))
        except SnapshotError as error:
            raise DataDirectoryError(
                f"the snapshot {id.offset}-{id.epoch} in {self._log.path} is damaged: {error}; restore "
                "it from a copy, or give this node an empty data directory"
            ) from error

    def take(self, id: OffsetAndEpoch, image: ClusterImage, quorum: QuorumFacts) -> None:
        """Continues from the content of a snapshot."""
        self._check_version(image)
        self._batches.clear()
        self.image, self.quorum = image, quorum
        self.applied, self.epoch = id
        self.new_bytes = self._log.bytes_from(id.offset)
        for listener in self.on_snapshot:
            listener(image, id.offset, id.epoch)

    def advance(self, high_watermark: int, until_ns: int) -> bool:
        """Applies records below `high_watermark` until CLOCK_MONOTONIC is `until_ns`; returns whether all
        are applied.

        A batch counts as a whole: no reader sees some partitions of a new topic without the others. Decoding
        is most of the work, and takes as many calls as it needs; the decoded batch is applied in one.

        Raises:
            DataDirectoryError: A record cannot be read or applied.
        """
        while self.applied < high_watermark:
            if not self._batches:
                self._read(high_watermark)
            if not self._batches:
                return True
            batch = self._batches[0]
            try:
                if not self._decode(batch, until_ns):
                    return False
                self._apply(batch)
            except (ProtocolError, MetadataError, CorruptBatch) as error:
                raise unusable_record(self._log.path, batch.offset, error) from error
            self._check_version(self.image)
            self._batches.popleft()
            self.applied, self.epoch = batch.end_offset, batch.epoch
            for listener in self.on_applied:
                listener(batch.decoded, batch.end_offset, batch.epoch)
            if time.monotonic_ns() >= until_ns:
                return self.applied >= high_watermark
        return True

    def records_ahead(self, end_offset: int, kinds: Collection[type[MetadataRecord]]) -> list[MetadataRecord]:
        """Returns records of some kinds in the log, from `applied` to `end_offset`, without applying them."""
        # A record begins with the version of its frame, and its kind as a varint.
        heads = {bytes((_FRAME_VERSION, kind.api_key)) for kind in kinds}
        found, at = [], self.applied
        while at < end_offset and (data := self._log.read(at, _READ_BYTES)):
            for record in decode_batches(data):
                value = record.value or b""
                if record.offset >= at and not record.control and value[:2] in heads:
                    found.append(decode_record(value))
            at = 1 + max((header.last_offset for header in batch_headers(data)), default=end_offset)
        return found

    def _read(self, high_watermark: int) -> None:
        """Reads batches from `applied` on, but no uncommitted one: it may be replaced."""
        data = self._log.read(self.applied, _READ_BYTES)
        for header in batch_headers(data):
            if header.base_offset < high_watermark:
                end = header.position + header.size_bytes
                self._batches.append(
                    _Batch(data[header.position : end], header.last_offset + 1, header.leader_epoch)
                )

    def _decode(self, batch: "_Batch", until_ns: int) -> bool:
        """Decodes records of a batch; returns whether it has all."""
        if batch.records is None:
            batch.records = iter(decode_batches(batch.data))
            self.new_bytes += len(batch.data)
        for record in batch.records:
            batch.offset = record.offset
            if record.offset < self.applied:
                continue
            self.last_timestamp_ms = record.timestamp
            if record.control:
                batch.controls.append((record.key or b"", record.value or b""))
                continue
            batch.decoded.append(decode_record(record.value or b""))
            if len(batch.decoded) % _DECODED_AT_ONCE == 0 and time.monotonic_ns() >= until_ns:
                return False
        return True

    def _apply(self, batch: "_Batch") -> None:
        for key, value in batch.controls:
            self.quorum.apply(decode_control_key(key), value)
        batch.offset = batch.end_offset - len(batch.decoded)
        for record in batch.decoded:
            self.image.apply(record)
            batch.offset += 1

    def _check_version(self, image: ClusterImage) -> None:
        level = image.features.get(METADATA_VERSION, HIGHEST_METADATA_VERSION)
        if level > HIGHEST_METADATA_VERSION:
            raise DataDirectoryError(
                f"the cluster is at metadata.version {level}, but this version supports at most "
                f"{HIGHEST_METADATA_VERSION}: start the version that wrote {self._log.path}"
            )
