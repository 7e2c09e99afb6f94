"""What encoders of values share: the loop over rows, the bytes they write, what cannot be written."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset
from bowstring._native.value_column cimport memory_of
from bowstring._native.value_source cimport Sources, source_is_null

cdef enum:
    OFFSET_MAX = 0x7fffffff


cdef bint out_grow(Out *out, int64_t size) noexcept nogil:
    """Room for `size` bytes more; False beyond 2 GiB, which a binary array cannot hold."""
    cdef int64_t capacity = min(<int64_t>OFFSET_MAX, max(out.used + size, out.capacity * 2, 4096))
    cdef void *grown
    if out.used + size > OFFSET_MAX:
        return False
    grown = realloc(out.data, capacity)
    if grown == NULL:
        return False
    out.data = <uint8_t *>grown
    out.capacity = capacity
    return True


cdef class Encoder(Plan):
    """Encodes columns, each format in its own way.

    Args:
        prefix: what every value begins with.
    """

    def __cinit__(self, bytes prefix, *rest):
        self.prefix = prefix

    cdef bint value(self, Out *out, const Source *source, int64_t row) noexcept nogil:
        return out_bad(out, 0, "a format has to say how values are written")

    def encode(self, Sources columns):
        """(offsets, bytes, None) of a binary array, or (None, None, what is wrong). OverflowError beyond 2 GiB."""
        cdef Out out
        cdef int64_t row = 0, rows = columns.rows
        cdef const uint8_t *prefix = self.prefix
        cdef int64_t prefix_size = len(self.prefix)
        cdef int32_t *ends = <int32_t *>calloc(rows + 1, sizeof(int32_t))
        cdef bint good = ends != NULL
        memset(&out, 0, sizeof(Out))
        with nogil:
            for row in range(rows):
                if not source_is_null(columns.root, row):
                    good = good and out_put(&out, prefix, prefix_size) and self.value(&out, columns.root, row)
                if not good:
                    break
                ends[row + 1] = <int32_t>out.used
        if good:
            return memory_of(ends, (rows + 1) * sizeof(int32_t)), memory_of(out.data, out.used), None
        free(ends)
        free(out.data)
        if out.fault == NULL:
            raise OverflowError
        return None, None, f"row {row}, {self.paths[out.where] or 'the value'}: {out.fault.decode()}"
