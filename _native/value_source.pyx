"""Arrow columns that encoders of values read."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t


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
