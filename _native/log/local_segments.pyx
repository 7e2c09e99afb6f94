"""Lists the parts of a log that a reader on this machine may map: open files and ranges (docs/internals/local-reads.md).

A reader gets the same batches as from log_read: complete batches below the limit, without batches known to be bad. Each
file is opened again, for reading only.
"""
from libc.errno cimport errno
from libc.stdint cimport INT64_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport strerror
from posix.fcntl cimport O_CLOEXEC, O_RDONLY, open as open_file
from posix.stat cimport fstat, struct_stat
from posix.unistd cimport close
from bowstring._native.base.atomics cimport load_i64
from bowstring._native.base.bigendian cimport load_be64
from bowstring._native.base.error_codes cimport CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.disk.file_ops cimport PATH_BYTES, read_range
from bowstring._native.disk.staged_tail cimport tail_write_out
from bowstring._native.log.disk_read cimport read_warm
from bowstring._native.log.partition_log cimport PartitionLog
from bowstring._native.log.read cimport cursor_forget
from bowstring._native.log.segment cimport segment_floor
from bowstring._native.log.segment_files cimport segment_file, segment_file_path, segment_file_release
from bowstring._native.log.types cimport (
    LOOKS_MAX, VERIFIED_RANGES, ByteRange, Log, LogSlice, LogState, ReadCursor, Segment, SegmentFile, state_of)
from bowstring._native.log.verified_ranges cimport corrupt_next
from bowstring._native.record.batch cimport BATCH_BASE_OFFSET
from bowstring._native.log.python_values import LogError

cdef enum:
    CHECKED_RANGES = VERIFIED_RANGES + 1    # and what this process appended

cdef struct SharedSegment:
    int64_t base_offset
    int64_t end_offset
    int64_t start_position
    int64_t end_position
    int8_t active
    int8_t checked_count
    ByteRange checked[CHECKED_RANGES]
    SegmentFile *file               # held
    int fd                          # separate and read-only; -1: closed, or now the caller's
    int64_t device
    int64_t inode
    char path[PATH_BYTES]

cdef struct Share:
    # in
    int64_t offset
    bint read_committed
    int64_t below_offset            # batches that reach this offset are left out
    int32_t capacity
    # out
    int64_t log_start_offset
    int64_t high_watermark
    int64_t last_stable_offset
    int64_t truncations
    int64_t limit_offset
    int64_t next_offset
    int32_t count
    SharedSegment *segments

cdef struct End:
    # Where the batches below the limit end.
    int64_t segment_base_offset
    int64_t position
    int64_t offset                  # base offset of the first batch that is not below the limit, or the limit

# ---------------------------------------------------------------- where


cdef bint take_limits(Log *log, Share *share, End *end) noexcept nogil:
    """Copies the current offsets. True when the limit is the log end, whose position is known."""
    cdef LogState *state = state_of(log)
    cdef Segment *segment
    cdef bint at_end
    pthread_mutex_lock(&log.lock)
    share.log_start_offset = log.log_start_offset
    share.last_stable_offset = load_i64(&log.last_stable_offset)
    share.high_watermark = load_i64(&log.high_watermark)
    share.limit_offset = share.last_stable_offset if share.read_committed else share.high_watermark
    if share.limit_offset > share.below_offset:
        share.limit_offset = share.below_offset
    share.truncations = log.truncations
    segment = state.segments[state.segment_count - 1]
    end.segment_base_offset = segment.base_offset
    end.position = segment.size_bytes
    end.offset = share.limit_offset
    at_end = share.limit_offset >= log.log_end_offset
    pthread_mutex_unlock(&log.lock)
    return at_end


cdef int16_t find_end(Log *log, const Share *share, End *end) noexcept nogil:
    """Looks up the batch that reaches the limit. A damaged batch ends the readable part, too."""
    cdef ReadCursor cursor
    cdef LogSlice found
    cdef uint8_t[8] base
    cdef int16_t error = 0
    cursor_forget(&cursor)
    error = read_warm(log, share.limit_offset, INT64_MAX, 1, True, &cursor, &found)
    if error == CORRUPT_MESSAGE:
        end.segment_base_offset = -1                     # the walk to it ends at the damage
        return 0
    if error != 0 or found.file == NULL:
        return error
    end.segment_base_offset = found.segment_base_offset
    end.position = found.position
    if read_range(found.file.fd, base, 8, found.position + BATCH_BASE_OFFSET) == 8 and load_be64(base) < end.offset:
        end.offset = load_be64(base)
    segment_file_release(found.file)
    return 0

# ---------------------------------------------------------------- what


cdef void add_checked(SharedSegment *out, int64_t start, int64_t end) noexcept nogil:
    start = start if start > out.start_position else out.start_position
    end = end if end < out.end_position else out.end_position
    if start < end:
        out.checked[out.checked_count].start = start
        out.checked[out.checked_count].end = end
        out.checked_count += 1


cdef int describe(Log *log, int32_t i, SharedSegment *out, int64_t start, int64_t end) noexcept nogil:
    """Describes segment i, readable from `start` to `end`, and holds its file. Returns 0 or a negated errno."""
    cdef LogState *state = state_of(log)
    cdef Segment *segment = state.segments[i]
    cdef bint active = i == state.segment_count - 1
    cdef int error = 0
    cdef int32_t k
    out.base_offset = segment.base_offset
    out.end_offset = INT64_MAX if active else state.segments[i + 1].base_offset
    out.start_position = start
    out.end_position = end
    out.active = active
    out.checked_count = 0
    for k in range(VERIFIED_RANGES):
        add_checked(out, segment.verified[k].start, segment.verified[k].end)
    add_checked(out, segment.appended_from, segment.size_bytes)
    segment_file_path(out.path, state, segment, b".log")
    out.fd = -1
    out.file = segment_file(state, segment, active, &error)
    if out.file == NULL:
        return error
    return tail_write_out(&out.file.tail)                # the reader maps the file


cdef int collect(Log *log, Share *share, const LogSlice *first, const End *end) noexcept nogil:
    """Collects segments from the batch at `first` up to `end`. With Log.lock. 1: the log has changed, look again."""
    cdef LogState *state = state_of(log)
    cdef int32_t i = segment_floor(state, first.segment_base_offset)
    cdef Segment *segment
    cdef int64_t start = first.position, stop, bad
    cdef int error = 0
    if log.truncations != share.truncations or state.closed:
        return 1
    if i < 0 or state.segments[i].base_offset != first.segment_base_offset:
        return 1
    share.next_offset = end.offset
    while i < state.segment_count:
        segment = state.segments[i]
        if end.segment_base_offset >= 0 and segment.base_offset > end.segment_base_offset:
            break
        if share.count == share.capacity:
            share.next_offset = segment.base_offset
            break
        stop = end.position if segment.base_offset == end.segment_base_offset else segment.size_bytes
        bad = corrupt_next(segment, start)
        if start < stop and start < bad:
            error = describe(log, i, &share.segments[share.count], start, bad if bad < stop else stop)
            if error != 0:
                return error
            share.count += 1
        if bad < stop:
            share.next_offset = -1
            break
        start = 0
        i += 1
    return 0


cdef int16_t share_once(Log *log, Share *share, bint *again) noexcept nogil:
    cdef ReadCursor cursor
    cdef LogSlice first
    cdef End end
    cdef int16_t error = 0
    cdef int found
    again[0] = False
    if not take_limits(log, share, &end):
        error = find_end(log, share, &end)
    if error != 0:
        return error
    cursor_forget(&cursor)
    error = read_warm(log, share.offset, share.limit_offset, 1, True, &cursor, &first)
    share.next_offset = share.offset
    if error != 0 or first.file == NULL:
        return error
    segment_file_release(first.file)
    pthread_mutex_lock(&log.lock)
    found = collect(log, share, &first, &end)
    pthread_mutex_unlock(&log.lock)
    again[0] = found > 0
    return KAFKA_STORAGE_ERROR if found < 0 else 0

# ---------------------------------------------------------------- files


cdef void let_go(Share *share) noexcept nogil:
    cdef int32_t i
    for i in range(share.count):
        if share.segments[i].file != NULL:
            segment_file_release(share.segments[i].file)
        if share.segments[i].fd >= 0:
            close(share.segments[i].fd)
    share.count = 0


cdef int open_anew(SharedSegment *segment) noexcept nogil:
    """Opens the held file again, even if it was renamed, with a read-only descriptor."""
    cdef char[64] path
    cdef struct_stat facts
    snprintf(path, sizeof(path), b"/proc/self/fd/%d", segment.file.fd)
    segment.fd = open_file(path, O_RDONLY | O_CLOEXEC)
    if segment.fd < 0 or fstat(segment.fd, &facts) != 0:
        return -errno
    segment.device = facts.st_dev
    segment.inode = facts.st_ino
    return 0


cdef int open_all(Share *share) noexcept nogil:
    cdef int32_t i
    cdef int error = 0
    for i in range(share.count):
        if error == 0:
            error = open_anew(&share.segments[i])
        segment_file_release(share.segments[i].file)
        share.segments[i].file = NULL
    return error

# ---------------------------------------------------------------- Python functions


cdef tuple segment_tuple(const SharedSegment *s, int64_t limit_offset):
    cdef int32_t k
    return (s.base_offset, min(s.end_offset, limit_offset), s.device, s.inode, s.start_position, s.end_position,
            bool(s.active), (<bytes>s.path).decode("utf-8", "surrogateescape"),
            [(s.checked[k].start, s.checked[k].end) for k in range(s.checked_count)], s.fd)


cdef object refusal(PartitionLog log, const Share *share, int error):
    return LogError(error, f"offset {share.offset} can't be read from {log.directory}, which has offsets "
                           f"{log.log_start_offset} to {log.log_end_offset}")


def shared_segments(PartitionLog log not None, int64_t offset, *, bint read_committed=False, int32_t max_segments=16,
                    int64_t below_offset=INT64_MAX):
    """Returns the segment files with the records that a reader may see from ``offset`` on, only batches below
    ``below_offset``.

    May wait for the disk, so do not call it on the control thread.

    Returns:
        ``(log start, high watermark, last stable offset, truncations, next offset, segments)``, each segment
        ``(base offset, end offset, device, inode, start position, end position, active, path, checked, fd)``. The
        caller closes the descriptors, which are read-only. Next offset -1: the log continues after a damaged batch.

    Raises:
        LogError: OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE when the batch at ``offset`` is damaged, KAFKA_STORAGE_ERROR.
    """
    cdef Share share
    cdef int16_t error = 0
    cdef bint again = True
    cdef int failure = 0
    cdef int32_t i, attempts = 0
    if not 0 < max_segments <= 64:
        raise ValueError(f"max_segments must be 1 to 64, not {max_segments}")
    share.offset = offset
    share.read_committed = read_committed
    share.below_offset = below_offset
    share.capacity = max_segments
    share.segments = <SharedSegment *>calloc(max_segments, sizeof(SharedSegment))
    if share.segments == NULL:
        raise MemoryError
    try:
        with nogil:
            while again and attempts < LOOKS_MAX:
                attempts += 1
                share.count = 0
                error = share_once(log.log, &share, &again)
                if again or error != 0:
                    let_go(&share)
            if error == 0:
                failure = open_all(&share)
        if error != 0 or again:
            raise refusal(log, &share, error if error != 0 else KAFKA_STORAGE_ERROR)
        if failure != 0:
            raise LogError(KAFKA_STORAGE_ERROR, f"a segment of {log.directory} can't be opened for a local reader: "
                                                f"{(<bytes>strerror(-failure)).decode()}")
        found = [segment_tuple(&share.segments[i], share.limit_offset) for i in range(share.count)]
        for i in range(share.count):
            share.segments[i].fd = -1                    # the caller owns the descriptors now
        return (share.log_start_offset, share.high_watermark, share.last_stable_offset, share.truncations,
                share.next_offset, found)
    finally:
        let_go(&share)
        free(share.segments)
