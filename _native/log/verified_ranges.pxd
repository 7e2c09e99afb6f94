"""Tracks which of a segment's bytes were checked, which are bad, and which are certainly in memory.

A batch's CRC is checked when the batch is produced, when recovery or a storage thread reads it from the disk, and by the
scrubber. Bytes that this process wrote count as checked; so do bytes that it has read, until they must be read from the
disk again. Call all functions under Log.lock.
"""
from libc.stdint cimport int64_t
from bowstring._native.log.types cimport Segment

cdef enum:
    NEVER_READ = -1                 # Segment.index_clock

# A clock that counts the bytes this process's logs have read and written through the page cache. Its advance since a range
# was read or written shows whether the range is still cached, without a system call.
cdef int64_t io_clock() noexcept nogil
cdef int64_t io_clock_advance(int64_t bytes) noexcept nogil
# Whether all bytes from `position` on were written so recently that they are in memory.
cdef bint segment_recent(const Segment *segment, int64_t position) noexcept nogil
cdef bint index_warm(const Segment *segment) noexcept nogil

# Records that [start, end) was read and checked, and that its bad batches are marked.
cdef void segment_verified(Segment *segment, int64_t start, int64_t end) noexcept nogil
# Returns the end of the checked range that begins at `position`; `position` itself when nothing is checked.
cdef int64_t checked_until(const Segment *segment, int64_t position) noexcept nogil
# Call it when the file has changed: all of it must be checked again.
cdef void segment_unverify(Segment *segment) noexcept nogil
# Call it when the file was truncated to size_bytes.
cdef void segment_checks_cut(Segment *segment, int64_t size_bytes) noexcept nogil

# Marks [position, position + size_bytes) as bad, so that it is not served: 1, 0 when it was marked before, or -ENOMEM.
cdef int segment_mark_corrupt(Segment *segment, int64_t position, int64_t size_bytes) noexcept nogil
# The range was replaced by good batches: it is served again.
cdef void segment_unmark_corrupt(Segment *segment, int64_t position, int64_t size_bytes) noexcept nogil
# Returns where the bad range that contains `position` ends, or -1 when none does.
cdef int64_t corrupt_end(const Segment *segment, int64_t position) noexcept nogil
# Returns where the bad ranges that end at `position` begin; `position` itself when there are none.
cdef int64_t corrupt_begin(const Segment *segment, int64_t position) noexcept nogil
# Returns where the first bad range at or after `position` begins, or INT64_MAX.
cdef int64_t corrupt_next(const Segment *segment, int64_t position) noexcept nogil
