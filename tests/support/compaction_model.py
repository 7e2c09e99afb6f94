"""A slow, obvious model of compaction: batches are values, and every rule is one line of Kafka's documentation.

It has no files: the log is a list of batches and the history of all markers ever written.
"""

from dataclasses import dataclass, field

from tests.support.compacted_logs import DELETE_HORIZON, KeptBatch
from tests.support.log_batches import CONTROL, TRANSACTIONAL

CODEC = 0x07
ABORT_KEY = b"\0\0\0\0"


@dataclass
class ModelLog:
    """The batches that are still in the log, and all markers ever written."""

    batches: list[KeptBatch] = field(default_factory=list)
    markers: list[tuple[int, int, bool]] = field(default_factory=list)  # (offset, producer id, abort)
    last_data: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)

    def append(self, batch: KeptBatch) -> None:
        self.batches.append(batch)
        if batch.attributes & CONTROL:
            self.markers.append((batch.base_offset, batch.producer_id, batch.records[0][2] == ABORT_KEY))
        elif batch.producer_id >= 0:
            self.last_data[batch.producer_id] = batch.last_offset
        if batch.producer_id >= 0:
            self.epochs[batch.producer_id] = batch.epoch

    def aborted(self, batch: KeptBatch) -> bool:
        """Whether the transaction of a batch was aborted."""
        if not batch.attributes & TRANSACTIONAL:
            return False
        return next(
            (abort for at, who, abort in self.markers if who == batch.producer_id and at > batch.last_offset),
            False,
        )

    def newest(self, first_dirty: int, end: int) -> dict[bytes, int]:
        """Returns the newest offset of each key in the dirty part."""
        found: dict[bytes, int] = {}
        for batch in self.batches:
            if batch.attributes & CONTROL or batch.last_offset >= end or self.aborted(batch):
                continue
            for offset, _, key, _ in batch.records:
                if key is not None and offset >= first_dirty:
                    found[key] = offset
        return found

    def is_last_of_producer(self, batch: KeptBatch) -> bool:
        if batch.producer_id in self.last_data:
            return batch.last_offset == self.last_data[batch.producer_id]
        return bool(batch.attributes & CONTROL) and self.epochs.get(batch.producer_id) == batch.epoch

    def clean(self, first_dirty: int, end: int, now: int, retention_ms: int) -> None:
        """Cleans [.., end) in one run; keys from first_dirty on are new."""
        newest = self.newest(first_dirty, end)
        with_data: set[int] = set()  # producers with data of an open transaction
        left = []
        for batch in self.batches:
            if batch.base_offset >= end:
                left.append(batch)
                continue
            control = bool(batch.attributes & CONTROL)
            if control and batch.records:
                needless = batch.producer_id not in with_data
                with_data.discard(batch.producer_id)
            elif control:
                needless = True
            else:
                needless = self.aborted(batch)
                if batch.attributes & TRANSACTIONAL:
                    with_data.add(batch.producer_id)
            must_stay = self.is_last_of_producer(batch) or batch is self.batches[-1]
            left += self._filtered(batch, newest, needless, must_stay, now, retention_ms)
        self.batches = left

    def _filtered(self, batch, newest, needless, must_stay, now, retention_ms) -> list[KeptBatch]:
        control = bool(batch.attributes & CONTROL)
        expired = batch.horizon is not None and batch.horizon <= now
        if control:
            records = () if needless and expired else batch.records
        else:
            records = tuple(
                (offset, timestamp, key, value)
                for offset, timestamp, key, value in batch.records
                if not needless
                and key is not None
                and newest.get(key, -1) <= offset
                and (value is not None or not expired)
            )
        if not records:
            emptied = batch.attributes & ~(CODEC | DELETE_HORIZON)
            return [batch._replace(attributes=emptied, horizon=None, records=())] if must_stay else []
        tombstones = any(value is None for *_, value in records) and not control
        if (tombstones or (needless and control)) and batch.horizon is None:
            return [
                batch._replace(
                    attributes=batch.attributes | DELETE_HORIZON,
                    horizon=now + retention_ms,
                    records=records,
                )
            ]
        return [batch._replace(records=records)]
