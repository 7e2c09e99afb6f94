"""Arrow columns that encoders of values read, and the bytes they write."""
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport free, realloc
from bowstring._native.value_column cimport memory_of

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


cdef tuple encoded(Out *out, int32_t *ends, int64_t rows):
    """The buffers of a binary array, offsets and bytes; takes the memory of both."""
    return memory_of(ends, (rows + 1) * sizeof(int32_t)), memory_of(out.data, out.used)


cdef class Sources:
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

    def __dealloc__(self):
        self.drop(self.root)

    cdef Source *make(self, tuple description) except NULL:
        cdef Source *source = <Source *>PyMem_Calloc(1, sizeof(Source))
        if source == NULL:
            raise MemoryError
        source.kind, source.width, source.first, validity, offsets, data, children = description
        source.validity = <const uint8_t *><uintptr_t>validity
        source.offsets = <const int32_t *><uintptr_t>offsets
        source.data = <const uint8_t *><uintptr_t>data
        source.children = <Source **>PyMem_Calloc(max(1, len(children)), sizeof(Source *))
        if source.children == NULL:
            PyMem_Free(source)
            raise MemoryError
        for child in children:
            source.children[source.n_children] = self.make(child)
            source.n_children += 1
        return source

    cdef void drop(self, Source *source):
        cdef int i
        if source != NULL:
            for i in range(source.n_children):
                self.drop(source.children[i])
            PyMem_Free(source.children)
            PyMem_Free(source)
