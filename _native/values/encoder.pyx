"""Common code of the encoders of values: the Arrow columns they read, the bytes they write, the loop over rows."""
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset
from bowstring._native.values.column cimport memory_of


cdef class Sources(Plan):
    """A tree of Arrow columns.

    Args:
        owner: kept alive.
        rows: of the root.
        description: (kind, width, first row, addresses of validity, offsets and data, [descriptions of the children]).
    """

    def __cinit__(self, owner, int64_t rows, tuple description):
        self.owner = owner
        self.rows = rows
        self.root = self.make(description)

    cdef Source *make(self, tuple description) except NULL:
        cdef Source *source = <Source *>self.room(sizeof(Source))
        source.kind, source.width, source.first, validity, offsets, data, children = description
        source.validity = <const uint8_t *><uintptr_t>validity
        source.offsets = <const int32_t *><uintptr_t>offsets
        source.data = <const uint8_t *><uintptr_t>data
        source.children = <Source **>self.room(len(children) * sizeof(Source *))
        for child in children:
            source.children[source.n_children] = self.make(child)
            source.n_children += 1
        return source


cdef bint out_grow(Out *out, int64_t size) noexcept nogil:
    """Makes room for `size` more bytes. False beyond the 2 GiB that a binary array can hold, or without memory."""
    cdef int64_t capacity = min(<int64_t>INT32_MAX, max(out.used + size, out.capacity * 2, 4096))
    cdef void *grown
    if out.used + size > INT32_MAX:
        return False
    grown = realloc(out.data, capacity)
    if grown == NULL:
        return False
    out.data = <uint8_t *>grown
    out.capacity = capacity
    return True


cdef class Encoder(Plan):
    """Encodes columns; a subclass for each format.

    Args:
        prefix: the first bytes of every value.
    """

    def __cinit__(self, bytes prefix, *rest):
        self.prefix = prefix

    cdef bint value(self, Out *out, const Source *source, int64_t row) noexcept nogil:
        return out_bad(out, 0, "a format has to say how values are written")

    def encode(self, Sources columns):
        """Returns (offsets, bytes, None) of a binary array, or (None, None, reason) on failure. OverflowError beyond 2 GiB."""
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
