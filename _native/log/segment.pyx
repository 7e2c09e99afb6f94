"""Segments, see segment.pxd.

Contents: headers · the list · timestamps · deletion · truncation.
"""
from libc.errno cimport EBADMSG, EIO, ENOENT, ENOMEM
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memmove
from posix.fcntl cimport O_CREAT, O_RDWR, O_TRUNC
from bowstring._native.base.bigendian cimport load_be32
from bowstring._native.disk.file_ops cimport PATH_BYTES, file_ops, read_range, sync_path, write_range
from bowstring._native.disk.staged_tail cimport tail_truncate
from bowstring._native.log.index cimport index_distrust, index_walked, indexes_load, offset_index_floor, time_index_last
from bowstring._native.log.segment_files cimport (
    directory_path, segment_file, segment_file_detach, segment_file_path, segment_file_release, segment_path)
from bowstring._native.log.types cimport NO_TIMESTAMP, UNREAD, DeletedFile, SegmentFile
from bowstring._native.log.verified_ranges cimport NEVER_READ, corrupt_end, io_clock
from bowstring._native.record.batch cimport BATCH_HEADER_BYTES, BATCH_LENGTH, BATCH_LENGTH_PREFIX_BYTES, batch_parse

cdef extern from *:
    """
    #include <errno.h>
    #include <fcntl.h>
    #include <sys/file.h>
    /* Whether a process has a shared lock, by flock(2) or by fcntl(2) (Java's FileChannel.lock). False on file systems
       without locks. */
    static int is_share_locked(int fd) {
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            flock(fd, LOCK_UN);
        else if (errno == EWOULDBLOCK)
            return 1;
        return fcntl(fd, F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
    }
    """
    bint is_share_locked(int fd) nogil

cdef enum:
    COPIED_AT_ONCE = 1 << 20

# ---------------------------------------------------------------- headers


cdef void walk_start(Walk *walk, int fd, int64_t position, int64_t end) noexcept nogil:
    walk.fd = fd
    walk.position = position
    walk.end = end
    walk.window_start = 0
    walk.window_bytes = 0
    walk.segment = NULL
    walk.skipped_to = -1


cdef void walk_skip_corrupt(Walk *walk) noexcept nogil:
    cdef int64_t end = corrupt_end(walk.segment, walk.position)
    while end >= 0:
        walk.position = walk.skipped_to = end
        end = corrupt_end(walk.segment, end)


cdef int walk_peek(Walk *walk, BatchInfo *info) noexcept nogil:
    cdef int64_t inside, n, size_bytes
    cdef const uint8_t *header
    if walk.segment != NULL and walk.segment.corrupt_count > 0:
        walk_skip_corrupt(walk)
    inside = walk.position - walk.window_start
    if walk.position >= walk.end:
        return 0
    if walk.end - walk.position < BATCH_HEADER_BYTES:
        return -EBADMSG
    if inside < 0 or inside + BATCH_HEADER_BYTES > walk.window_bytes:
        n = WALK_BYTES if walk.end - walk.position > WALK_BYTES else walk.end - walk.position
        # The first read is one header: most walks end after it.
        n = read_range(walk.fd, walk.window, BATCH_HEADER_BYTES if walk.window_bytes == 0 else n, walk.position)
        if n < 0:
            return <int>n
        walk.window_start = walk.position
        walk.window_bytes = n
        inside = 0
        if n < BATCH_HEADER_BYTES:
            return -EBADMSG
    header = walk.window + inside
    size_bytes = <int64_t>load_be32(header + BATCH_LENGTH) + BATCH_LENGTH_PREFIX_BYTES
    if batch_parse(header, size_bytes, info) != 0 or walk.position + size_bytes > walk.end \
            or info.last_offset_delta < 0:
        return -EBADMSG
    return 1


cdef int segment_locate(const LogState *state, Segment *segment, int64_t offset, int64_t end, int64_t *position,
                        BatchInfo *info) noexcept nogil:
    cdef int error = 0
    cdef SegmentFile *file = segment_file(state, segment, segment == active_segment(state), &error)
    if file == NULL:
        return error
    error = segment_locate_in(state, segment, file.fd, offset, end, position, info)
    segment_file_release(file)
    return error


cdef int segment_locate_in(const LogState *state, Segment *segment, int fd, int64_t offset, int64_t end,
                           int64_t *position, BatchInfo *info) noexcept nogil:
    cdef Walk walk
    cdef int64_t indexed = -1
    cdef int64_t start = offset_index_floor(state, segment, offset, &indexed)
    cdef int error
    walk_start(&walk, fd, start, end)
    walk.segment = segment
    error = walk_peek(&walk, info)
    if start != 0 and walk.skipped_to < 0 and (error < 0 or (error > 0 and last_offset_of(info) != indexed)):
        index_distrust(segment)                          # the index is wrong: search from the start
        walk_start(&walk, fd, 0, end)
        walk.segment = segment
        error = walk_peek(&walk, info)
    while error > 0 and last_offset_of(info) < offset:
        walk.position += info.size_bytes
        error = walk_peek(&walk, info)
    position[0] = walk.position
    if segment != active_segment(state):
        index_walked(segment, walk.position - start)     # a long walk: the index is missing or incomplete
    return error


cdef int64_t segment_end_offset(LogState *state, Segment *segment) noexcept nogil:
    cdef Walk walk
    cdef BatchInfo info
    cdef int64_t indexed = -1
    cdef int64_t end_offset = segment.base_offset
    cdef int64_t start = offset_index_floor(state, segment, segment.base_offset + INT32_MAX, &indexed)
    cdef int error = 0
    cdef SegmentFile *file
    if segment.size_bytes == 0:
        return end_offset
    file = segment_file(state, segment, segment == active_segment(state), &error)
    if file == NULL:
        return error
    walk_start(&walk, file.fd, start, segment.size_bytes)
    walk.segment = segment
    error = walk_peek(&walk, &info)
    if start != 0 and walk.skipped_to < 0 and (error <= 0 or last_offset_of(&info) != indexed):
        index_distrust(segment)
        walk_start(&walk, file.fd, 0, segment.size_bytes)
        walk.segment = segment
        error = walk_peek(&walk, &info)
    while error > 0:
        end_offset = last_offset_of(&info) + 1
        walk.position += info.size_bytes
        error = walk_peek(&walk, &info)
    segment_file_release(file)
    return error if error < 0 else end_offset

# ---------------------------------------------------------------- the list


cdef int32_t segment_floor(const LogState *state, int64_t offset) noexcept nogil:
    cdef int32_t low = 0, high = state.segment_count, middle
    if high > 0 and state.segments[high - 1].base_offset <= offset:
        return high - 1                                  # nearly always the active segment
    while low < high:
        middle = (low + high) // 2
        if state.segments[middle].base_offset <= offset:
            low = middle + 1
        else:
            high = middle
    return low - 1


cdef bint begins_segment(const LogState *state, int64_t offset) noexcept nogil:
    cdef int32_t i = segment_floor(state, offset)
    return i >= 0 and state.segments[i].base_offset == offset


cdef Segment *segment_make(int64_t base_offset, int64_t size_bytes, int64_t now_ms) noexcept nogil:
    cdef Segment *segment = <Segment *>calloc(1, sizeof(Segment))
    if segment == NULL:
        return NULL
    segment.base_offset = base_offset
    segment.size_bytes = size_bytes
    segment.largest_timestamp = UNREAD if size_bytes else NO_TIMESTAMP
    segment.largest_timestamp_offset = -1
    segment.first_timestamp = UNREAD if size_bytes else NO_TIMESTAMP
    segment.created_ms = now_ms
    segment.appended_from = size_bytes
    segment.written_clock = io_clock()
    segment.index_clock = NEVER_READ if size_bytes else io_clock()
    return segment


cdef Segment *segment_add(LogState *state, int64_t base_offset, int64_t size_bytes, int64_t now_ms) noexcept nogil:
    cdef Segment *segment
    cdef Segment **grown
    cdef int32_t capacity
    if state.segment_count == state.segment_capacity:
        capacity = state.segment_capacity * 2 if state.segment_capacity else 2
        grown = <Segment **>realloc(state.segments, capacity * sizeof(Segment *))
        if grown == NULL:
            return NULL
        state.segments = grown
        state.segment_capacity = capacity
    segment = segment_make(base_offset, size_bytes, now_ms)
    if segment == NULL:
        return NULL
    state.segments[state.segment_count] = segment
    state.segment_count += 1
    return segment


cdef int make_empty(const LogState *state, int64_t base_offset, const char *suffix) noexcept nogil:
    cdef char[PATH_BYTES] path
    cdef int fd = file_ops.open(segment_path(path, state, base_offset, suffix), O_RDWR | O_CREAT | O_TRUNC)
    if fd < 0:
        return fd
    file_ops.close(fd)
    return 0


cdef int indexes_complete(const LogState *state, int64_t base_offset) noexcept nogil:
    cdef char[PATH_BYTES] path
    cdef const char **suffixes = [b".index", b".timeindex"]
    cdef int i, fd
    for i in range(2):
        fd = file_ops.open(segment_path(path, state, base_offset, suffixes[i]), O_RDWR | O_CREAT)
        if fd < 0:
            return fd
        file_ops.close(fd)
    return 0


cdef int segment_begin(LogState *state, int64_t base_offset, int64_t now_ms) noexcept nogil:
    cdef int error = make_empty(state, base_offset, b".log")
    if error == 0 and segment_add(state, base_offset, 0, now_ms) == NULL:
        error = -ENOMEM
    state.activated = False
    return error


cdef int segment_create(LogState *state, int64_t base_offset, int64_t now_ms) noexcept nogil:
    cdef int error = make_empty(state, base_offset, b".index")
    if error == 0:
        error = make_empty(state, base_offset, b".timeindex")
    if error == 0:
        error = make_empty(state, base_offset, b".log")
    if error != 0:
        return error
    if segment_add(state, base_offset, 0, now_ms) == NULL:
        return -ENOMEM
    state.offset_index.filed = state.offset_index.tail_count = 0
    state.offset_index.entry_bytes = 8
    state.offset_index.last_key = state.offset_index.last_offset = -1
    state.time_index.filed = state.time_index.tail_count = 0
    state.time_index.entry_bytes = 12
    state.time_index.last_key = NO_TIMESTAMP
    state.time_index.last_offset = -1
    state.bytes_since_index = 0
    state.reserved_bytes = 0
    state.activated = True
    return 0


cdef void segment_free(Segment *segment) noexcept nogil:
    segment_file_detach(segment)
    free(segment.corrupt)
    free(segment)


cdef void segments_remove(LogState *state, int32_t first, int32_t n) noexcept nogil:
    memmove(state.segments + first, state.segments + first + n,
            (state.segment_count - first - n) * sizeof(Segment *))
    state.segment_count -= n

# ---------------------------------------------------------------- timestamps


cdef int64_t segment_largest_timestamp(LogState *state, Segment *segment) noexcept nogil:
    """Returns the last entry of the time index, which is the largest timestamp if the segment was closed cleanly."""
    cdef int64_t timestamp = NO_TIMESTAMP, offset = -1
    if segment.largest_timestamp == UNREAD:
        time_index_last(state, segment, &timestamp, &offset)
        segment.largest_timestamp = timestamp
        segment.largest_timestamp_offset = offset
    return segment.largest_timestamp


cdef int64_t segment_age_timestamp(LogState *state, Segment *segment) noexcept nogil:
    cdef int64_t timestamp = segment_largest_timestamp(state, segment)
    cdef int64_t size_bytes = 0
    cdef int error = 0
    cdef SegmentFile *file
    if timestamp >= 0:
        return timestamp
    file = segment_file(state, segment, segment == active_segment(state), &error)
    if file == NULL:
        return segment.created_ms
    if file_ops.stat(file.fd, &size_bytes, &timestamp) != 0:
        timestamp = segment.created_ms
    segment_file_release(file)
    return timestamp


cdef int64_t segment_first_timestamp(LogState *state, Segment *segment) noexcept nogil:
    cdef Walk walk
    cdef BatchInfo info
    cdef int error = 0
    cdef SegmentFile *file
    if segment.first_timestamp == UNREAD:
        segment.first_timestamp = NO_TIMESTAMP
        file = segment_file(state, segment, segment == active_segment(state), &error)
        if file != NULL:
            walk_start(&walk, file.fd, 0, segment.size_bytes)
            walk.segment = segment
            if walk_peek(&walk, &info) > 0:
                segment.first_timestamp = info.max_timestamp
            segment_file_release(file)
    return segment.first_timestamp


cdef int segment_activate(LogState *state) noexcept nogil:
    cdef Segment *segment = active_segment(state)
    cdef int error = indexes_load(state)
    if error != 0:
        return error
    state.activated = True
    state.bytes_since_index = 0
    segment_largest_timestamp(state, segment)
    segment_first_timestamp(state, segment)
    return 0

# ---------------------------------------------------------------- deletion


cdef int file_delete_later(LogState *state, int64_t base_offset, const char *suffix, int64_t now_ms,
                           int64_t delay_ms) noexcept nogil:
    cdef char[PATH_BYTES] old
    cdef char[PATH_BYTES] new
    cdef DeletedFile *deleted = <DeletedFile *>calloc(1, sizeof(DeletedFile))
    cdef int error
    if deleted == NULL:
        return -ENOMEM
    snprintf(deleted.name, sizeof(deleted.name), b"%020lld%s.deleted", <long long>base_offset, suffix)
    error = file_ops.rename(segment_path(old, state, base_offset, suffix), directory_path(new, state, deleted.name))
    if error != 0:
        free(deleted)
        return 0 if error == -ENOENT else error          # not every segment has every file
    deleted.due_ms = now_ms + delay_ms
    deleted.next = state.deleted
    state.deleted = deleted
    return 0


cdef int segment_delete(LogState *state, Segment *segment, int64_t now_ms, int64_t delay_ms) noexcept nogil:
    cdef int64_t base_offset = segment.base_offset
    cdef bint has_aborted = segment.has_aborted
    cdef bint swapping = segment.swapping
    cdef int error
    segment_free(segment)
    error = file_delete_later(state, base_offset, b".log.swap" if swapping else b".log", now_ms, delay_ms)
    if error == 0:
        error = file_delete_later(state, base_offset, b".index.swap" if swapping else b".index", now_ms, delay_ms)
    if error == 0:
        error = file_delete_later(
            state, base_offset, b".timeindex.swap" if swapping else b".timeindex", now_ms, delay_ms)
    if error == 0 and has_aborted:
        error = file_delete_later(
            state, base_offset, b".txnindex.swap" if swapping else b".txnindex", now_ms, delay_ms)
    return error

# ---------------------------------------------------------------- truncation


cdef int copy_to(int fd, const char *path, int64_t size_bytes) noexcept nogil:
    """Copies the first size_bytes of a file into a new one, and syncs it."""
    cdef uint8_t *piece = <uint8_t *>malloc(COPIED_AT_ONCE)
    cdef int64_t done = 0, n
    cdef int error = 0
    cdef int to = file_ops.open(path, O_RDWR | O_CREAT | O_TRUNC) if piece != NULL else -ENOMEM
    if to < 0:
        free(piece)
        return to
    while error == 0 and done < size_bytes:
        n = size_bytes - done
        n = read_range(fd, piece, n if n < COPIED_AT_ONCE else COPIED_AT_ONCE, done)
        error = <int>n if n < 0 else (-EIO if n == 0 else write_range(to, piece, n, done))
        done += n
    if error == 0:
        error = file_ops.sync(to)
    file_ops.close(to)
    free(piece)
    return error


cdef int log_cut(const LogState *state, Segment *segment, SegmentFile *file, int64_t size_bytes) noexcept nogil:
    cdef char[PATH_BYTES] path
    cdef char[PATH_BYTES] beside
    cdef int error
    if not is_share_locked(file.fd):
        return tail_truncate(&file.tail, size_bytes)
    segment_file_path(path, state, segment, b".log")
    segment_path(beside, state, segment.base_offset, b".log.tmp")     # the next start removes the copy that a crash leaves
    error = copy_to(file.fd, beside, size_bytes)
    if error == 0:
        error = file_ops.rename(beside, path)
    if error != 0:
        file_ops.unlink(beside)
        return error
    segment_file_detach(segment)
    return sync_path(state.directory)
