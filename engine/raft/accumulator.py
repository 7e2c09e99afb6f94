"""Collects the records that a leader appends until they are written as a batch."""

from collections.abc import Sequence
from typing import Final

from bowstring._native.record.encode import encode_batch

MAX_BATCH_BYTES: Final = 8 * 1024 * 1024
"""Kafka's limit for a batch of the metadata log."""
_RECORD_OVERHEAD_BYTES: Final = 32

Entry = tuple[bytes | None, bytes]
"""Key and value; only control records have keys."""


def check_size(entries: Sequence[Entry]) -> int:
    """Returns an upper bound of the bytes of a batch.

    Raises:
        ValueError: It is too large.
    """
    size_bytes = sum(len(value) + _RECORD_OVERHEAD_BYTES for _, value in entries)
    if size_bytes > MAX_BATCH_BYTES:
        raise ValueError(f"{size_bytes} bytes are too much for a batch of {MAX_BATCH_BYTES}")
    return size_bytes


class _Batch:
    __slots__ = ("base_offset", "control", "entries", "size_bytes", "timestamp_ms")

    def __init__(self, base_offset: int, control: bool, timestamp_ms: int) -> None:
        self.base_offset = base_offset
        self.control = control
        self.timestamp_ms = timestamp_ms
        self.entries: list[Entry] = []
        self.size_bytes = 0


class BatchAccumulator:
    """The records of one leader epoch that have offsets and are not written yet.

    Attributes:
        next_offset: Offset of the next record.
    """

    def __init__(self, epoch: int, base_offset: int, linger_ms: int) -> None:
        self.epoch = epoch
        self.next_offset = base_offset
        self._linger_ms = linger_ms
        self._batches: list[_Batch] = []
        self._drain_at_ms: int | None = None

    @property
    def drain_at_ms(self) -> int | None:
        """When the collected records are due to be written; None when there are none."""
        return self._drain_at_ms

    def append(self, entries: list[Entry], now_ms: int) -> int:
        """Adds records that are written in one batch, all or none; returns the offset of the last one.

        Raises:
            ValueError: They are too large for a batch.
        """
        size_bytes = check_size(entries)
        last = self._batches[-1] if self._batches else None
        if last is None or last.control or last.size_bytes + size_bytes > MAX_BATCH_BYTES:
            last = self._begin(control=False, now_ms=now_ms)
        if self._drain_at_ms is None:
            self._drain_at_ms = now_ms + self._linger_ms
        return self._add(last, entries, size_bytes)

    def append_control(self, entries: list[Entry], now_ms: int) -> int:
        """Adds control records in a batch of their own, due at once; returns the offset of the last one."""
        self._drain_at_ms = now_ms
        return self._add(self._begin(control=True, now_ms=now_ms), entries, 0)

    def drain(self) -> list[bytes]:
        """Returns the encoded batches, and forgets them."""
        batches, self._batches, self._drain_at_ms = self._batches, [], None
        return [
            encode_batch(
                [(key, value, each.timestamp_ms, None) for key, value in each.entries],
                base_offset=each.base_offset,
                leader_epoch=self.epoch,
                control=each.control,
            )
            for each in batches
        ]

    def _begin(self, *, control: bool, now_ms: int) -> _Batch:
        self._batches.append(_Batch(self.next_offset, control, now_ms))
        return self._batches[-1]

    def _add(self, batch: _Batch, entries: list[Entry], size_bytes: int) -> int:
        batch.entries += entries
        batch.size_bytes += size_bytes
        self.next_offset += len(entries)
        return self.next_offset - 1
