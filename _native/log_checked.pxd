"""What is known of a segment's bytes: which were checked, which are bad, which are surely in memory.

A batch's CRC is looked at when it is produced, when recovery or a storage thread reads it from the disk, and by the
scrubber. What this process wrote counts as checked; so does what it has read, until it comes from the disk again.
Everything here wants Log.lock.
"""
from libc.stdint cimport int64_t
from bowstring._native.log_types cimport Segment

cdef enum:
    NEVER_READ = -1                 # Segment.index_clock

# Bytes that went through the page cache for this process's logs so far: how far in the past something was read or
# written says whether it is still there, without a system call.
cdef int64_t io_clock() noexcept nogil
cdef int64_t io_clock_advance(int64_t bytes) noexcept nogil
# What was written from `position` on was written so lately that it is in memory.
cdef bint segment_recent(const Segment *segment, int64_t position) noexcept nogil
cdef bint index_warm(const Segment *segment) noexcept nogil

# [start, end) has been read and checked; what was bad has been marked.
cdef void segment_verified(Segment *segment, int64_t start, int64_t end) noexcept nogil
# How far from `position` on everything is checked: `position` itself when nothing is.
cdef int64_t checked_until(const Segment *segment, int64_t position) noexcept nogil
# The file is not what it was: all of it is to be checked again.
cdef void segment_unverify(Segment *segment) noexcept nogil
# The file ends at size_bytes now.
cdef void segment_checks_cut(Segment *segment, int64_t size_bytes) noexcept nogil

# Keeps [position, position + size_bytes) from being served: 1, 0 when it was known, or -ENOMEM.
cdef int segment_mark_corrupt(Segment *segment, int64_t position, int64_t size_bytes) noexcept nogil
# Where the bad range that holds `position` ends, or -1 when none does.
cdef int64_t corrupt_end(const Segment *segment, int64_t position) noexcept nogil
# Where the bad ranges begin that end at `position`; `position` itself when none does.
cdef int64_t corrupt_begin(const Segment *segment, int64_t position) noexcept nogil
# Where the first bad range at or after `position` begins, or INT64_MAX.
cdef int64_t corrupt_next(const Segment *segment, int64_t position) noexcept nogil
