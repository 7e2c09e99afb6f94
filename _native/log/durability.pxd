"""A log and the write-ahead log that makes its appends durable."""
from libc.stdint cimport int64_t
from bowstring._native.log.types cimport Log

cdef enum:
    NOW = -1                        # for log_durable_to: `offset` is of the log as it is

# Records that the log is on the medium up to `offset`; with `advance`, moves the high watermark, too. `cuts`: Log.cuts when
# the log ended there. What was cut since does not count.
cdef void log_durable_to(Log *log, int64_t cuts, int64_t offset, bint advance) noexcept nogil
