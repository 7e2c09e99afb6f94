"""Arrow columns that encoders of values read."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy
from bowstring._native.value_plan cimport Plan

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
    """Of S_SIGNED, sign-extended, or of S_UNSIGNED: the bits."""
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
    """The first item of a list in the child, and how many there are."""
    cdef int64_t at = source.first + row
    count[0] = source.offsets[at + 1] - source.offsets[at]
    return source.offsets[at]


cdef class Sources(Plan):
    """A tree of Arrow columns, kept alive."""
    cdef Source *root
    cdef object owner
    cdef readonly int64_t rows
    cdef Source *make(self, tuple description) except NULL
