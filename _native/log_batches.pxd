"""Batches copied out of a log for the control thread, which may wait for the disk."""
from libc.stdint cimport int16_t, int64_t
from bowstring._native.log_types cimport Log, LogSlice, ReadCursor

# log_read, doing itself what reactors leave to the storage threads: waits for the disk, and never answers `cold`.
cdef int16_t read_warm(
    Log *log, int64_t offset, int64_t limit_offset, int64_t max_bytes, bint min_one,
    ReadCursor *cursor, LogSlice *out) noexcept nogil

# Whole batches from the one that holds `offset`, at most max_bytes but at least one; b"" when there is none below
# limit_offset. Raises LogError: CORRUPT_MESSAGE when it is a bad one.
cdef bytes copy_batches(Log *log, int64_t offset, int64_t limit_offset, int64_t max_bytes)
