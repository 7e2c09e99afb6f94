"""Compares the sizes of decompressed records with max.decompressed.message.bytes.

Like Kafka's, the bound is that of a single record, as its length field states it, and holds for records of compressed
batches wherever the broker decompresses them.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from bowstring._native.base.varint cimport get_uvarint

cdef enum:
    DECOMPRESSED_RECORD_MAX_BYTES = 2147483639      # Kafka's default: no bound beyond what a record can have


cdef inline int64_t record_beyond(const uint8_t *at, const uint8_t *end, int32_t limit) noexcept nogil:
    """Returns the size of the first record in [at, end) with more than `limit` bytes; 0 if there is none.

    A malformed length ends the search: whoever reads the records refuses it."""
    cdef uint32_t doubled
    cdef int64_t n
    if limit >= DECOMPRESSED_RECORD_MAX_BYTES:
        return 0
    while at < end:
        if not get_uvarint(&at, end, False, &doubled) or doubled & 1:
            return 0
        n = doubled >> 1
        if n > limit:
            return n
        if n > end - at:
            return 0
        at += n
    return 0
