"""Reads the range that a reader needs next from the disk, see disk_read.pxd.

Contents: where to read · reading (cold_read) · for callers that wait (read_warm, copy_batches).
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.errno cimport ENOMEM, EOPNOTSUPP, ESTALE
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc
from posix.fcntl cimport O_RDONLY
from bowstring._native.base.atomics cimport load_i64
from bowstring._native.base.error_codes cimport CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.disk.file_ops cimport PATH_BYTES, file_ops, read_range
from bowstring._native.log.index cimport offset_index_floor
from bowstring._native.log.python_values cimport directory_of
from bowstring._native.log.read cimport cursor_forget, log_read
from bowstring._native.log.scan cimport LogScan, scan_at, scan_close, scan_next, scan_open_window, scan_pass, scan_skip
from bowstring._native.log.segment cimport last_offset_of, segment_floor
from bowstring._native.log.segment_files cimport segment_file, segment_file_release, segment_path
from bowstring._native.log.state cimport log_fail
from bowstring._native.log.types cimport LogState, Segment, SegmentFile, state_of
from bowstring._native.log.verified_ranges cimport (
    corrupt_end, index_warm, io_clock, io_clock_advance, segment_mark_corrupt, segment_verified)
from bowstring._native.record.batch cimport BatchInfo
from bowstring._native.log.python_values import LogError

cdef enum:
    INDEX_PIECE_BYTES = 65536
    STEPS_BACK = 8                  # index entries tried before a segment is read from its beginning
    APPROACH_MAX_BYTES = 4 << 20    # read in one call before the wanted offset
    COLD_BYTES = 1 << 20            # least bytes to read and check when a range is not verified

cdef struct Place:
    # Where to read, and the state of the segment then: the result counts only if that has not changed.
    SegmentFile *file               # held
    int64_t position
    int64_t indexed                 # last offset of the batch at `position`, by the index; -1: a batch certainly begins there
    int64_t size_bytes              # of the segment
    int64_t next_base               # all offsets of the segment are lower
    int64_t truncations


cdef Segment *segment_of(LogState *state, int64_t base_offset, int32_t *index) noexcept nogil:
    index[0] = segment_floor(state, base_offset)
    if index[0] < 0 or state.segments[index[0]].base_offset != base_offset:
        return NULL
    return state.segments[index[0]]


cdef void log_mark_corrupt(Log *log, int64_t segment_base_offset, int64_t position, int64_t size_bytes) noexcept nogil:
    cdef int32_t i = 0
    cdef Segment *segment
    pthread_mutex_lock(&log.lock)
    segment = segment_of(state_of(log), segment_base_offset, &i)
    if segment != NULL and segment_mark_corrupt(segment, position, size_bytes) < 0:
        log_fail(log, -ENOMEM, b"recording the position of a corrupt batch")
    pthread_mutex_unlock(&log.lock)


cdef void cold_read_of(const LogSlice *cold, int64_t offset, int64_t size_bytes, ColdRead *read) noexcept nogil:
    read.offset = offset
    read.segment_base_offset = cold.segment_base_offset
    read.position = cold.position
    read.size_bytes = size_bytes
    read.report = NULL
    read.context = NULL

# ---------------------------------------------------------------- where


cdef int find_place(Log *log, const ColdRead *read, int64_t offset, Place *place) noexcept nogil:
    """Finds where to read for `offset` (-1: the segment's beginning), and holds the file. 0 or a negated errno."""
    cdef LogState *state = state_of(log)
    cdef Segment *segment
    cdef int32_t i = 0
    cdef int error = 0
    place.file = NULL
    pthread_mutex_lock(&log.lock)
    segment = NULL if state.closed else segment_of(state, read.segment_base_offset, &i)
    if segment == NULL:
        pthread_mutex_unlock(&log.lock)
        return -ESTALE
    place.indexed = -1
    place.position = read.position
    if read.position < 0:
        place.position = offset_index_floor(state, segment, offset, &place.indexed) if offset >= 0 else 0
        if place.position == 0 or corrupt_end(segment, place.position) >= 0:
            place.indexed = -1
    place.size_bytes = segment.size_bytes
    place.next_base = state.segments[i + 1].base_offset if i + 1 < state.segment_count else log.log_end_offset
    place.truncations = log.truncations
    if place.position < segment.size_bytes:
        place.file = segment_file(state, segment, i == state.segment_count - 1, &error)
    else:
        error = -ESTALE
    pthread_mutex_unlock(&log.lock)
    return error if place.file == NULL else 0


cdef int warm_index(Log *log, ColdRead *read) noexcept nogil:
    """Reads the whole .index, so that the next search finds it in memory. A missing index is no error."""
    cdef LogState *state = state_of(log)
    cdef char[PATH_BYTES] path
    cdef Segment *segment
    cdef uint8_t *data
    cdef int64_t position = 0, n = 1
    cdef int32_t i = 0
    cdef int fd
    cdef bint warm
    pthread_mutex_lock(&log.lock)
    segment = segment_of(state, read.segment_base_offset, &i)
    warm = segment == NULL or index_warm(segment)
    segment_path(path, state, read.segment_base_offset, b".index")
    pthread_mutex_unlock(&log.lock)
    if warm:
        return 0
    fd = file_ops.open(path, O_RDONLY)
    data = <uint8_t *>malloc(INDEX_PIECE_BYTES)
    while n > 0 and fd >= 0 and data != NULL:
        n = read_range(fd, data, INDEX_PIECE_BYTES, position)
        position += n
        read.read_bytes += n if n > 0 else 0
    free(data)
    if fd >= 0:
        file_ops.close(fd)
    pthread_mutex_lock(&log.lock)
    segment = segment_of(state, read.segment_base_offset, &i)
    if segment != NULL:
        segment.index_clock = io_clock()
    pthread_mutex_unlock(&log.lock)
    return -ENOMEM if data == NULL else 0


cdef bint begins_here(const Place *place, ColdRead *read) noexcept nogil:
    """Whether the index entry is right: a complete, valid batch with that last offset begins there."""
    cdef LogScan scan
    cdef BatchInfo info
    cdef const uint8_t *batch = NULL
    cdef bint ok = False
    if scan_open_window(&scan, place.file.fd, place.position, place.size_bytes, 0) == 0:
        ok = scan_next(&scan, &info, &batch) > 0 and last_offset_of(&info) == place.indexed
    read.read_bytes += scan.read_bytes
    scan_close(&scan)
    return ok


cdef int find_start(Log *log, ColdRead *read, Place *place) noexcept nogil:
    """Finds a position where a batch certainly begins. While an index entry is wrong or points to a damaged batch, tries
    the entry before it, and then reads up to the position of the first entry."""
    cdef int64_t offset = read.offset, first = -1
    cdef int32_t steps = 0
    cdef int error = 0
    while True:
        error = find_place(log, read, offset, place)
        if error == 0 and first < 0:
            first = place.position
        elif error == 0 and place.position < first:
            read.size_bytes += first - place.position
            first = place.position
        if error != 0 or place.indexed < 0 or begins_here(place, read):
            return error
        segment_file_release(place.file)
        steps += 1
        offset = place.indexed - 1 if steps < STEPS_BACK else -1

# ---------------------------------------------------------------- reading


cdef int enter(Log *log, const ColdRead *read, const Place *place, int64_t start, int64_t end) noexcept nogil:
    """Records [start, end) as checked; -ESTALE when the segment changed meanwhile."""
    cdef LogState *state = state_of(log)
    cdef Segment *segment
    cdef int32_t i = 0
    cdef int error = 0
    pthread_mutex_lock(&log.lock)
    segment = segment_of(state, read.segment_base_offset, &i)
    if segment == NULL or log.truncations != place.truncations:
        error = -ESTALE
    else:
        segment_verified(segment, start, end)
    pthread_mutex_unlock(&log.lock)
    return error


cdef int enter_bad(Log *log, const ColdRead *read, const Place *place, CorruptFound *found) noexcept nogil:
    """Marks a bad range, and reports it if it is new."""
    cdef LogState *state = state_of(log)
    cdef char[PATH_BYTES] directory
    cdef Segment *segment
    cdef int32_t i = 0
    cdef int marked = -ESTALE
    pthread_mutex_lock(&log.lock)
    segment = segment_of(state, read.segment_base_offset, &i)
    if segment != NULL and log.truncations == place.truncations:
        marked = segment_mark_corrupt(segment, found.position, found.size_bytes)
    snprintf(directory, PATH_BYTES, b"%s", state.directory)
    pthread_mutex_unlock(&log.lock)
    if marked > 0 and read.report != NULL:
        found.directory = directory
        found.segment_base_offset = read.segment_base_offset
        read.report(read.context, found)
    return marked if marked < 0 else 0


cdef int pass_bad(Log *log, const ColdRead *read, const Place *place, LogScan *scan, int64_t *min_offset) noexcept nogil:
    """Marks the current bad batch and skips to the next good one."""
    cdef CorruptFound found
    cdef BatchInfo info
    cdef const uint8_t *batch = NULL
    cdef int error
    found.why = scan.bad
    found.position = scan_at(scan)
    error = scan_skip(scan, min_offset[0], place.next_base - 1, &info)
    if error < 0:
        return error
    found.size_bytes = scan_at(scan) - found.position
    found.next_offset = place.next_base
    error = scan_next(scan, &info, &batch)
    if error < 0:
        return error
    if error > 0:
        found.next_offset = min_offset[0] = info.base_offset
    return enter_bad(log, read, place, &found)


cdef int mark_jumper(Log *log, const ColdRead *read, const Place *place, int64_t position, int64_t end,
                     int64_t next_offset) noexcept nogil:
    """Marks the batch at [position, end): the next batch has offsets that it skipped, so its base offset is wrong."""
    cdef CorruptFound found
    found.position = position
    found.size_bytes = end - position
    found.next_offset = next_offset
    found.why = b"the batch's base offset is wrong: the next batch has lower offsets"
    return enter_bad(log, read, place, &found)


cdef int check_batches(Log *log, ColdRead *read, const Place *place, LogScan *scan) noexcept nogil:
    """Checks batch after batch until enough is read, counted from the wanted batch. No CRC covers a base offset: it must
    fit between its neighbours."""
    cdef BatchInfo info
    cdef const uint8_t *batch = NULL
    cdef int64_t min_offset = read.segment_base_offset
    cdef int64_t wanted_end = place.position + read.size_bytes
    cdef int64_t gap_at = -1, gap_min = 0                # a batch that skipped offsets, and the expected offset
    cdef int found = 1
    read.warm.next_offset = -1
    while scan_at(scan) < place.size_bytes and (scan_at(scan) < wanted_end or scan_at(scan) == place.position):
        found = scan_next(scan, &info, &batch)
        if found == -EOPNOTSUPP:
            scan.bad = b"the batch's message format is not version 2"
            found = 0
        if found > 0 and gap_at >= 0 and gap_min <= info.base_offset < min_offset:
            min_offset = info.base_offset
            found = mark_jumper(log, read, place, gap_at, scan_at(scan), min_offset)
            if found < 0:
                return found
            found = 1
        if found > 0 and not min_offset <= info.base_offset <= place.next_base - 1 - info.last_offset_delta:
            scan.bad = b"the batch's offsets overlap those of the batch before it or of the next segment"
            found = 0
        if found > 0:
            gap_at = scan_at(scan) if info.base_offset > min_offset else -1
            gap_min = min_offset
            min_offset = read.warm.next_offset = last_offset_of(&info) + 1
            scan_pass(scan, info.size_bytes)
            if min_offset <= read.offset and scan_at(scan) - place.position < APPROACH_MAX_BYTES:
                wanted_end = scan_at(scan) + read.size_bytes
        elif found == 0:
            read.warm.next_offset = gap_at = -1
            found = pass_bad(log, read, place, scan, &min_offset)
        if found < 0:
            return found
    if scan_at(scan) >= place.size_bytes:
        read.warm.next_offset = place.next_base
    return 0


cdef int cold_read(Log *log, ColdRead *read) noexcept nogil:
    cdef Place place
    cdef LogScan scan
    cdef int error
    read.warm.end = read.read_bytes = 0
    error = warm_index(log, read)
    if error == 0:
        error = find_start(log, read, &place)
    if error != 0:
        return error
    if place.position + read.size_bytes > place.size_bytes:
        read.size_bytes = place.size_bytes - place.position
    error = scan_open_window(&scan, place.file.fd, place.position, place.size_bytes, read.size_bytes)
    if error == 0:
        error = check_batches(log, read, &place, &scan)
    read.warm.segment_base_offset = read.segment_base_offset
    read.warm.start = place.position
    read.warm.truncations = place.truncations
    read.segment_size_bytes = place.size_bytes
    read.read_bytes += scan.read_bytes
    io_clock_advance(read.read_bytes)
    if error == 0:
        error = enter(log, read, &place, place.position, scan_at(&scan))
    if error == 0:
        read.warm.end = scan_at(&scan)
    scan_close(&scan)
    segment_file_release(place.file)
    return error

# ---------------------------------------------------------------- for callers that wait


cdef int16_t read_warm(Log *log, int64_t offset, int64_t limit_offset, int64_t max_bytes, bint min_one,
                       ReadCursor *cursor, LogSlice *out) noexcept nogil:
    cdef ColdRead cold
    cdef int16_t error
    cdef int found
    while True:
        error = log_read(log, offset, limit_offset, max_bytes, min_one, cursor, out)
        if error != 0 or not out.cold:
            return error
        cold_read_of(out, offset, max_bytes if max_bytes > COLD_BYTES else COLD_BYTES, &cold)
        found = cold_read(log, &cold)
        if found == 0:
            cursor.warm = cold.warm
        elif found != -ESTALE:
            return KAFKA_STORAGE_ERROR


cdef bytes copy_batches(Log *log, int64_t offset, int64_t limit_offset, int64_t max_bytes, bint waits):
    cdef LogSlice found
    cdef ReadCursor cursor
    cdef int64_t n
    cdef int16_t error
    cdef bytes data
    cdef char *into
    cursor_forget(&cursor)
    with nogil:
        if waits:
            error = read_warm(log, offset, limit_offset, max_bytes, True, &cursor, &found)
        else:
            error = log_read(log, offset, limit_offset, max_bytes, True, &cursor, &found)
    if error == CORRUPT_MESSAGE:
        raise LogError(error, f"the batch at offset {offset} of {directory_of(log)} is damaged on the disk and cannot "
                              "be read; corrupt_ranges() lists the damage")
    if error != 0:
        raise LogError(error, f"offset {offset} can't be read from {directory_of(log)}, which has offsets "
                              f"{load_i64(&log.log_start_offset)} to {load_i64(&log.log_end_offset)}")
    if not waits and found.cold:
        return None
    if found.file == NULL:
        return b""
    data = PyBytes_FromStringAndSize(NULL, found.size_bytes)
    into = PyBytes_AS_STRING(data)
    with nogil:
        n = read_range(found.file.fd, into, found.size_bytes, found.position)
        segment_file_release(found.file)
    if n != found.size_bytes:
        raise LogError(KAFKA_STORAGE_ERROR, f"{found.size_bytes} bytes at offset {offset} of {directory_of(log)} "
                                            f"could not be read")
    return data
