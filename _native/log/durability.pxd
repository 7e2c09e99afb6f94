"""A log and the write-ahead log that makes its appends durable."""
from libc.stdint cimport int64_t
from bowstring._native.log.types cimport Log

# Records that the log is on the medium up to `offset`; with `advance`, moves the high watermark, too.
cdef void log_durable_to(Log *log, int64_t offset, bint advance) noexcept nogil
