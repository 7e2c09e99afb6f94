"""Reading from the disk what a reader is about to want, see log_cold.pxd."""
from libc.errno cimport ENOMEM, EOPNOTSUPP, ESTALE
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc
from posix.fcntl cimport O_RDONLY
from bowstring._native.batch cimport BatchInfo
from bowstring._native.log_checked cimport (
    corrupt_end, index_warm, io_clock, io_clock_advance, segment_mark_corrupt, segment_verified)
from bowstring._native.log_files cimport file_ops, file_release, read_range, segment_file, segment_path
from bowstring._native.log_index cimport offset_index_floor
from bowstring._native.log_roll cimport log_fail, state_of
from bowstring._native.log_scan cimport LogScan, scan_at, scan_close, scan_next, scan_open, scan_pass, scan_skip
from bowstring._native.log_segment cimport last_offset_of, segment_floor
from bowstring._native.log_types cimport PATH_BYTES, LogState, Segment, SegmentFile, pthread_mutex_t

cdef extern from "pthread.h" nogil:
    int pthread_mutex_lock(pthread_mutex_t *mutex)
    int pthread_mutex_unlock(pthread_mutex_t *mutex)

cdef enum:
    INDEX_PIECE_BYTES = 65536
    STEPS_BACK = 8                  # index entries tried before a segment is read from its beginning

cdef struct Place:
    # What the lock was taken for: where to read, and what must still hold when the result is entered.
    SegmentFile *file               # held
    int64_t position
    int64_t indexed                 # last offset of the batch at `position` by the index; -1: it is known to begin there
    int64_t size_bytes              # of the segment
    int64_t next_base               # offsets of the segment are below it
    int64_t truncations


cdef Segment *segment_of(LogState *state, int64_t base_offset, int32_t *index) noexcept nogil:
    index[0] = segment_floor(state, base_offset)
    if index[0] < 0 or state.segments[index[0]].base_offset != base_offset:
        return NULL
    return state.segments[index[0]]


cdef void mark_corrupt(Log *log, int64_t segment_base_offset, int64_t position, int64_t size_bytes) noexcept nogil:
    cdef int32_t i = 0
    cdef Segment *segment
    pthread_mutex_lock(&log.lock)
    segment = segment_of(state_of(log), segment_base_offset, &i)
    if segment != NULL and segment_mark_corrupt(segment, position, size_bytes) < 0:
        log_fail(log, -ENOMEM, b"remembering a corrupt batch")
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
    """Where to read for `offset`; -1 says from the segment's beginning. The file is held. 0 or a negated errno."""
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


cdef int warm_index(Log *log, const ColdRead *read) noexcept nogil:
    """Reads the whole .index, so that a search in it finds it in memory. Without one there is nothing to warm."""
    cdef LogState *state = state_of(log)
    cdef char[4096] path
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
    free(data)
    if fd >= 0:
        file_ops.close(fd)
    pthread_mutex_lock(&log.lock)
    segment = segment_of(state, read.segment_base_offset, &i)
    if segment != NULL:
        segment.index_clock = io_clock()
    pthread_mutex_unlock(&log.lock)
    return -ENOMEM if data == NULL else 0


cdef bint begins_here(const Place *place) noexcept nogil:
    """Whether the batch that the index names is there, whole and good."""
    cdef LogScan scan
    cdef BatchInfo info
    cdef const uint8_t *batch = NULL
    cdef bint ok = False
    if scan_open(&scan, place.file.fd, place.position, place.size_bytes) == 0:
        ok = scan_next(&scan, &info, &batch) > 0 and last_offset_of(&info) == place.indexed
    scan_close(&scan)
    return ok


cdef int find_start(Log *log, ColdRead *read, Place *place) noexcept nogil:
    """A position at which a batch is known to begin: an index may lie, and a batch it names may be the bad one.
    What is wanted still begins where the index said."""
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
        if error != 0 or place.indexed < 0 or begins_here(place):
            return error
        file_release(place.file)
        steps += 1
        offset = place.indexed - 1 if steps < STEPS_BACK else -1

# ---------------------------------------------------------------- reading


cdef int enter(Log *log, const ColdRead *read, const Place *place, int64_t start, int64_t end) noexcept nogil:
    """[start, end) is checked now; ESTALE when the segment changed meanwhile."""
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
    """Marks a bad range; reported when it was not known."""
    cdef LogState *state = state_of(log)
    cdef char[4096] directory
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
    """Over the bad batch at hand to the next good one."""
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
    """[position, end) left offsets out, and the batch behind it has some of them: the first of the two is wrong."""
    cdef CorruptFound found
    found.position = position
    found.size_bytes = end - position
    found.next_offset = next_offset
    found.why = b"its base offset is not the one that was due"
    return enter_bad(log, read, place, &found)


cdef int check_batches(Log *log, ColdRead *read, const Place *place, LogScan *scan) noexcept nogil:
    """From batch to batch until enough is read. A base offset, which no CRC covers, has to fit between its neighbours."""
    cdef BatchInfo info
    cdef const uint8_t *batch = NULL
    cdef int64_t min_offset = read.segment_base_offset
    cdef int64_t wanted_end = place.position + read.size_bytes
    cdef int64_t gap_at = -1, gap_min = 0                # a batch that came later than was due, and what was
    cdef int found = 1
    read.warm.next_offset = -1
    while scan_at(scan) < place.size_bytes and (scan_at(scan) < wanted_end or scan_at(scan) == place.position):
        found = scan_next(scan, &info, &batch)
        if found == -EOPNOTSUPP:
            scan.bad = b"it is not of message format 2"
            found = 0
        if found > 0 and gap_at >= 0 and gap_min <= info.base_offset < min_offset:
            min_offset = info.base_offset
            found = mark_jumper(log, read, place, gap_at, scan_at(scan), min_offset)
            if found < 0:
                return found
            found = 1
        if found > 0 and not min_offset <= info.base_offset <= place.next_base - 1 - info.last_offset_delta:
            scan.bad = b"its offsets do not fit between its neighbours'"
            found = 0
        if found > 0:
            gap_at = scan_at(scan) if info.base_offset > min_offset else -1
            gap_min = min_offset
            min_offset = read.warm.next_offset = last_offset_of(&info) + 1
            scan_pass(scan, info.size_bytes)
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
    cdef int error = warm_index(log, read)
    read.warm.end = read.read_bytes = 0
    if error == 0:
        error = find_start(log, read, &place)
    if error != 0:
        return error
    if place.position + read.size_bytes > place.size_bytes:
        read.size_bytes = place.size_bytes - place.position
    error = scan_open(&scan, place.file.fd, place.position, place.size_bytes)
    if error == 0:
        error = check_batches(log, read, &place, &scan)
    read.warm.segment_base_offset = read.segment_base_offset
    read.warm.start = place.position
    read.warm.truncations = place.truncations
    read.segment_size_bytes = place.size_bytes
    read.read_bytes = scan_at(&scan) - place.position
    io_clock_advance(read.read_bytes)
    if error == 0:
        error = enter(log, read, &place, place.position, scan_at(&scan))
    if error == 0:
        read.warm.end = scan_at(&scan)
    scan_close(&scan)
    file_release(place.file)
    return error
