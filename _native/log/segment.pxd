"""Segments: their list, batch headers, timestamps, deletion and truncation. Call all functions under Log.lock."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from bowstring._native.log.types cimport LogState, Segment, SegmentFile
from bowstring._native.record.batch cimport BatchInfo

cdef enum:
    WALK_BYTES = 8192

cdef struct Walk:
    # Reads the batch headers of a .log file one after the other through a small window. With `segment` it skips ranges that are known to be
    # bad, and `skipped_to` is where the last one ended (-1: none yet).
    int fd
    const Segment *segment
    int64_t skipped_to
    int64_t position                # of the next batch
    int64_t end
    int64_t window_start
    int64_t window_bytes
    uint8_t[WALK_BYTES] window

cdef void walk_start(Walk *walk, int fd, int64_t position, int64_t end) noexcept nogil
# Reads the header at walk.position without advancing: 1, 0 at the end, or a negated errno (EBADMSG: there is no batch).
cdef int walk_peek(Walk *walk, BatchInfo *info) noexcept nogil

cdef inline int64_t last_offset_of(const BatchInfo *info) noexcept nogil:
    return info.base_offset + info.last_offset_delta

cdef inline Segment *active_segment(const LogState *state) noexcept nogil:
    return state.segments[state.segment_count - 1]

# Returns the index of the segment with the largest base offset <= offset, or -1.
cdef int32_t segment_floor(const LogState *state, int64_t offset) noexcept nogil
cdef bint begins_segment(const LogState *state, int64_t offset) noexcept nogil
# Creates a segment that is in no list yet; NULL when memory ran out.
cdef Segment *segment_make(int64_t base_offset, int64_t size_bytes, int64_t now_ms) noexcept nogil
# Creates a segment at the end of the list; NULL when memory ran out.
cdef Segment *segment_add(LogState *state, int64_t base_offset, int64_t size_bytes, int64_t now_ms) noexcept nogil
# Creates the first segment of a new log: its .log file. The index files come with their first entries.
cdef int segment_begin(LogState *state, int64_t base_offset, int64_t now_ms) noexcept nogil
# Creates the index files of a segment if they are missing: Kafka logs each missing one as an error.
cdef int indexes_complete(const LogState *state, int64_t base_offset) noexcept nogil
# Creates the three files of a new active segment.
cdef int segment_create(LogState *state, int64_t base_offset, int64_t now_ms) noexcept nogil
cdef void segment_free(Segment *segment) noexcept nogil
# Removes [first, first + n) from the list without freeing them.
cdef void segments_remove(LogState *state, int32_t first, int32_t n) noexcept nogil

# Finds the first batch whose last offset >= offset: 1 and its position, 0 when there is none below `end`, or a negated
# errno.
cdef int segment_locate(
    const LogState *state, Segment *segment, int64_t offset, int64_t end, int64_t *position,
    BatchInfo *info) noexcept nogil
# Like segment_locate, with an open .log; `segment` may be a copy (LogView in timestamp_search.pyx).
cdef int segment_locate_in(
    const LogState *state, Segment *segment, int fd, int64_t offset, int64_t end, int64_t *position,
    BatchInfo *info) noexcept nogil
# Reads the ends of the active segment's indexes, so that it is ready for appends. Called by the first append or read, not
# when the log is opened: idle partitions cost nothing.
cdef int segment_activate(LogState *state) noexcept nogil
cdef int64_t segment_largest_timestamp(LogState *state, Segment *segment) noexcept nogil
# Returns the time that Kafka's retention uses: the largest timestamp, or the file's modification time if there is none.
cdef int64_t segment_age_timestamp(LogState *state, Segment *segment) noexcept nogil
cdef int64_t segment_first_timestamp(LogState *state, Segment *segment) noexcept nogil
# Returns the last offset + 1 of the active segment, from its index and headers; or a negated errno.
cdef int64_t segment_end_offset(LogState *state, Segment *segment) noexcept nogil
# Renames the segment's files to *.deleted and frees it; housekeeping unlinks them after `delay_ms`.
cdef int segment_delete(LogState *state, Segment *segment, int64_t now_ms, int64_t delay_ms) noexcept nogil
cdef int file_delete_later(
    LogState *state, int64_t base_offset, const char *suffix, int64_t now_ms, int64_t delay_ms) noexcept nogil

# ---------------------------------------------------------------- truncation

# Truncates the segment's .log to size_bytes: 0 or a negated errno. Call it under Log.lock, or before the log is shared. If
# a local reader maps the file under a shared lock (docs/internals/local-reads.md), the file is not changed: a shorter copy
# replaces it under its name, and the segment drops `file`, which the caller still holds.
cdef int log_cut(const LogState *state, Segment *segment, SegmentFile *file, int64_t size_bytes) noexcept nogil
