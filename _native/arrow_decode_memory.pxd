"""Memory of columns and of fetched bytes: recycled, because fresh pages cost more than what is written to them."""
from libc.stdint cimport int64_t, uint8_t

cdef struct Growing:
    # Owned by whoever holds the struct until memory_of() or memory_discard(). All zero: nothing.
    uint8_t *data
    int64_t capacity

# Makes room for `more` bytes behind the first `used`, which are kept, and for MEMORY_SLACK_BYTES besides. False
# when there is no memory.
cdef bint memory_grow(Growing *g, int64_t used, int64_t more) noexcept nogil
cdef void memory_discard(Growing *g) noexcept nogil

cdef enum:
    MEMORY_SLACK_BYTES = 64       # behind the bytes asked for: loops may copy in whole steps of this many


cdef class Memory:
    # A buffer of `size` bytes that goes back to the pool when nobody looks at it any more.
    cdef Growing block
    cdef Py_ssize_t size
    cdef bint writable

# The first `size` bytes of `g`, which is empty afterwards.
cdef Memory memory_of(Growing *g, int64_t size)
