"""Truncates a log."""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.log.types cimport Log

# Both functions take Log.lock and return 0 or a negated errno.

# Restores log, epochs and producers as they were when `offset` was the log end.
cdef int log_truncate_to(Log *log, int64_t offset, int64_t now_ms) noexcept nogil
# Empties the log, which continues at `offset`.
cdef int log_truncate_fully(Log *log, int64_t offset, int64_t now_ms) noexcept nogil
# The steps of log_truncate_to, for heal.pyx. Call them under Log.lock.
cdef int truncate_within(Log *log, int64_t offset, int64_t now_ms) noexcept nogil
cdef int tell_wal(Log *log, int32_t kind, int64_t offset) noexcept nogil
