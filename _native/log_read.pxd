"""Reading from a log; see log.pxd for log_read and log_bytes_between, which these are."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from bowstring._native.log_types cimport Log, LogSlice, ReadCursor

cdef int16_t read_slice(
    Log *log, int64_t offset, int64_t limit_offset, int64_t max_bytes, bint min_one,
    ReadCursor *cursor, LogSlice *out) noexcept nogil
# Nothing is known of where the reader is.
cdef void cursor_forget(ReadCursor *cursor) noexcept nogil
cdef int64_t bytes_between(Log *log, int64_t offset, int64_t limit_offset) noexcept nogil

cdef struct FoundBatch:
    # A batch copied out of the log, for a search inside it. The caller frees `data`.
    uint8_t *data                   # NULL: nothing found
    int64_t size_bytes
    int64_t first_offset            # records below it don't count

# First batch reaching from_offset (or the log start) that may have a record at `timestamp` or later: takes the
# lock itself.
cdef int batch_by_timestamp(Log *log, int64_t timestamp, int64_t from_offset, FoundBatch *out) noexcept nogil
# The batch with the largest timestamp in the log, which goes to *timestamp.
cdef int batch_of_max_timestamp(Log *log, int64_t *timestamp, FoundBatch *out) noexcept nogil
