"""Segments: their list, the batch headers in them, their timestamps. All with Log.lock held."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from bowstring._native.batch cimport BatchInfo
from bowstring._native.log_types cimport LogConfig, LogState, Segment

cdef enum:
    WALK_BYTES = 8192

cdef struct Walk:
    # Goes from header to header of a .log file through a small window. With `segment` it passes over what is known
    # to be bad there, and `skipped_to` says where that ended (-1: nowhere yet).
    int fd
    const Segment *segment
    int64_t skipped_to
    int64_t position                # of the next batch
    int64_t end
    int64_t window_start
    int64_t window_bytes
    uint8_t[8192] window

cdef void walk_start(Walk *walk, int fd, int64_t position, int64_t end) noexcept nogil
# The header at walk.position, without moving: 1, 0 at the end, or a negated errno (EBADMSG: no batch is there).
cdef int walk_peek(Walk *walk, BatchInfo *info) noexcept nogil

cdef inline int64_t last_offset_of(const BatchInfo *info) noexcept nogil:
    return info.base_offset + info.last_offset_delta

cdef inline Segment *active_segment(const LogState *state) noexcept nogil:
    return state.segments[state.segment_count - 1]

# Index of the segment whose base offset is the largest <= offset, or -1.
cdef int32_t segment_floor(const LogState *state, int64_t offset) noexcept nogil
# One that is in no list yet; NULL without memory.
cdef Segment *segment_make(int64_t base_offset, int64_t size_bytes, int64_t now_ms) noexcept nogil
# Adds to the end of the list; NULL without memory.
cdef Segment *segment_add(LogState *state, int64_t base_offset, int64_t size_bytes, int64_t now_ms) noexcept nogil
# Makes the three files of a new active segment.
cdef int segment_create(LogState *state, int64_t base_offset, int64_t now_ms) noexcept nogil
cdef void segment_free(Segment *segment) noexcept nogil
# Takes [first, first + n) off the list without freeing them.
cdef void segments_remove(LogState *state, int32_t first, int32_t n) noexcept nogil

# First batch whose last offset >= offset: 1 and its place, 0 when there is none below `end`, or a negated errno.
cdef int segment_locate(
    const LogState *state, Segment *segment, int64_t offset, int64_t end, int64_t *position,
    BatchInfo *info) noexcept nogil
# Makes the active segment ready for appends: the ends of its indexes are read. Opening a log leaves that to the
# first append or read, so that idle partitions cost nothing.
cdef int segment_activate(LogState *state) noexcept nogil
cdef int64_t segment_largest_timestamp(LogState *state, Segment *segment) noexcept nogil
# What Kafka's retention goes by: the largest timestamp, or when the file was last written if there is none.
cdef int64_t segment_age_timestamp(LogState *state, Segment *segment) noexcept nogil
cdef int64_t segment_first_timestamp(LogState *state, Segment *segment) noexcept nogil
# Last offset + 1 of the active segment by its index and headers; a negated errno below zero.
cdef int64_t segment_end_offset(LogState *state, Segment *segment) noexcept nogil
# Renames the segment's files to *.deleted, frees it, and has them unlinked after `delay_ms`.
cdef int segment_delete(LogState *state, Segment *segment, int64_t now_ms, int64_t delay_ms) noexcept nogil
cdef int file_delete_later(
    LogState *state, int64_t base_offset, const char *suffix, int64_t now_ms, int64_t delay_ms) noexcept nogil
