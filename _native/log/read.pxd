"""Reads from a log without waiting for the disk, except for an index. log_* functions take Log.lock."""
from libc.stdint cimport int16_t, int64_t
from bowstring._native.log.types cimport Log, LogSlice, ReadCursor

# Finds up to max_bytes of complete batches from the one with `offset` on, ending below `limit_offset` (high watermark,
# last stable offset, or log end). With min_one a first batch larger than max_bytes is returned, too. Returns 0,
# OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR, or CORRUPT_MESSAGE when the batch that holds `offset` is bad. Updates *cursor.
# offset == limit_offset gives an empty slice. out.cold says that cold_read (disk_read.pxd) has to read the range first.
cdef int16_t log_read(
    Log *log, int64_t offset, int64_t limit_offset, int64_t max_bytes, bint min_one,
    ReadCursor *cursor, LogSlice *out) noexcept nogil
# Ends the slice before the first batch that reaches `offset`, but keeps its first batch, and moves the cursor. Returns
# the offset at which the slice then ends, or a negated errno.
cdef int64_t slice_shorten(LogSlice *slice, int64_t offset, ReadCursor *cursor) noexcept nogil
# Clears the cursor: the next read looks its offset up.
cdef void cursor_forget(ReadCursor *cursor) noexcept nogil
# Returns the bytes from offset to limit_offset, which fetch.min.bytes needs: off by less than an index interval at
# either end.
cdef int64_t log_bytes_between(Log *log, int64_t offset, int64_t limit_offset) noexcept nogil
