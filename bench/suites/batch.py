"""Measures record batches of 100-byte values: validated like a produced batch, encoded and decoded by
columns.
"""

from __future__ import annotations

import random
import time
from array import array
from typing import ClassVar

from bowstring._native.record.batch import validate
from bowstring._native.record.decode import decode_columns
from bowstring._native.record.encode import BatchBuilder
from bowstring._native.record.encode_columns import encode_columns

timer = time.process_time

TIMESTAMP_MS = 1_700_000_000_000
LARGEST_BATCH_BYTES = 1 << 30


def value_column(rows: int, value_bytes: int) -> tuple[bytes, array[int]]:
    """`rows` values of the same length, as an Arrow binary array's data and offsets."""
    data = random.Random(0).randbytes(rows * value_bytes)
    return data, array(
        "i", range(0, rows * value_bytes + 1, value_bytes) if value_bytes else [0] * (rows + 1)
    )


def one_batch(rows: int, value_bytes: int) -> bytes:
    """All rows as one uncompressed batch."""
    column = value_column(rows, value_bytes)
    (batch,) = encode_columns(column, timestamps=TIMESTAMP_MS, max_bytes=LARGEST_BATCH_BYTES)
    return batch


class HundredByteRecords:
    """Batches of 74 records (8 KB), 148 (16 KiB), 595 (64 KiB) and 9,000 (just under 1 MiB)."""

    param_names: ClassVar = ["records"]
    params: ClassVar = [74, 148, 595, 9_000]

    def setup(self, records: int) -> None:
        """The column, the batch made of it, and its values as objects."""
        self.column = value_column(records, 100)
        self.batch = one_batch(records, 100)
        data = self.column[0]
        self.values = [data[at : at + 100] for at in range(0, len(data), 100)]
        self.builder = BatchBuilder()

    def time_validate(self, records: int) -> None:
        """The broker's checks on produce: header, CRC-32C, the framing of every record."""
        error, reason, _ = validate(self.batch, now_ms=TIMESTAMP_MS)
        assert error == 0, reason

    def time_encode_columns(self, records: int) -> None:
        """Columns to a batch, CRC included."""
        encode_columns(self.column, timestamps=TIMESTAMP_MS, max_bytes=LARGEST_BATCH_BYTES)

    def time_append_and_build(self, records: int) -> None:
        """Record by record, as a producer's send() adds them."""
        append = self.builder.append
        for value in self.values:
            append(None, value, TIMESTAMP_MS)
        self.builder.build()
        self.builder.clear()

    def time_decode_columns(self, records: int) -> None:
        """A batch to columns of positions and lengths, CRC checked."""
        decode_columns(self.batch)


class Varint:
    """Records without key, value or headers, which are seven varints each."""

    param_names: ClassVar = ["records"]
    params: ClassVar = [10_000]

    def setup(self, records: int) -> None:
        """Offset deltas up to `records` take one to three bytes."""
        self.column = value_column(records, 0)
        self.batch = one_batch(records, 0)

    def time_write(self, records: int) -> None:
        """Seven varints a record."""
        encode_columns(self.column, timestamps=TIMESTAMP_MS, max_bytes=LARGEST_BATCH_BYTES)

    def time_read(self, records: int) -> None:
        """Seven varints a record."""
        decode_columns(self.batch, verify_crc=False)
