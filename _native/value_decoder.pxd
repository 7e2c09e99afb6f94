"""What decoders of values share: the loop over rows, Confluent's framing, bad values, varints."""
from libc.stdint cimport int64_t, uint8_t, uint64_t
from bowstring._native.value_column cimport Columns
from bowstring._native.value_plan cimport Plan

# A value that is read. What follows may be read up to `end`.
ctypedef struct Reading:
    const uint8_t *begin
    const uint8_t *at
    const uint8_t *end
    const char *fault       # why the value is bad; NULL if it is not, or a column is full
    int where               # the path of the part that is bad, -1 for the value itself
    int64_t empty_items     # of Avro: items so far that took no bytes


cdef inline bint bad(Reading *r, int where, const char *why) noexcept nogil:
    r.fault = why
    r.where = where
    return False


cdef inline bint read_uvarint(Reading *r, const uint8_t *end, int where, uint64_t *value) noexcept nogil:
    """A number of at most 64 bits, least significant group of seven first."""
    cdef uint64_t total = 0
    cdef int shift = 0
    cdef uint8_t byte
    while shift < 70:
        if r.at >= end:
            return bad(r, where, "the value ends too soon")
        byte = r.at[0]
        r.at += 1
        total |= <uint64_t>(byte & 0x7f) << shift
        if byte < 0x80:
            value[0] = total
            return True
        shift += 7
    return bad(r, where, "a number has more than ten bytes")


cdef class Decoder(Plan):
    """Fills columns with values. A format says what one value is: `value` reads it from `r.at` into a row, and answers
    False with the fault in `r` if it is bad."""
    cdef Columns columns
    cdef bint framed
    cdef bint value(self, Reading *r, int64_t row) noexcept nogil
    cdef str message(self, const Reading *r)
