"""What encoders of values share: the loop over rows, the bytes they write, what cannot be written."""
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy
from bowstring._native.value_plan cimport Plan
from bowstring._native.value_source cimport Source
from bowstring._native.varint cimport VARLONG_MAX_BYTES, put_uvarint64

ctypedef struct Out:
    uint8_t *data
    int64_t used
    int64_t capacity
    const char *fault           # why a row cannot be written; NULL if it can, or there is no room
    int where                   # the path of the part that cannot

cdef bint out_grow(Out *out, int64_t size) noexcept nogil


cdef inline bint out_room(Out *out, int64_t size) noexcept nogil:
    return out.capacity - out.used >= size or out_grow(out, size)


cdef inline bint out_put(Out *out, const void *data, int64_t size) noexcept nogil:
    if not out_room(out, size):
        return False
    if size > 0:                                         # data may be NULL
        memcpy(out.data + out.used, data, size)
    out.used += size
    return True


cdef inline bint out_byte(Out *out, uint8_t value) noexcept nogil:
    if not out_room(out, 1):
        return False
    out.data[out.used] = value
    out.used += 1
    return True


cdef inline bint out_uvarint(Out *out, uint64_t value) noexcept nogil:
    if not out_room(out, VARLONG_MAX_BYTES):
        return False
    out.used = put_uvarint64(out.data + out.used, value) - out.data
    return True


cdef inline bint out_bad(Out *out, int where, const char *why) noexcept nogil:
    out.fault = why
    out.where = where
    return False


cdef class Encoder(Plan):
    """Writes a value for each row. A format says how: `value` answers False with the fault in `out` if it cannot."""
    cdef bytes prefix
    cdef bint value(self, Out *out, const Source *source, int64_t row) noexcept nogil
