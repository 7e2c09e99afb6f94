"""File descriptors kept for files, so that connections run out of them first.

The process holds a reserve of duplicated descriptors. Whoever cannot open a file borrows one: the reserve closes one of
its own, and the caller tries again. While the reserve is not full, the acceptors of connections refuse them.

Any thread may call these; none blocks.
"""

# Gives up one descriptor of the reserve after `error` (a negated errno). Returns whether the caller should try again; always
# False for errors that no descriptor of this process cures.
cdef bint descriptors_lend(int error) noexcept nogil
# Whether descriptors have run out since the reserve was last full.
cdef bint descriptors_short() noexcept nogil
# Fills the reserve as far as possible. Returns whether it is full, and so the shortage over.
cdef bint descriptors_refill() noexcept nogil
# Counts a connection that was closed for want of descriptors.
cdef void descriptors_refused() noexcept nogil
