"""Reading from a log: from an offset to a range of whole batches in one segment file."""
from libc.errno cimport EBADMSG, ENOMEM
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport malloc
from bowstring._native.batch cimport BATCH_BASE_OFFSET, BatchInfo
from bowstring._native.bigendian cimport load_be64
from bowstring._native.log_files cimport file_release, read_range, segment_file
from bowstring._native.log_index cimport offset_index_cut, offset_index_floor, time_index_floor
from bowstring._native.log_roll cimport log_fail, state_of
from bowstring._native.log_segment cimport (
    Walk, active_segment, last_offset_of, segment_activate, segment_age_timestamp, segment_floor,
    segment_largest_timestamp, segment_locate, walk_peek, walk_start)
from bowstring._native.log_types cimport (
    KAFKA_STORAGE_ERROR, OFFSET_OUT_OF_RANGE, LogState, Segment, SegmentFile, pthread_mutex_t)

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


cdef bint cursor_holds(const Log *log, const ReadCursor *cursor, int64_t offset, int32_t *segment) noexcept nogil:
    """Whether the cursor says where `offset` is; *segment is then the index of its segment."""
    cdef LogState *state = state_of(log)
    if cursor.offset != offset or cursor.truncations != log.truncations or cursor.position < 0:
        return False
    segment[0] = segment_floor(state, offset)
    return (segment[0] >= 0 and state.segments[segment[0]].base_offset == cursor.segment_base_offset
            and cursor.position < state.segments[segment[0]].size_bytes)


cdef int find_start(Log *log, const ReadCursor *cursor, int64_t offset, int32_t *segment,
                    int64_t *position) noexcept nogil:
    """First batch that holds `offset` or comes after it: 1, 0 when there is none, or a negated errno."""
    cdef LogState *state = state_of(log)
    cdef BatchInfo info
    cdef int found
    if cursor_holds(log, cursor, offset, segment):
        position[0] = cursor.position
        return 1
    segment[0] = segment_floor(state, offset)
    if segment[0] < 0:
        segment[0] = 0                                   # the first segments begin above the log start
    while segment[0] < state.segment_count:
        found = segment_locate(state, state.segments[segment[0]], offset,
                               state.segments[segment[0]].size_bytes, position, &info)
        if found != 0:
            return found
        segment[0] += 1                                  # compaction left nothing of it in this segment
    return 0

# ---------------------------------------------------------------- where it ends


cdef int limit_position(Log *log, int32_t segment, int64_t limit_offset, int64_t *position) noexcept nogil:
    """End of the batches below limit_offset in this segment: 0 or a negated errno."""
    cdef LogState *state = state_of(log)
    cdef Segment *s = state.segments[segment]
    cdef BatchInfo info
    cdef int found
    position[0] = s.size_bytes
    if limit_offset >= (log.log_end_offset if segment == state.segment_count - 1
                        else state.segments[segment + 1].base_offset):
        return 0
    if state.limit_offset == limit_offset and state.limit_segment == s.base_offset:
        position[0] = state.limit_position
        return 0
    found = segment_locate(state, s, limit_offset, s.size_bytes, position, &info)
    if found < 0:
        return found
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
    found = walk_peek(&walk, &info)
    while found > 0 and (walk.position + info.size_bytes - start <= max_bytes or (min_one and walk.position == start)):
        walk.position += info.size_bytes
        found = walk_peek(&walk, &info) if walk.position - start < max_bytes else 0
    cut[0] = walk.position
    return found if found < 0 else 0


cdef int64_t base_offset_at(int fd, int64_t position) noexcept nogil:
    cdef uint8_t[8] data
    return load_be64(data) if read_range(fd, data, 8, position + BATCH_BASE_OFFSET) == 8 else -1


cdef int16_t slice_at(Log *log, int32_t segment, int64_t start, int64_t limit_offset, int64_t max_bytes,
                      bint min_one, ReadCursor *cursor, LogSlice *out) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef Segment *s = state.segments[segment]
    cdef int64_t end = 0, cut = 0
    cdef int error = 0
    cdef SegmentFile *file
    if limit_position(log, segment, limit_offset, &end) < 0:
        return KAFKA_STORAGE_ERROR
    if end <= start or (max_bytes <= 0 and not min_one):
        return 0
    file = segment_file(state, s, segment == state.segment_count - 1, &error)
    if file == NULL:
        return KAFKA_STORAGE_ERROR
    cut = end
    if end - start > max_bytes:
        error = whole_batches(state, s, file.fd, start, end, max_bytes, min_one, &cut)
    if error < 0 or cut <= start:
        file_release(file)
        return KAFKA_STORAGE_ERROR if error < 0 else 0
    out.file = file
    out.position = start
    out.size_bytes = cut - start
    if cut < s.size_bytes:
        out.next_offset = base_offset_at(file.fd, cut)
    elif segment == state.segment_count - 1:
        out.next_offset = log.log_end_offset
    else:
        out.next_offset = state.segments[segment + 1].base_offset
        s = state.segments[segment + 1]
        cut = 0
    cursor.segment_base_offset = s.base_offset
    cursor.offset = out.next_offset
    cursor.position = cut
    cursor.truncations = log.truncations
    return 0


cdef int16_t read_slice(Log *log, int64_t offset, int64_t limit_offset, int64_t max_bytes, bint min_one,
                        ReadCursor *cursor, LogSlice *out) noexcept nogil:
    cdef int16_t error
    cdef int found
    cdef int32_t segment = 0
    cdef int64_t position = 0
    out.file = NULL
    out.position = 0
    out.size_bytes = 0
    out.next_offset = -1
    pthread_mutex_lock(&log.lock)
    error = OFFSET_OUT_OF_RANGE if offset < log.log_start_offset or offset > log.log_end_offset else 0
    if limit_offset > log.log_end_offset:
        limit_offset = log.log_end_offset
    if error == 0 and offset < limit_offset:
        error = activate(log)
    if error == 0 and offset < limit_offset:
        found = find_start(log, cursor, offset, &segment, &position)
        if found < 0:
            error = KAFKA_STORAGE_ERROR
        elif found > 0:
            error = slice_at(log, segment, position, limit_offset, max_bytes, min_one, cursor, out)
    pthread_mutex_unlock(&log.lock)
    return error


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
            to_position = state.segments[i].size_bytes
            if i == last and limit_position(log, i, limit_offset, &to_position) < 0:
                break
            total += to_position - from_position
    pthread_mutex_unlock(&log.lock)
    return total

# ---------------------------------------------------------------- by timestamp


cdef int copy_batch(int fd, int64_t position, int64_t size_bytes, FoundBatch *out) noexcept nogil:
    out.data = <uint8_t *>malloc(<size_t>size_bytes)
    if out.data == NULL:
        return -ENOMEM
    out.size_bytes = size_bytes
    return 0 if read_range(fd, out.data, size_bytes, position) == size_bytes else -EBADMSG


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
    found = walk_peek(&walk, &info)
    while found > 0 and (info.max_timestamp < timestamp or last_offset_of(&info) < first_offset):
        walk.position += info.size_bytes
        found = walk_peek(&walk, &info)
    if found > 0:
        found = copy_batch(file.fd, walk.position, info.size_bytes, out)
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
                    error = copy_batch(file.fd, position, info.size_bytes, out)
                    file_release(file)
    pthread_mutex_unlock(&log.lock)
    return error
