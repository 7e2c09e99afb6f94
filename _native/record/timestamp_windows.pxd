"""Windows of timestamps, for the audit of counts: they begin at multiples of their length since the epoch."""
from libc.stdint cimport int64_t

cdef struct TimeRun:
    # Records of one window.
    int64_t start                 # of the window, ms
    int64_t count
    int64_t newest                # largest timestamp, ms


cdef inline int64_t window_start(int64_t timestamp, int64_t window_ms) noexcept nogil:
    """The start of a timestamp's window."""
    cdef int64_t into = timestamp % window_ms
    return timestamp - (into if into >= 0 else into + window_ms)


cdef inline bint is_one_window(int64_t low, int64_t high, int64_t window_ms) noexcept nogil:
    """Whether timestamps from `low` to `high` lie in one window."""
    return high - window_start(low, window_ms) < window_ms
