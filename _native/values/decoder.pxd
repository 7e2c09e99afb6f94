"""Common code of the decoders of values: the loop over rows, Confluent's framing, bad values, varints."""
from libc.stdint cimport int64_t, uint8_t, uint64_t
from bowstring._native.values.column cimport Columns
from bowstring._native.values.plan cimport Plan

cdef enum:
    FRAME_BYTES = 5             # a zero byte, the schema's id

# A value that is being read. Bytes may be read up to `end`.
ctypedef struct Reading:
    const uint8_t *begin
    const uint8_t *at
    const uint8_t *end
    const char *fault       # why the value is bad; NULL: it is not, or a column is full
    int where               # the path of the bad part; -1: the value itself
    int64_t empty_items     # of Avro: items so far that take no bytes


cdef inline bint bad(Reading *r, int where, const char *why) noexcept nogil:
    r.fault = why
    r.where = where
    return False


cdef inline bint read_uvarint(Reading *r, const uint8_t *end, int where, uint64_t *value) noexcept nogil:
    """Reads an unsigned varint of at most 64 bits (LEB128)."""
    cdef uint64_t total = 0
    cdef int shift = 0
    cdef uint8_t byte
    while shift < 70:
        if r.at >= end:
            return bad(r, where, "the value is truncated")
        byte = r.at[0]
        r.at += 1
        total |= <uint64_t>(byte & 0x7f) << shift
        if byte < 0x80:
            value[0] = total
            return True
        shift += 7
    return bad(r, where, "a number has more than ten bytes")


cdef class Decoder(Plan):
    """Fills columns with values. Each format overrides value(): it reads one value from `r.at` into a row, and returns
    False with the fault in `r` if it is bad."""
    cdef Columns columns
    cdef bint framed
    cdef bint value(self, Reading *r, int64_t row) noexcept nogil
    cdef str message(self, const Reading *r)
    # Reads one value into row 0, which the caller clears. False: it is bad, or a column is full (no fault then).
    cdef bint one(self, Reading *r, const uint8_t *at, int64_t size) noexcept nogil
