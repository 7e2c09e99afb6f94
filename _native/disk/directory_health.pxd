"""The health of one directory of log.dirs: whether its device accepts writes, and how long they take.

Any thread may call these; none blocks. The control thread listens on LogDirectory.event_fd.
"""
from libc.errno cimport EAGAIN, EINTR, EMFILE, ENFILE, ENOMEM
from libc.stdint cimport int32_t, int64_t
from bowstring._native.disk.tail_pool cimport TailMemory, TailPool
from bowstring._native.disk.thread_pool cimport StoragePool

cdef struct LogDirectory:
    # One directory of log.dirs, shared by the logs in it. Owned by its DirectoryHealth, which outlives those logs. Only
    # directory_fail and directory_took change it.
    int32_t failed                # 1 after an I/O error: its logs refuse appends until the next start
    int error                     # errno of the first failure
    int event_fd                  # becomes readable when the directory fails or is slow; -1: no listener
    int64_t slow_ns               # longer operations count as slow; 0: none do
    int64_t slow_operations
    int64_t slowest_ns            # the slowest one since the last query
    TailPool *tails               # for staged tails in os mode: they survive the process; NULL: none are staged
    TailPool *wal_tails           # in commit mode
    StoragePool *behind           # threads that write back what was appended; NULL: the kernel does it alone
    int32_t behind_all            # also what this broker leads, not only what it follows
    char[64] doing
    char[512] where

# Whether a negated errno concerns the device or the file system, and so every log in the directory; not memory,
# descriptors, permissions or a single file.
cdef bint is_of_directory(int error) noexcept nogil
# Whether a negated errno may pass by itself: no descriptors, no memory. The disk has no part in it.
cdef inline bint may_pass(int error) noexcept nogil:
    return -error in (EMFILE, ENFILE, ENOMEM, EINTR, EAGAIN)
# Has the listener look at the directory: one of its logs failed for an error that may pass.
cdef void directory_tell(LogDirectory *directory) noexcept nogil
# Takes the directory out of service until the next start; keeps the first caller's description.
cdef void directory_fail(LogDirectory *directory, int error, const char *doing, const char *where) noexcept nogil
# Records the duration of an operation on one of the directory's files.
cdef void directory_took(LogDirectory *directory, int64_t ns) noexcept nogil

cdef class DirectoryHealth:
    """The Python class of a LogDirectory; owns the struct. See directory_health.pyx."""
    cdef LogDirectory directory
    cdef readonly str path
    cdef TailMemory tails
    cdef TailMemory wal_tails
    cdef StoragePool behind
