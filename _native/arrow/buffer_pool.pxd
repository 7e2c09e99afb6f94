"""Recycles memory for columns and fetched bytes: page faults of fresh memory cost more than writing the columns."""
from libc.stdint cimport int64_t, uint8_t

cdef struct Growing:
    # A block that grows. The struct owns the memory until memory_of() or memory_discard(). All zero: empty.
    uint8_t *data
    int64_t capacity

# Makes room for `more` bytes after the first `used`, which are kept, and for MEMORY_SLACK_BYTES more. False when memory ran
# out.
cdef bint memory_grow(Growing *g, int64_t used, int64_t more) noexcept nogil
cdef void memory_discard(Growing *g) noexcept nogil

cdef enum:
    MEMORY_SLACK_BYTES = 64       # loops may copy in steps of this size, past the end of the requested bytes


cdef class Memory:
    # A buffer of `size` bytes. Its block returns to the pool when the last reference to it ends.
    cdef Growing block
    cdef Py_ssize_t size
    cdef bint writable

# Returns the first `size` bytes of `g`, which is empty afterwards.
cdef Memory memory_of(Growing *g, int64_t size)
