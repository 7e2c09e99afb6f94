"""Allocates the plans that decoders and encoders walk, see plan.pxd."""
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport uint8_t

cdef enum:
    BLOCK_BYTES = 16            # of a block's header: keeps what follows aligned for any type


cdef class Plan:
    """The memory of a tree: its structs, its texts, and the paths of its parts for error messages."""

    def __cinit__(self):
        self.kept = []
        self.paths = []

    def __dealloc__(self):
        cdef Block *block
        while self.last != NULL:
            block = self.last
            self.last = block.before
            PyMem_Free(block)

    cdef void *room(self, size_t size) except NULL:
        """Zeroed bytes that live as long as the plan."""
        cdef Block *block = <Block *>PyMem_Calloc(1, BLOCK_BYTES + size)
        if block == NULL:
            raise MemoryError
        block.before = self.last
        self.last = block
        return <uint8_t *>block + BLOCK_BYTES

    cdef Text text(self, bytes text) except *:
        cdef Text out
        self.kept.append(text)
        out.at = b"" if text is None else text
        out.size = -1 if text is None else len(text)
        out.number = 0
        return out

    cdef Text *texts(self, list numbered) except NULL:
        """An array of (number, bytes or None)."""
        cdef Text *out = <Text *>self.room(len(numbered) * sizeof(Text))
        cdef int i
        for i, (number, text) in enumerate(numbered):
            out[i] = self.text(text)
            out[i].number = number
        return out

    cdef int path(self, str path) except -1:
        """Adds a path and returns its index in `paths`."""
        self.paths.append(path)
        return <int>len(self.paths) - 1
