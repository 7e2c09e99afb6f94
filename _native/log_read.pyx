"""Reading from a log: from an offset to a range of whole batches in one segment file."""
from libc.errno cimport EBADMSG, ENOMEM
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from bowstring._native.batch cimport BATCH_BASE_OFFSET, BatchInfo, batch_crc_ok
from bowstring._native.bigendian cimport load_be64
from bowstring._native.log_checked cimport (
    checked_until, corrupt_end, corrupt_next, index_warm, segment_mark_corrupt, segment_recent, segment_unverify)
from bowstring._native.log_files cimport file_ops, file_release, read_range, segment_file
from bowstring._native.log_index cimport (
    index_distrust, index_walked, offset_index_cut, offset_index_floor, time_index_floor)
from bowstring._native.log_roll cimport log_fail, state_of
from bowstring._native.log_segment cimport (
    Walk, active_segment, last_offset_of, segment_activate, segment_age_timestamp, segment_floor,
    segment_largest_timestamp, segment_locate, walk_peek, walk_start)
from bowstring._native.log_types cimport (
    CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR, OFFSET_OUT_OF_RANGE, LogState, Segment, SegmentFile, pthread_mutex_t)

cdef extern from "pthread.h" nogil:
    int pthread_mutex_lock(pthread_mutex_t *mutex)
    int pthread_mutex_unlock(pthread_mutex_t *mutex)


cdef int16_t activate(Log *log) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef int error
    if state.closed:
        return KAFKA_STORAGE_ERROR
    if not state.activated:
        error = segment_activate(state)
        if error != 0:
            log_fail(log, error, b"opening the active segment")
            return KAFKA_STORAGE_ERROR
    return 0

# ---------------------------------------------------------------- where a read begins


cdef void cursor_forget(ReadCursor *cursor) noexcept nogil:
    cursor.segment_base_offset = cursor.offset = cursor.position = cursor.truncations = -1
    cursor.warm.start = cursor.warm.end = 0
    cursor.warm.segment_base_offset = cursor.warm.next_offset = cursor.warm.truncations = -1


cdef struct Place:
    # Where a read begins, and how far what follows may be given.
    int32_t segment                 # index
    int64_t position
    int64_t checked_end

cdef enum Found:
    NOTHING = 0
    BATCH = 1
    COLD = 2                        # it has to be read from the disk, or checked, first
    CORRUPT = 3                     # the batch that holds the offset is bad


cdef bint cursor_holds(const Log *log, const ReadCursor *cursor, int64_t offset, int32_t *segment) noexcept nogil:
    """Whether the cursor says where `offset` is; *segment is then the index of its segment."""
    cdef LogState *state = state_of(log)
    if cursor.offset != offset or cursor.truncations != log.truncations or cursor.position < 0:
        return False
    segment[0] = segment_floor(state, offset)
    return (segment[0] >= 0 and state.segments[segment[0]].base_offset == cursor.segment_base_offset
            and cursor.position < state.segments[segment[0]].size_bytes)


cdef enum:
    LOOKED_THROUGH_BYTES = 16384    # of headers, on the way from an index entry to a batch

cdef bint in_memory(const Log *log, Segment *segment, int fd, int64_t start, int64_t end,
                    const ReadCursor *cursor) noexcept nogil:
    """Whether reading the range will not wait for the disk; or has done so, for this very reader."""
    if segment_recent(segment, start):
        return True
    if (cursor.warm.segment_base_offset == segment.base_offset and cursor.warm.truncations == log.truncations
            and cursor.warm.start <= start and end <= cursor.warm.end):
        return True
    return file_ops.cached(fd, start, end - start) != 0


cdef int walk_to(Log *log, Segment *segment, int fd, int64_t offset, Place *place) noexcept nogil:
    """From place.position, which is checked, to the batch that reaches `offset`: a Found, or EBADMSG, negated, when the
    file is not what it was when it was checked. The index entry has to name the last offset of its batch."""
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


cdef int locate(Log *log, Segment *segment, int fd, int64_t offset, const ReadCursor *cursor, Place *place) noexcept nogil:
    """First batch of this segment that reaches `offset`, through what is checked and in memory: a Found, or below 0.
    With COLD, place.position is -1 unless a batch is known to begin there."""
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
            log, segment, fd, place.position, end if end < segment.size_bytes else segment.size_bytes, cursor):
        place.position = -1
        return COLD
    if not index_agrees(segment, fd, place.position, indexed):
        index_distrust(segment)                          # the index lies: search from the start
        return locate(log, segment, fd, offset, cursor, place)
    start = place.position
    found = walk_to(log, segment, fd, offset, place)
    if segment != state.segments[state.segment_count - 1]:
        index_walked(segment, place.position - start)
    if found == -EBADMSG:
        segment_unverify(segment)                        # somebody wrote into the file
        place.position = -1
        return COLD
    return found


cdef int find_start(Log *log, const ReadCursor *cursor, int64_t offset, Place *place) noexcept nogil:
    """First batch that holds `offset` or comes after it: a Found, or a negated errno."""
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
        place.segment = 0                                # the first segments begin above the log start
    while found == NOTHING and place.segment < state.segment_count:
        segment = state.segments[place.segment]
        if segment.size_bytes > 0:
            file = segment_file(state, segment, place.segment == state.segment_count - 1, &error)
            if file == NULL:
                return error
            found = locate(log, segment, file.fd, offset, cursor, place)
            file_release(file)
        if found == NOTHING:
            place.segment += 1                           # compaction left nothing of it in this segment
    return found

# ---------------------------------------------------------------- where it ends


cdef int limit_position(Log *log, int32_t segment, int64_t limit_offset, int64_t start, int64_t checked_end,
                        int64_t *position) noexcept nogil:
    """End of the batches below limit_offset between `start`, where a batch begins, and checked_end: 0 or a negated
    errno."""
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
    file_release(file)
    if found <= 0:
        return found
    position[0] = walk.position
    state.limit_offset = limit_offset
    state.limit_segment = s.base_offset
    state.limit_position = position[0]
    return 0


cdef int whole_batches(LogState *state, Segment *segment, int fd, int64_t start, int64_t end, int64_t max_bytes,
                       bint min_one, int64_t *cut) noexcept nogil:
    """Moves *cut to a batch boundary at most max_bytes after start (one batch at least with min_one)."""
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
    """The slice up to `cut`, and where the reader's next one begins."""
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
        out.next_offset = -1                             # the next read finds that its offset is there
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
    if not in_memory(log, s, file.fd, start, near, cursor):
        error = COLD
    elif end - start > max_bytes:
        error = whole_batches(state, s, file.fd, start, end, max_bytes, min_one, &cut)
    if error == 0 and cut > near and not in_memory(log, s, file.fd, near, cut, cursor):
        error = COLD                                     # one batch that is larger than what was asked for
    if error == -EBADMSG:
        segment_unverify(s)
        error = COLD
    if error != 0 or cut <= start:
        file_release(file)
        return ask_storage(s, start, out) if error == COLD else (KAFKA_STORAGE_ERROR if error < 0 else 0)
    fill_slice(log, place, file, cut, cursor, out)
    return 0


cdef int16_t read_slice(Log *log, int64_t offset, int64_t limit_offset, int64_t max_bytes, bint min_one,
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


cdef int64_t end_below(Log *log, int32_t segment, int64_t limit_offset) noexcept nogil:
    """Where the batches below limit_offset end in this segment."""
    cdef LogState *state = state_of(log)
    cdef Segment *s = state.segments[segment]
    cdef BatchInfo info
    cdef int64_t position = 0
    if limit_offset >= (log.log_end_offset if segment == state.segment_count - 1
                        else state.segments[segment + 1].base_offset):
        return s.size_bytes
    return position if segment_locate(state, s, limit_offset, s.size_bytes, &position, &info) >= 0 else s.size_bytes


cdef int64_t bytes_between(Log *log, int64_t offset, int64_t limit_offset) noexcept nogil:
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

# ---------------------------------------------------------------- by timestamp


cdef int copy_batch(int fd, Segment *segment, int64_t position, int64_t size_bytes, FoundBatch *out) noexcept nogil:
    """Into out.data, or marks it as bad and leaves that NULL. 0 or a negated errno."""
    cdef int64_t n
    cdef int error = -ENOMEM
    out.data = <uint8_t *>malloc(<size_t>size_bytes)
    out.size_bytes = size_bytes
    if out.data != NULL:
        n = read_range(fd, out.data, size_bytes, position)
        if n == size_bytes and batch_crc_ok(out.data, size_bytes):
            return 0
        error = <int>n if n < 0 else segment_mark_corrupt(segment, position, size_bytes)
    free(out.data)
    out.data = NULL
    return error if error < 0 else 0


cdef int first_at_or_after(LogState *state, Segment *segment, int64_t timestamp, int64_t first_offset,
                           FoundBatch *out) noexcept nogil:
    """In this segment, the first batch that ends at or above first_offset and reaches `timestamp`."""
    cdef Walk walk
    cdef BatchInfo info
    cdef int64_t entry_timestamp = 0, entry_offset = segment.base_offset, unused = 0
    cdef int found, error = 0
    cdef SegmentFile *file
    time_index_floor(state, segment, timestamp, &entry_timestamp, &entry_offset)
    if entry_offset < first_offset:
        entry_offset = first_offset
    file = segment_file(state, segment, segment == active_segment(state), &error)
    if file == NULL:
        return error
    walk_start(&walk, file.fd, offset_index_floor(state, segment, entry_offset, &unused), segment.size_bytes)
    walk.segment = segment
    found = walk_peek(&walk, &info)
    while found > 0 and out.data == NULL:
        if info.max_timestamp >= timestamp and last_offset_of(&info) >= first_offset:
            found = copy_batch(file.fd, segment, walk.position, info.size_bytes, out)
            if found < 0:
                break
        walk.position += info.size_bytes
        found = walk_peek(&walk, &info)
    file_release(file)
    return found if found < 0 else 0


cdef int batch_by_timestamp(Log *log, int64_t timestamp, int64_t from_offset, FoundBatch *out) noexcept nogil:
    """Looks into segments whose largest timestamp reaches it, as Kafka does, unless they lie below the log start."""
    cdef LogState *state = state_of(log)
    cdef int32_t i
    cdef int error
    out.data = NULL
    pthread_mutex_lock(&log.lock)
    out.first_offset = from_offset if from_offset > log.log_start_offset else log.log_start_offset
    error = -EBADMSG if activate(log) != 0 else 0
    if error == 0:
        for i in range(state.segment_count):
            if i + 1 < state.segment_count and state.segments[i + 1].base_offset <= out.first_offset:
                continue
            if segment_age_timestamp(state, state.segments[i]) >= timestamp:
                error = first_at_or_after(state, state.segments[i], timestamp, out.first_offset, out)
                if error != 0 or out.data != NULL:
                    break
    pthread_mutex_unlock(&log.lock)
    return error


cdef int batch_of_max_timestamp(Log *log, int64_t *timestamp, FoundBatch *out) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef Segment *best = NULL
    cdef int64_t position = 0
    cdef BatchInfo info
    cdef SegmentFile *file
    cdef int32_t i
    cdef int error
    out.data = NULL
    out.first_offset = 0
    pthread_mutex_lock(&log.lock)
    error = -EBADMSG if activate(log) != 0 else 0
    if error == 0:
        for i in range(state.segment_count):
            if best == NULL or segment_largest_timestamp(state, state.segments[i]) \
                    > segment_largest_timestamp(state, best):
                best = state.segments[i]
        timestamp[0] = segment_largest_timestamp(state, best)
        if timestamp[0] >= 0:
            error = segment_locate(state, best, best.largest_timestamp_offset, best.size_bytes, &position, &info)
            if error > 0:
                error = 0
                file = segment_file(state, best, best == active_segment(state), &error)
                if file != NULL:
                    error = copy_batch(file.fd, best, position, info.size_bytes, out)
                    file_release(file)
            if error == 0 and (out.data == NULL or info.max_timestamp < timestamp[0]):
                error = -EBADMSG                         # the batch that has it is bad
    pthread_mutex_unlock(&log.lock)
    return error
