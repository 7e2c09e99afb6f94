"""File descriptors kept for files, so that connections run out of them first.

The process holds a reserve of duplicated descriptors: an eighth of the limit on open files, at most 1,024. All but 64 of them
have high numbers: a broker may share its process with programs that wait with select(2), which takes none above 1,023.
Whoever cannot open a file borrows one: the reserve closes one of its own, and the caller tries again. While less than half of
the reserve is there, the acceptors of connections refuse them.

Files of partitions stay open, and there may be more of them than the reserve has. So they leave it the last descriptors, which
keep the node itself going: its metadata log, the segments of the write-ahead log, checkpoints, connections to other nodes, and
code that Python imports on first use. Threads that work on those say so once (`this_thread_takes_last`).

Any thread may call these; none blocks.
"""

# Gives up one descriptor of the reserve after `error` (a negated errno), but none of the last to threads that do not take those.
# Returns whether the caller should try again; always False for errors that no descriptor of this process cures.
cdef bint descriptors_lend(int error) noexcept nogil
# Does the same with the last descriptors, too.
cdef bint descriptors_lend_last(int error) noexcept nogil
# Whether the calling thread may keep open what it has just opened: the last descriptors are in the reserve, or it takes those.
cdef bint descriptors_allow() noexcept nogil
# Whether descriptors have run out, and the reserve was not half full since.
cdef bint descriptors_short() noexcept nogil
# Fills the reserve as far as possible, or shrinks it to what the present limit allows. Returns whether it is half full, and so
# the shortage over.
cdef bint descriptors_refill() noexcept nogil
# Counts a connection that was closed for want of descriptors.
cdef void descriptors_refused() noexcept nogil
