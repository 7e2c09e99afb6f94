"""Reads from a log: finds the range of complete batches in one segment file for an offset."""
from libc.errno cimport EBADMSG
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from bowstring._native.base.bigendian cimport load_be64
from bowstring._native.base.error_codes cimport CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR, OFFSET_OUT_OF_RANGE
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.disk.file_ops cimport read_range
from bowstring._native.disk.directory_health cimport may_pass
from bowstring._native.disk.staged_tail cimport tail_cached
from bowstring._native.log.index cimport index_distrust, index_walked, offset_index_cut, offset_index_floor
from bowstring._native.log.segment cimport (
    Walk, last_offset_of, segment_activate, segment_floor, segment_locate, walk_peek, walk_start)
from bowstring._native.log.segment_files cimport segment_file, segment_file_release
from bowstring._native.log.state cimport log_fail
from bowstring._native.log.types cimport LogState, Segment, SegmentFile, state_of
from bowstring._native.log.verified_ranges cimport (
    checked_until, corrupt_end, corrupt_next, index_warm, segment_recent, segment_unverify)
from bowstring._native.record.batch cimport BATCH_BASE_OFFSET, BatchInfo


cdef int16_t activate(Log *log) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef int error
    if state.closed:
        return KAFKA_STORAGE_ERROR
    if not state.activated:
        error = segment_activate(state)
        if error != 0:
            if not may_pass(error):
                log_fail(log, error, b"opening the active segment")
            return KAFKA_STORAGE_ERROR
    return 0

# ---------------------------------------------------------------- where a read begins


cdef void cursor_forget(ReadCursor *cursor) noexcept nogil:
    cursor.segment_base_offset = cursor.offset = cursor.position = cursor.truncations = -1
    cursor.warm.start = cursor.warm.end = 0
    cursor.warm.segment_base_offset = cursor.warm.next_offset = cursor.warm.truncations = -1


cdef struct Place:
    # Where a read begins, and how far the bytes that follow are checked.
    int32_t segment                 # index
    int64_t position
    int64_t checked_end

cdef enum Found:
    NOTHING = 0
    BATCH = 1
    COLD = 2                        # the range must be read from the disk, or checked, first
    CORRUPT = 3                     # the batch that holds the offset is bad


cdef bint cursor_holds(const Log *log, const ReadCursor *cursor, int64_t offset, int32_t *segment) noexcept nogil:
    """Whether the cursor has the position of `offset`; then sets *segment to the index of its segment."""
    cdef LogState *state = state_of(log)
    if cursor.offset != offset or cursor.truncations != log.truncations or cursor.position < 0:
        return False
    segment[0] = segment_floor(state, offset)
    return (segment[0] >= 0 and state.segments[segment[0]].base_offset == cursor.segment_base_offset
            and cursor.position < state.segments[segment[0]].size_bytes)


cdef enum:
    LOOKED_THROUGH_BYTES = 16384    # most bytes to scan from an index entry to the wanted batch

cdef bint in_memory(const Log *log, Segment *segment, SegmentFile *file, int64_t start, int64_t end,
                    const ReadCursor *cursor) noexcept nogil:
    """Whether the range can be read without waiting for the disk, or was just read for this reader."""
    if segment_recent(segment, start):
        return True
    if (cursor.warm.segment_base_offset == segment.base_offset and cursor.warm.truncations == log.truncations
            and cursor.warm.start <= start and end <= cursor.warm.end):
        return True
    return tail_cached(&file.tail, start, end - start) != 0


cdef int walk_to(Log *log, Segment *segment, int fd, int64_t offset, Place *place) noexcept nogil:
    """Walks from place.position, which is checked, to the batch that reaches `offset`. Returns a Found, or -EBADMSG when
    the file has changed since it was checked."""
    cdef Walk walk
    cdef BatchInfo info
    cdef int found
    walk_start(&walk, fd, place.position, place.checked_end)
    walk.segment = segment
    found = walk_peek(&walk, &info)
    while found > 0 and last_offset_of(&info) < offset:
        walk.position += info.size_bytes
        found = walk_peek(&walk, &info)
    place.position = walk.position
    if found < 0:
        return found
    if walk.skipped_to == walk.position and (found == 0 or offset < info.base_offset):
        return CORRUPT if found > 0 or walk.position >= segment.size_bytes else COLD
    if found == 0:
        return COLD if walk.position < segment.size_bytes else NOTHING
    return BATCH


cdef bint index_agrees(const Segment *segment, int fd, int64_t position, int64_t indexed) noexcept nogil:
    cdef Walk walk
    cdef BatchInfo info
    if position == 0 or corrupt_end(segment, position) >= 0:
        return True
    walk_start(&walk, fd, position, segment.size_bytes)
    return walk_peek(&walk, &info) > 0 and last_offset_of(&info) == indexed


cdef int locate(Log *log, Segment *segment, SegmentFile *file, int64_t offset, const ReadCursor *cursor, Place *place) noexcept nogil:
    """Finds the first batch of this segment that reaches `offset`, using only bytes that are checked and in memory.
    Returns a Found or a negated errno. With COLD, place.position is -1 unless a batch is known to begin there."""
    cdef LogState *state = state_of(log)
    cdef int64_t indexed = -1, end, start
    cdef int found
    place.position = -1
    if not index_warm(segment):
        return COLD
    place.position = offset_index_floor(state, segment, offset, &indexed)
    place.checked_end = checked_until(segment, place.position)
    end = place.position + LOOKED_THROUGH_BYTES
    if place.checked_end <= place.position or not in_memory(
            log, segment, file, place.position, end if end < segment.size_bytes else segment.size_bytes, cursor):
        place.position = -1
        return COLD
    if not index_agrees(segment, file.fd, place.position, indexed):
        index_distrust(segment)                          # the index is wrong: search from the start
        return locate(log, segment, file, offset, cursor, place)
    start = place.position
    found = walk_to(log, segment, file.fd, offset, place)
    if segment != state.segments[state.segment_count - 1]:
        index_walked(segment, place.position - start)
    if found == -EBADMSG:
        segment_unverify(segment)                        # another process wrote into the file
        place.position = -1
        return COLD
    return found


cdef int find_start(Log *log, const ReadCursor *cursor, int64_t offset, Place *place) noexcept nogil:
    """Finds the first batch that holds `offset` or follows it. Returns a Found or a negated errno."""
    cdef LogState *state = state_of(log)
    cdef Segment *segment
    cdef SegmentFile *file
    cdef int found = NOTHING, error = 0
    if cursor_holds(log, cursor, offset, &place.segment):
        place.position = cursor.position
        segment = state.segments[place.segment]
        place.checked_end = checked_until(segment, place.position)
        if corrupt_end(segment, place.position) >= 0:
            return CORRUPT
        return BATCH if place.checked_end > place.position else COLD
    place.segment = segment_floor(state, offset)
    if place.segment < 0:
        place.segment = 0                                # the first segment begins above the log start
    while found == NOTHING and place.segment < state.segment_count:
        segment = state.segments[place.segment]
        if segment.size_bytes > 0:
            file = segment_file(state, segment, place.segment == state.segment_count - 1, &error)
            if file == NULL:
                return error
            found = locate(log, segment, file, offset, cursor, place)
            segment_file_release(file)
        if found == NOTHING:
            place.segment += 1                           # compaction removed it from this segment
    return found

# ---------------------------------------------------------------- where a read ends


cdef int limit_position(Log *log, int32_t segment, int64_t limit_offset, int64_t start, int64_t checked_end,
                        int64_t *position) noexcept nogil:
    """Finds where the batches below limit_offset end, between `start`, where a batch begins, and checked_end. Returns 0 or
    a negated errno."""
    cdef LogState *state = state_of(log)
    cdef Segment *s = state.segments[segment]
    cdef Walk walk
    cdef BatchInfo info
    cdef int64_t indexed = -1, entry
    cdef SegmentFile *file
    cdef int found, error = 0
    position[0] = checked_end
    if limit_offset >= (log.log_end_offset if segment == state.segment_count - 1
                        else state.segments[segment + 1].base_offset):
        return 0
    if state.limit_offset == limit_offset and state.limit_segment == s.base_offset:
        position[0] = state.limit_position if state.limit_position < checked_end else checked_end
        return 0
    entry = offset_index_floor(state, s, limit_offset, &indexed)
    if entry >= checked_end:
        return 0
    file = segment_file(state, s, segment == state.segment_count - 1, &error)
    if file == NULL:
        return error
    if entry <= start or not index_agrees(s, file.fd, entry, indexed):
        entry = start
    walk_start(&walk, file.fd, entry, checked_end)
    walk.segment = s
    found = walk_peek(&walk, &info)
    while found > 0 and last_offset_of(&info) < limit_offset:
        walk.position += info.size_bytes
        found = walk_peek(&walk, &info)
    segment_file_release(file)
    if found <= 0:
        return found
    position[0] = walk.position
    state.limit_offset = limit_offset
    state.limit_segment = s.base_offset
    state.limit_position = position[0]
    return 0


cdef int whole_batches(LogState *state, Segment *segment, int fd, int64_t start, int64_t end, int64_t max_bytes,
                       bint min_one, int64_t *cut) noexcept nogil:
    """Sets *cut to a batch boundary at most max_bytes after start; with min_one after at least one batch."""
    cdef Walk walk
    cdef BatchInfo info
    cdef int found
    cut[0] = offset_index_cut(state, segment, start, start + max_bytes)
    if cut[0] > start and cut[0] <= end:
        return 0
    walk_start(&walk, fd, start, end)
    walk.segment = segment
    found = walk_peek(&walk, &info)
    while found > 0 and (walk.position + info.size_bytes - start <= max_bytes or (min_one and walk.position == start)):
        walk.position += info.size_bytes
        found = walk_peek(&walk, &info) if walk.position - start < max_bytes else 0
    cut[0] = walk.position
    return found if found < 0 else 0


cdef int64_t base_offset_at(int fd, int64_t position) noexcept nogil:
    cdef uint8_t[8] data
    return load_be64(data) if read_range(fd, data, 8, position + BATCH_BASE_OFFSET) == 8 else -1


cdef int16_t ask_storage(Segment *segment, int64_t position, LogSlice *out) noexcept nogil:
    out.cold = True
    out.segment_base_offset = segment.base_offset
    out.position = position
    return 0


cdef void fill_slice(Log *log, const Place *place, SegmentFile *file, int64_t cut, ReadCursor *cursor,
                     LogSlice *out) noexcept nogil:
    """Fills in the slice up to `cut`, and the cursor for the reader's next read."""
    cdef LogState *state = state_of(log)
    cdef Segment *s = state.segments[place.segment]
    out.file = file
    out.segment_base_offset = s.base_offset
    out.position = place.position
    out.size_bytes = cut - place.position
    if cut >= s.size_bytes and place.segment == state.segment_count - 1:
        out.next_offset = log.log_end_offset
    elif cut >= s.size_bytes:
        s = state.segments[place.segment + 1]
        out.next_offset = s.base_offset
        cut = 0
    elif corrupt_end(s, cut) >= 0:
        out.next_offset = -1                             # the next read looks it up
    elif cut < checked_until(s, place.position):
        out.next_offset = base_offset_at(file.fd, cut)
    elif cursor.warm.end == cut and cursor.warm.segment_base_offset == s.base_offset:
        out.next_offset = cursor.warm.next_offset
    else:
        out.next_offset = -1
    cursor.segment_base_offset = s.base_offset
    cursor.offset = out.next_offset
    cursor.position = cut
    cursor.truncations = log.truncations


cdef int16_t slice_at(Log *log, const Place *place, int64_t limit_offset, int64_t max_bytes, bint min_one,
                      ReadCursor *cursor, LogSlice *out) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef Segment *s = state.segments[place.segment]
    cdef int64_t start = place.position, end = corrupt_next(s, place.position), cut, near
    cdef bint active = place.segment == state.segment_count - 1
    cdef int error = 0
    cdef SegmentFile *file
    if end > place.checked_end:
        end = place.checked_end
    if limit_position(log, place.segment, limit_offset, start, end, &end) < 0:
        segment_unverify(s)
        return ask_storage(s, start, out)
    if end <= start or (max_bytes <= 0 and not min_one):
        return 0
    if end - start > max_bytes and not index_warm(s):
        return ask_storage(s, start, out)
    file = segment_file(state, s, active, &error)
    if file == NULL:
        return KAFKA_STORAGE_ERROR
    cut = near = end
    if end - start > max_bytes:
        near = start + (max_bytes if max_bytes > LOOKED_THROUGH_BYTES else LOOKED_THROUGH_BYTES)
        near = near if near < end else end
    if not in_memory(log, s, file, start, near, cursor):
        error = COLD
    elif end - start > max_bytes:
        error = whole_batches(state, s, file.fd, start, end, max_bytes, min_one, &cut)
    if error == 0 and cut > near and not in_memory(log, s, file, near, cut, cursor):
        error = COLD                                     # a single batch larger than max_bytes
    if error == -EBADMSG:
        segment_unverify(s)
        error = COLD
    if error != 0 or cut <= start:
        segment_file_release(file)
        return ask_storage(s, start, out) if error == COLD else (KAFKA_STORAGE_ERROR if error < 0 else 0)
    fill_slice(log, place, file, cut, cursor, out)
    return 0


cdef int16_t log_read(Log *log, int64_t offset, int64_t limit_offset, int64_t max_bytes, bint min_one,
                        ReadCursor *cursor, LogSlice *out) noexcept nogil:
    cdef int16_t error
    cdef int found
    cdef Place place
    out.file = NULL
    out.position = 0
    out.size_bytes = 0
    out.next_offset = -1
    out.cold = False
    pthread_mutex_lock(&log.lock)
    error = OFFSET_OUT_OF_RANGE if offset < log.log_start_offset or offset > log.log_end_offset else 0
    if limit_offset > log.log_end_offset:
        limit_offset = log.log_end_offset
    if error == 0 and offset < limit_offset:
        error = activate(log)
    if error == 0 and offset < limit_offset:
        found = find_start(log, cursor, offset, &place)
        if found < 0:
            error = KAFKA_STORAGE_ERROR
        elif found == CORRUPT:
            error = CORRUPT_MESSAGE
        elif found == COLD:
            ask_storage(state_of(log).segments[place.segment], place.position, out)
        elif found == BATCH:
            error = slice_at(log, &place, limit_offset, max_bytes, min_one, cursor, out)
    pthread_mutex_unlock(&log.lock)
    return error


cdef int64_t slice_shorten(LogSlice *slice, int64_t offset, ReadCursor *cursor) noexcept nogil:
    cdef Walk walk
    cdef BatchInfo info
    cdef int64_t end_offset = -1
    cdef int found
    walk_start(&walk, slice.file.fd, slice.position, slice.position + slice.size_bytes)
    found = walk_peek(&walk, &info)
    while found > 0 and (end_offset < 0 or last_offset_of(&info) < offset):
        end_offset = last_offset_of(&info) + 1
        walk.position += info.size_bytes
        found = walk_peek(&walk, &info)
    if found < 0:
        return found
    if found > 0:
        slice.size_bytes = walk.position - slice.position
        slice.next_offset = cursor.offset = info.base_offset
        cursor.position = walk.position
        cursor.segment_base_offset = slice.segment_base_offset
    return end_offset


cdef int64_t end_below(Log *log, int32_t segment, int64_t limit_offset) noexcept nogil:
    """Position where the batches below limit_offset end in this segment."""
    cdef LogState *state = state_of(log)
    cdef Segment *s = state.segments[segment]
    cdef BatchInfo info
    cdef int64_t position = 0
    if limit_offset >= (log.log_end_offset if segment == state.segment_count - 1
                        else state.segments[segment + 1].base_offset):
        return s.size_bytes
    return position if segment_locate(state, s, limit_offset, s.size_bytes, &position, &info) >= 0 else s.size_bytes


cdef int64_t log_bytes_between(Log *log, int64_t offset, int64_t limit_offset) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef int64_t total = 0, from_position, to_position, unused = 0
    cdef int32_t i, first, last
    if offset >= limit_offset:
        return 0
    pthread_mutex_lock(&log.lock)
    if activate(log) == 0:
        first = segment_floor(state, offset)
        last = segment_floor(state, limit_offset - 1)
        first = first if first > 0 else 0
        for i in range(first, last + 1):
            from_position = offset_index_floor(state, state.segments[i], offset, &unused) if i == first else 0
            to_position = end_below(log, i, limit_offset) if i == last else state.segments[i].size_bytes
            total += to_position - from_position
    pthread_mutex_unlock(&log.lock)
    return total
