"""Plans: the memory of trees that decoders and encoders walk."""
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int32_t, uint8_t

cdef enum:
    BLOCK_BYTES = 16            # before what was asked for: as aligned as anything has to be


cdef class Plan:
    """What a tree is made of: `room` for its structs, texts, and the paths of its parts for messages."""

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
        """Zeroed bytes that stay as long as the plan."""
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
        """The number by which `paths` finds it."""
        self.paths.append(path)
        return <int>len(self.paths) - 1
