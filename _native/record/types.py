"""Python types of decoded record batches."""

from __future__ import annotations

from typing import NamedTuple

CREATE_TIME = 0
LOG_APPEND_TIME = 1


class CorruptBatch(ValueError):
    """Bytes that are not a well-formed record batch; the message says where and what is wrong."""


class Record(NamedTuple):
    """One record. `timestamp` is in ms since the epoch, -1 for none; `timestamp_type` 0 is CreateTime, 1
    LogAppendTime; `control` marks a transaction marker or another record that consumers do not see."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    control: bool


class BatchHeader(NamedTuple):
    """The header of one record batch of magic 2, and its position in the buffer that it was read from.

    `crc_ok` is None if the CRC was not checked.
    """

    position: int
    size_bytes: int
    base_offset: int
    leader_epoch: int
    crc: int
    crc_ok: bool | None
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        """Offset of the last record of the original batch; compaction may have removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & 0x07

    @property
    def timestamp_type(self) -> int:
        """0 CreateTime, 1 LogAppendTime."""
        return self.attributes >> 3 & 1

    @property
    def transactional(self) -> bool:
        """Whether the batch is part of a transaction (KIP-98)."""
        return bool(self.attributes & 0x10)

    @property
    def control(self) -> bool:
        """Whether the batch has control records: transaction markers, leader changes."""
        return bool(self.attributes & 0x20)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the batch's tombstones and markers (KIP-534); None when not yet set."""
        return self.base_timestamp if self.attributes & 0x40 else None


class BatchRows(NamedTuple):
    """The rows of one batch in decoded columns."""

    header: BatchHeader
    source: int
    first_row: int
    rows: int
