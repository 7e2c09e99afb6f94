"""Plans of decoders and encoders: trees of structs, compiled from a schema and freed as a whole."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp

ctypedef struct Text:
    const uint8_t *at
    int64_t size            # -1: None
    int32_t number          # of an enum's name

ctypedef struct Block:
    Block *before


cdef inline bint text_is(const Text *text, const uint8_t *at, int64_t size) noexcept nogil:
    return text.size == size and memcmp(text.at, at, size) == 0


cdef inline int text_find(const Text *texts, int count, const uint8_t *at, int64_t size) noexcept nogil:
    """The index of a text among others; -1: it is not there."""
    cdef int i
    for i in range(count):
        if text_is(&texts[i], at, size):
            return i
    return -1


cdef class Plan:
    """Owns the tree's memory, and keeps the Python objects of its texts and paths."""
    cdef Block *last
    cdef list kept
    cdef list paths
    cdef void *room(self, size_t size) except NULL
    cdef Text text(self, bytes text) except *
    cdef Text *texts(self, list numbered) except NULL
    cdef int path(self, str path) except -1
