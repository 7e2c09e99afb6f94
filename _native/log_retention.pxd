"""What makes a log shorter: retention, DeleteRecords, truncation. All take the lock themselves."""
from libc.stdint cimport int16_t, int32_t, int64_t
from bowstring._native.log_types cimport Log

cdef enum RetentionReason:
    START_OFFSET_BREACH = 1
    RETENTION_SIZE_BREACH = 2
    RETENTION_MS_BREACH = 3

cdef struct RetiredSegment:
    int64_t base_offset
    int64_t size_bytes
    RetentionReason reason

# Deletes what the topic's settings and the log start let go of; at most `capacity` segments in one call.
# The number deleted, or a negated errno.
cdef int32_t log_apply_retention(Log *log, int64_t now_ms, RetiredSegment *retired, int32_t capacity) noexcept nogil
# Unlinks *.deleted files whose delay has passed; how many, or a negated errno.
cdef int32_t log_unlink_expired(Log *log, int64_t now_ms) noexcept nogil
# Moves the log start up to before_offset (-1: to the high watermark): 0 or OFFSET_OUT_OF_RANGE.
cdef int16_t log_delete_records(Log *log, int64_t before_offset) noexcept nogil
# Log, epochs and producers as they were when `offset` was the log end. 0 or a negated errno.
cdef int log_truncate_to(Log *log, int64_t offset, int64_t now_ms) noexcept nogil
cdef int log_truncate_fully(Log *log, int64_t offset, int64_t now_ms) noexcept nogil
