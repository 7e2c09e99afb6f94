"""A log and the write-ahead log that makes its appends durable."""
from libc.stdint cimport int64_t
from bowstring._native.log_types cimport Log

# The log is on the medium up to `offset`: the high watermark follows if nothing else moves it.
cdef void log_durable_to(Log *log, int64_t offset, bint advance) noexcept nogil
