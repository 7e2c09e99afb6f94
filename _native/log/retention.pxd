"""Deletes from the start of a log: retention and DeleteRecords. Functions take Log.lock except where said."""
from libc.stdint cimport int16_t, int32_t, int64_t
from bowstring._native.log.types cimport Log

cdef enum RetentionReason:
    START_OFFSET_BREACH = 1
    RETENTION_SIZE_BREACH = 2
    RETENTION_MS_BREACH = 3

cdef struct RetiredSegment:
    int64_t base_offset
    int64_t size_bytes
    RetentionReason reason

# Deletes segments by the topic's settings and the log start, at most `capacity` in one call. Returns their number, or a
# negated errno.
cdef int32_t log_apply_retention(Log *log, int64_t now_ms, RetiredSegment *retired, int32_t capacity) noexcept nogil
# Unlinks *.deleted files whose delay has passed. Returns their number, or a negated errno.
cdef int32_t log_unlink_expired(Log *log, int64_t now_ms) noexcept nogil
# Moves the log start up to before_offset (-1: to the high watermark): 0 or OFFSET_OUT_OF_RANGE.
cdef int16_t log_delete_records(Log *log, int64_t before_offset) noexcept nogil
# Moves the log start without checks, for an offset that is known to be valid. With Log.lock.
cdef void raise_start(Log *log, int64_t offset) noexcept nogil
