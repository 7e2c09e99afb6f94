"""Searches for timestamps, see timestamp_search.pxd.

Contents: a view of one segment · searching one segment · by timestamp · the largest, and the first of each segment ·
the record inside a batch, for Python.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.errno cimport EBADMSG, ENOENT, ENOMEM, ESTALE
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset, strdup
from posix.fcntl cimport O_RDONLY
from bowstring._native.base.error_codes cimport CORRUPT_MESSAGE, INVALID_RECORD
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.disk.file_ops cimport PATH_BYTES, file_ops, read_range
from bowstring._native.log.index cimport index_distrusted_too, offset_index_floor, time_index_floor
from bowstring._native.log.python_values cimport check
from bowstring._native.log.segment cimport (
    Walk, last_offset_of, segment_floor, segment_largest_timestamp, segment_locate_in, walk_peek, walk_start)
from bowstring._native.log.segment_files cimport segment_file_if_open, segment_file_path, segment_file_release
from bowstring._native.log.types cimport (
    LOOKS_MAX, NO_TIMESTAMP, UNREAD, ByteRange, Index, LogState, Segment, state_of)
from bowstring._native.log.verified_ranges cimport segment_mark_corrupt
from bowstring._native.record.batch cimport (
    ATTR_COMPRESSION_MASK, ATTR_LOG_APPEND_TIME, BATCH_HEADER_BYTES, BatchInfo, Record, batch_crc_ok, batch_parse,
    record_read)
from bowstring._native.record.record_sizes cimport record_beyond
from bowstring._native.log.python_values import LogError

cdef struct FoundBatch:
    # A batch copied out of the log, for a search inside it. The caller frees `data`.
    uint8_t *data                   # NULL: nothing found
    int64_t size_bytes
    int64_t first_offset            # records below it are ignored

cdef struct LogView:
    # A copy of one segment that is read without Log.lock: a LogState with one segment, in which index.pyx and segment.pyx
    # search as in the log's own. Results are valid only if view_enter() returns True.
    LogState state
    Segment segment                 # a copy with its own ranges; its file is held if it is open
    Segment *segments[1]
    int64_t truncations             # of the log when it was taken
    int fd                          # of the .log; -1: not opened

# ---------------------------------------------------------------- a view of one segment


cdef void *copy_of(const void *data, int64_t size_bytes) noexcept nogil:
    """Copies data into malloc'd memory; NULL if there is none."""
    cdef void *made = malloc(<size_t>size_bytes) if size_bytes > 0 else NULL
    if made != NULL:
        memcpy(made, data, <size_t>size_bytes)
    return made


cdef bint copy_index(const Index *index, Index *out) noexcept nogil:
    out[0] = index[0]
    out.tail = <uint8_t *>copy_of(index.tail, <int64_t>index.tail_count * index.entry_bytes)
    return out.tail != NULL or index.tail_count == 0


cdef int view_take(Log *log, int32_t i, LogView *view) noexcept nogil:
    """Copies segment i. Call it under Log.lock. 0 or -ENOMEM; call view_free() in either case. A view must not be copied."""
    cdef LogState *state = state_of(log)
    cdef Segment *segment = state.segments[i]
    cdef bint whole = True
    memset(&view.state, 0, sizeof(LogState))
    view.fd = -1
    view.truncations = log.truncations
    view.segment = segment[0]
    view.segment.file = segment_file_if_open(segment, i == state.segment_count - 1)
    view.segment.corrupt = <ByteRange *>copy_of(segment.corrupt, segment.corrupt_count * <int64_t>sizeof(ByteRange))
    view.segments[0] = &view.segment
    view.state.segments = view.segments
    view.state.segment_count = 1
    view.state.directory = strdup(state.directory)
    if state.activated and i == state.segment_count - 1:
        view.state.activated = True
        whole = copy_index(&state.offset_index, &view.state.offset_index)
        whole = copy_index(&state.time_index, &view.state.time_index) and whole
    if view.state.directory == NULL or not whole or (view.segment.corrupt == NULL and segment.corrupt_count > 0):
        return -ENOMEM
    return 0


cdef void view_free(LogView *view) noexcept nogil:
    free(view.state.directory)
    free(view.state.offset_index.tail)
    free(view.state.time_index.tail)
    free(view.segment.corrupt)
    if view.segment.file != NULL:
        segment_file_release(view.segment.file)
    elif view.fd >= 0:
        file_ops.close(view.fd)


cdef int view_open(LogView *view) noexcept nogil:
    """Opens the .log: 0 or a negated errno, ESTALE when it was renamed."""
    cdef char[PATH_BYTES] path
    if view.fd < 0 and view.segment.file != NULL:
        view.fd = view.segment.file.fd
    elif view.fd < 0:
        view.fd = file_ops.open(segment_file_path(path, &view.state, &view.segment, b".log"), O_RDONLY)
    if view.fd == -ENOENT:
        return -ESTALE
    return view.fd if view.fd < 0 else 0


cdef int view_locate(LogView *view, int64_t offset, int64_t *position, BatchInfo *info) noexcept nogil:
    """Like segment_locate of segment.pxd, in the opened file."""
    return segment_locate_in(&view.state, &view.segment, view.fd, offset, view.segment.size_bytes, position, info)


cdef bint view_enter(Log *log, LogView *view) noexcept nogil:
    """Copies what the search found (timestamps, a wrong index, bad ranges) to the log's segment. False: the segment was
    removed or replaced, and nothing was copied."""
    cdef LogState *state = state_of(log)
    cdef Segment *segment = NULL
    cdef int32_t i, k
    pthread_mutex_lock(&log.lock)
    i = segment_floor(state, view.segment.base_offset)
    if i >= 0 and state.segments[i].base_offset == view.segment.base_offset and not state.closed \
            and log.truncations == view.truncations:
        segment = state.segments[i]
        if segment.largest_timestamp == UNREAD:
            segment.largest_timestamp = view.segment.largest_timestamp
            segment.largest_timestamp_offset = view.segment.largest_timestamp_offset
        if segment.first_timestamp == UNREAD:
            segment.first_timestamp = view.segment.first_timestamp
        if view.segment.index_unsound:
            index_distrusted_too(segment)
        for k in range(view.segment.corrupt_count):      # known ranges do not change
            segment_mark_corrupt(segment, view.segment.corrupt[k].start,
                                 view.segment.corrupt[k].end - view.segment.corrupt[k].start)
    pthread_mutex_unlock(&log.lock)
    return segment != NULL

# ---------------------------------------------------------------- searching one segment


cdef int copy_batch(LogView *view, int64_t position, int64_t size_bytes, FoundBatch *out) noexcept nogil:
    """Copies the batch to out.data; if it is damaged, marks it and leaves out.data NULL. 0 or a negated errno."""
    cdef int64_t n
    cdef int error = -ENOMEM
    out.data = <uint8_t *>malloc(<size_t>size_bytes)
    out.size_bytes = size_bytes
    if out.data != NULL:
        n = read_range(view.fd, out.data, size_bytes, position)
        if n == size_bytes and batch_crc_ok(out.data, size_bytes):
            return 0
        error = <int>n if n < 0 else segment_mark_corrupt(&view.segment, position, size_bytes)
    free(out.data)
    out.data = NULL
    return error if error < 0 else 0


cdef int age_timestamp(LogView *view, int64_t *timestamp) noexcept nogil:
    """Like segment_age_timestamp: the largest timestamp, or the file's modification time if there is none."""
    cdef int64_t size_bytes = 0
    cdef int error
    timestamp[0] = segment_largest_timestamp(&view.state, &view.segment)
    if timestamp[0] >= 0:
        return 0
    error = view_open(view)
    if error == 0 and file_ops.stat(view.fd, &size_bytes, timestamp) != 0:
        timestamp[0] = view.segment.created_ms
    return error


cdef int first_at_or_after(LogView *view, int64_t timestamp, FoundBatch *out) noexcept nogil:
    """Finds the first batch that ends at or above out.first_offset and reaches `timestamp`."""
    cdef Walk walk
    cdef BatchInfo info
    cdef int64_t entry_timestamp = 0, entry_offset = view.segment.base_offset, unused = 0
    cdef int found = view_open(view)
    if found != 0:
        return found
    time_index_floor(&view.state, &view.segment, timestamp, &entry_timestamp, &entry_offset)
    if entry_offset < out.first_offset:
        entry_offset = out.first_offset
    walk_start(&walk, view.fd, offset_index_floor(&view.state, &view.segment, entry_offset, &unused),
               view.segment.size_bytes)
    walk.segment = &view.segment
    found = walk_peek(&walk, &info)
    while found > 0 and out.data == NULL:
        if info.max_timestamp >= timestamp and last_offset_of(&info) >= out.first_offset:
            found = copy_batch(view, walk.position, info.size_bytes, out)
            if found < 0:
                break
        walk.position += info.size_bytes
        found = walk_peek(&walk, &info)
    return found if found < 0 else 0

# ---------------------------------------------------------------- by timestamp


cdef int next_reaching(Log *log, int64_t timestamp, int64_t after, FoundBatch *out, LogView *view) noexcept nogil:
    """Takes a view of the first segment beyond `after` (-1: of all) that may reach `timestamp`. Returns 1, 0 when there is
    none, or a negated errno."""
    cdef LogState *state = state_of(log)
    cdef Segment *segment
    cdef int32_t i
    cdef int found = 0
    pthread_mutex_lock(&log.lock)
    if state.closed:
        found = -EBADMSG
    if out.first_offset < log.log_start_offset and after < 0:
        out.first_offset = log.log_start_offset
    for i in range(segment_floor(state, after) + 1 if after >= 0 else 0, state.segment_count):
        if found != 0:
            break
        segment = state.segments[i]
        if i + 1 < state.segment_count and state.segments[i + 1].base_offset <= out.first_offset:
            continue
        if segment.largest_timestamp < 0 or segment.largest_timestamp >= timestamp:
            found = view_take(log, i, view)
            found = 1 if found == 0 else found
            if found < 0:
                view_free(view)
    pthread_mutex_unlock(&log.lock)
    return found


cdef int search(Log *log, int64_t timestamp, FoundBatch *out) noexcept nogil:
    cdef LogView view
    cdef int64_t after = -1, age = 0
    cdef int found = next_reaching(log, timestamp, after, out, &view)
    while found > 0:
        after = view.segment.base_offset
        found = age_timestamp(&view, &age)
        if found == 0 and age >= timestamp:
            found = first_at_or_after(&view, timestamp, out)
        if not view_enter(log, &view):
            found = -ESTALE
        view_free(&view)
        if found != 0 or out.data != NULL:
            return found
        found = next_reaching(log, timestamp, after, out, &view)
    return found


cdef int batch_by_timestamp(Log *log, int64_t timestamp, int64_t from_offset, FoundBatch *out) noexcept nogil:
    """Searches segments whose largest timestamp reaches it, as Kafka does, except those below the log start."""
    cdef int32_t attempts = 0
    cdef int error = -ESTALE
    while error == -ESTALE and attempts < LOOKS_MAX:
        attempts += 1
        out.data = NULL
        out.first_offset = from_offset
        error = search(log, timestamp, out)
        if error != 0:
            free(out.data)
            out.data = NULL
    return error

# ---------------------------------------------------------------- the largest


cdef int next_unread(Log *log, int64_t timestamp, LogView *view) noexcept nogil:
    """Takes a view of the oldest segment of unknown age, if all before it are below `timestamp`. Returns 1, 0 when there is
    none, or a negated errno."""
    cdef LogState *state = state_of(log)
    cdef int32_t i = 0
    cdef int found = 0
    pthread_mutex_lock(&log.lock)
    while i < state.segment_count and state.segments[i].largest_timestamp != UNREAD \
            and state.segments[i].largest_timestamp < timestamp:
        i += 1
    if state.closed:
        found = -EBADMSG
    elif i < state.segment_count and state.segments[i].largest_timestamp == UNREAD:
        found = view_take(log, i, view)
        found = 1 if found == 0 else found
        if found < 0:
            view_free(view)
    pthread_mutex_unlock(&log.lock)
    return found


cdef int learn(Log *log, int64_t timestamp) noexcept nogil:
    cdef LogView view
    cdef int found = next_unread(log, timestamp, &view)
    while found > 0:
        segment_largest_timestamp(&view.state, &view.segment)
        found = 0 if view_enter(log, &view) else -ESTALE
        view_free(&view)
        if found == 0:
            found = next_unread(log, timestamp, &view)
    return found


cdef void timestamps_learn(Log *log, int64_t timestamp) noexcept nogil:
    learn(log, timestamp)


cdef int next_without_first(Log *log, LogView *view) noexcept nogil:
    """Takes a view of the oldest segment whose first timestamp was not read yet: 1, 0 for none, or a negated errno."""
    cdef LogState *state = state_of(log)
    cdef int32_t i = 0
    cdef int found = 0
    pthread_mutex_lock(&log.lock)
    while i < state.segment_count and state.segments[i].first_timestamp != UNREAD:
        i += 1
    if i < state.segment_count and not state.closed:
        found = view_take(log, i, view)
        found = 1 if found == 0 else found
        if found < 0:
            view_free(view)
    pthread_mutex_unlock(&log.lock)
    return found


cdef void first_timestamps_learn(Log *log) noexcept nogil:
    cdef LogView view
    cdef Walk walk
    cdef BatchInfo info
    cdef bint going_on = True
    while going_on and next_without_first(log, &view) > 0:
        going_on = view_open(&view) == 0
        if going_on:
            view.segment.first_timestamp = NO_TIMESTAMP
            walk_start(&walk, view.fd, 0, view.segment.size_bytes)
            walk.segment = &view.segment
            if walk_peek(&walk, &info) > 0:
                view.segment.first_timestamp = info.max_timestamp
            going_on = view_enter(log, &view)
        view_free(&view)


cdef int take_latest(Log *log, LogView *view) noexcept nogil:
    """Takes a view of the first segment with the largest timestamp: 0, or a negated errno; ESTALE: one is not known yet."""
    cdef LogState *state = state_of(log)
    cdef int32_t i, best = 0
    cdef int error = 0
    pthread_mutex_lock(&log.lock)
    for i in range(state.segment_count):
        if state.segments[i].largest_timestamp == UNREAD:
            error = -ESTALE
        if state.segments[i].largest_timestamp > state.segments[best].largest_timestamp:
            best = i
    if state.closed:
        error = -EBADMSG
    if error == 0:
        error = view_take(log, best, view)
        if error != 0:
            view_free(view)
    pthread_mutex_unlock(&log.lock)
    return error


cdef int copy_latest(LogView *view, int64_t *timestamp, FoundBatch *out) noexcept nogil:
    cdef BatchInfo info
    cdef int64_t position = 0
    cdef int error
    timestamp[0] = view.segment.largest_timestamp
    if timestamp[0] < 0:
        return 0
    error = view_open(view)
    if error == 0:
        error = view_locate(view, view.segment.largest_timestamp_offset, &position, &info)
    if error > 0:
        error = copy_batch(view, position, info.size_bytes, out)
    if error == 0 and (out.data == NULL or info.max_timestamp < timestamp[0]):
        error = -EBADMSG                                 # the batch with that timestamp is damaged
    return error


cdef int batch_of_max_timestamp(Log *log, int64_t *timestamp, FoundBatch *out) noexcept nogil:
    cdef LogView view
    cdef int32_t attempts = 0
    cdef int error = -ESTALE
    out.first_offset = 0
    while error == -ESTALE and attempts < LOOKS_MAX:
        attempts += 1
        out.data = NULL
        error = learn(log, INT64_MAX)
        if error == 0:
            error = take_latest(log, &view)
        if error == 0:
            error = copy_latest(&view, timestamp, out)
            if not view_enter(log, &view):
                error = -ESTALE
            view_free(&view)
        if error == -ESTALE:
            free(out.data)
            out.data = NULL
    return error

# ---------------------------------------------------------------- the record, for Python


cdef bint find_record(const uint8_t *at, const uint8_t *end, const BatchInfo *info, int64_t timestamp,
                      int64_t first_offset, int64_t *found_timestamp, int64_t *found_offset) noexcept nogil:
    """Finds the first record at or above first_offset whose timestamp is `timestamp` or later."""
    cdef Record record
    cdef int32_t i
    for i in range(info.record_count):
        if not record_read(&at, end, &record):
            return False
        found_offset[0] = info.base_offset + record.offset_delta
        found_timestamp[0] = (info.max_timestamp if info.attributes & ATTR_LOG_APPEND_TIME
                              else info.base_timestamp + record.timestamp_delta)
        if found_offset[0] >= first_offset and found_timestamp[0] >= timestamp:
            return True
    return False


cdef object search_batch(FoundBatch *batch, BatchInfo *info, int64_t timestamp, int32_t record_max_bytes):
    """Returns (timestamp, offset, leader epoch) of the record in this batch, or None."""
    cdef int64_t found_timestamp = 0, found_offset = 0
    cdef bytes records
    cdef const uint8_t *at = batch.data + BATCH_HEADER_BYTES
    cdef const uint8_t *end = batch.data + batch.size_bytes
    cdef bint found
    if batch_parse(batch.data, batch.size_bytes, info) != 0:
        raise LogError(CORRUPT_MESSAGE, "the batch found for the timestamp has an invalid header")
    if info.attributes & ATTR_COMPRESSION_MASK:
        from bowstring._native.record.compression import CompressionError, decompress   # loaded only where it is needed

        try:
            records = decompress(info.attributes & ATTR_COMPRESSION_MASK,
                                 PyBytes_FromStringAndSize(<char *>at, end - at))
        except CompressionError as error:
            raise LogError(CORRUPT_MESSAGE, f"the batch at offset {info.base_offset}: {error}") from error
        at = <const uint8_t *>PyBytes_AS_STRING(records)
        end = at + len(records)
        larger = record_beyond(at, end, record_max_bytes)
        if larger:
            raise LogError(INVALID_RECORD, f"the batch at offset {info.base_offset} has a record of {larger} bytes, more than "
                           f"max.decompressed.message.bytes={record_max_bytes}; raise it to look timestamps up here")
    with nogil:
        found = find_record(at, end, info, timestamp, batch.first_offset, &found_timestamp, &found_offset)
    return (found_timestamp, found_offset, info.leader_epoch) if found else None


cdef object search_timestamp(Log *log, int64_t timestamp):
    """Continues with the next batch when the only records at `timestamp` or later lie below the log start."""
    cdef FoundBatch batch
    cdef BatchInfo info
    cdef int64_t from_offset = 0
    cdef int error
    while True:
        with nogil:
            error = batch_by_timestamp(log, timestamp, from_offset, &batch)
        try:
            check(log, error)
            if batch.data == NULL:
                return None
            found = search_batch(&batch, &info, timestamp, log.config.max_decompressed_message_bytes)
        finally:
            free(batch.data)
        if found is not None:
            return found
        from_offset = info.base_offset + info.last_offset_delta + 1


cdef object search_max_timestamp(Log *log):
    cdef FoundBatch batch
    cdef BatchInfo info
    cdef int64_t timestamp = -1
    cdef int error
    with nogil:
        error = batch_of_max_timestamp(log, &timestamp, &batch)
    try:
        check(log, error)
        if batch.data == NULL:
            return None
        return search_batch(&batch, &info, timestamp, log.config.max_decompressed_message_bytes)
    finally:
        free(batch.data)
