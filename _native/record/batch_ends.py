"""Finds where a fetched record batch ends, for readers that pass over one that cannot be read."""

from __future__ import annotations

from bowstring._native.record.decode import batch_headers

# Bytes of a batch that hold its length; those behind it count.
LENGTH_AT = 8
LENGTH_END = 12


def end_of_first(data: memoryview) -> int | None:
    """Returns the offset behind the first batch, to go on at when that is bad; None when its length is wrong.

    A batch that fails its CRC may lie about its last offset, so the base offset of the next one counts.
    """
    try:
        first, *following = batch_headers(first_two(data))
    except ValueError:  # CorruptBatch, or there is no complete batch
        return None
    return following[0].base_offset if following else first.last_offset + 1


def first_two(data: memoryview) -> memoryview:
    """Returns the bytes of the first two batches, or fewer if there are fewer."""
    end = 0
    for _ in range(2):
        end += batch_bytes(data[end:])
    return data[:end]


def batch_bytes(data: memoryview) -> int:
    """Returns how many bytes the first batch has, as its header says; that may be more than there are."""
    return LENGTH_END + int.from_bytes(data[LENGTH_AT:LENGTH_END], "big")
