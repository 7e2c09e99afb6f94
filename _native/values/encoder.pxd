"""Common code of the encoders of values: the Arrow columns they read, the bytes they write, the loop over rows."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy
from bowstring._native.base.varint cimport VARLONG_MAX_BYTES, put_uvarint64
from bowstring._native.values.plan cimport Plan

# ---------------------------------------------------------------- columns to read

cdef enum SourceKind:
    S_NULL = 0
    S_BOOLEAN = 1
    S_SIGNED = 2        # integers, dates, times, timestamps of `width` bytes
    S_UNSIGNED = 3
    S_FLOAT = 4
    S_DOUBLE = 5
    S_BYTES = 6         # strings and binaries
    S_FIXED = 7         # fixed-size binaries and decimals of `width` bytes
    S_LIST = 8
    S_MAP = 9           # children: keys, values
    S_STRUCT = 10

ctypedef struct Source:
    int kind
    int width
    int64_t first               # the row that counts as 0
    const uint8_t *validity
    const int32_t *offsets
    const uint8_t *data
    int n_children
    Source **children


cdef inline bint source_is_null(const Source *source, int64_t row) noexcept nogil:
    cdef int64_t at = source.first + row
    return source.kind == S_NULL or (source.validity != NULL and not source.validity[at >> 3] >> (at & 7) & 1)


cdef inline bint source_boolean(const Source *source, int64_t row) noexcept nogil:
    cdef int64_t at = source.first + row
    return source.data[at >> 3] >> (at & 7) & 1


cdef inline const uint8_t *source_fixed(const Source *source, int64_t row) noexcept nogil:
    return source.data + (source.first + row) * source.width


cdef inline int64_t source_integer(const Source *source, int64_t row) noexcept nogil:
    """The bits of a number, sign-extended if it is S_SIGNED."""
    cdef int64_t at = source.first + row
    cdef int64_t value = 0
    if source.width == 8:
        return (<const int64_t *>source.data)[at]
    memcpy(&value, source.data + at * source.width, source.width)
    if source.kind == S_SIGNED:
        value = value << (64 - 8 * source.width) >> (64 - 8 * source.width)
    return value


cdef inline const uint8_t *source_bytes(const Source *source, int64_t row, int64_t *size) noexcept nogil:
    cdef int64_t at = source.first + row
    size[0] = source.offsets[at + 1] - source.offsets[at]
    return source.data + source.offsets[at]


cdef inline int64_t source_items(const Source *source, int64_t row, int64_t *count) noexcept nogil:
    """The row of a list's first item in the child; sets `count` to the number of items."""
    cdef int64_t at = source.first + row
    count[0] = source.offsets[at + 1] - source.offsets[at]
    return source.offsets[at]


cdef class Sources(Plan):
    """A tree of Arrow columns, kept alive."""
    cdef Source *root
    cdef object owner
    cdef readonly int64_t rows
    cdef Source *make(self, tuple description) except NULL

# ---------------------------------------------------------------- bytes to write

ctypedef struct Out:
    uint8_t *data
    int64_t used
    int64_t capacity
    const char *fault           # why a row cannot be written; NULL: it can, or there is no room
    int where                   # the path of the part that cannot be written

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
    """Writes a value for each row. Each format overrides value(), which returns False with the fault in `out`."""
    cdef bytes prefix
    cdef bint value(self, Out *out, const Source *source, int64_t row) noexcept nogil
