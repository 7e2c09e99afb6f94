"""Appending to a log; see log.pxd for log_append, which this is."""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.log_types cimport AppendEntry, Log

cdef void append_entries(
    Log *log, AppendEntry **entries, int32_t n, int32_t leader_epoch, int64_t now_ms) noexcept nogil
