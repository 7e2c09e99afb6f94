"""The health of one directory of log.dirs: whether its device still takes writes, and how long it takes for them.

Any thread may call these; none blocks. The control thread listens on LogDirectory.event_fd.
"""
from libc.stdint cimport int64_t
from bowstring._native.log_types cimport LogDirectory

# Whether a negated errno speaks of the device or the file system, and so of every log in the directory; not of
# memory, descriptors, permissions or one file.
cdef bint is_of_directory(int error) noexcept nogil
# Takes the directory out of service for good; the first caller's words are kept.
cdef void directory_fail(LogDirectory *directory, int error, const char *doing, const char *where) noexcept nogil
# An operation on one of its files took so long.
cdef void directory_took(LogDirectory *directory, int64_t ns) noexcept nogil

cdef class DirectoryHealth:
    """What Python sees of it; owns the struct. See directory_health.pyx."""
    cdef LogDirectory directory
    cdef readonly str path
