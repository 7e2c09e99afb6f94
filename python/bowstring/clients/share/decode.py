"""Turns what a share fetch delivered into records, and notes offsets without one."""

from __future__ import annotations

from bowstring._native.record import compression
from bowstring._native.record import decode as native
from bowstring._native.record.types import CorruptBatch
from bowstring.clients.errors import CorruptBatchError
from bowstring.clients.records import Record
from bowstring.clients.share.fetcher import Delivered
from bowstring.clients.share.records import ShareRecord


def decode(delivered: Delivered, verify_crc: bool, limit: int) -> list[ShareRecord]:
    """Returns the acquired records, in order; `limit`: most bytes that a batch may decompress to.

    Raises:
        CorruptBatchError: a batch fails its CRC or cannot be decoded.
    """
    if not delivered.data:
        return []
    first = delivered.ranges[0].first
    try:
        if verify_crc:
            native.scan(delivered.data)
        records = native.decode_records(Record, *delivered.partition, delivered.data, first, limit=limit)
    except (CorruptBatch, compression.CompressionError) as error:
        raise unreadable(delivered, error) from error
    found: list[ShareRecord] = []
    at = 0
    for held in delivered.ranges:
        while at < len(records) and records[at].offset < held.first:
            at += 1
        begin = at
        while at < len(records) and records[at].offset <= held.last:
            at += 1
        part = records[begin:at]
        if len(part) == len(held.said):
            held.has_all()
        else:
            held.has(record.offset for record in part)
        found += [ShareRecord(*record, held.delivery_count) for record in part]
    return found


def unreadable(delivered: Delivered, error: Exception) -> CorruptBatchError:
    """Returns the error for records that cannot be decoded."""
    first, last = delivered.ranges[0].first, delivered.ranges[-1].last
    reason = compression.explained(error, "max_decompressed_batch_bytes")
    return CorruptBatchError(
        f"{delivered.partition} from offset {first} to {last}: {reason}; the records are rejected, so "
        "that the group goes on after them"
    )
