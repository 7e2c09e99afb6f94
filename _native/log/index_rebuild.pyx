"""Rebuilds indexes of closed segments in a running broker, when a search has found them missing or damaged."""
from libc.errno cimport ENOENT, ENOMEM
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport strerror
from bowstring._native.base.bigendian cimport store_be32, store_be64
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.disk.file_ops cimport PATH_BYTES, replace_file
from bowstring._native.log.index cimport index_trust
from bowstring._native.log.partition_log cimport PartitionLog
from bowstring._native.log.scan cimport LogScan, scan_at, scan_close, scan_next, scan_open, scan_pass, scan_skip
from bowstring._native.log.segment cimport last_offset_of, segment_floor
from bowstring._native.log.segment_files cimport segment_file, segment_file_release, segment_path
from bowstring._native.log.types cimport (
    NO_TIMESTAMP, OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, Log, LogState, Segment, SegmentFile, state_of)
from bowstring._native.record.batch cimport BatchInfo

cdef struct Entries:
    uint8_t *data
    int64_t size_bytes
    int64_t capacity

cdef struct Reindexing:
    # One segment's indexes while they are rebuilt, without the lock.
    SegmentFile *file
    int64_t base_offset
    int64_t size_bytes              # of the .log
    int64_t truncations
    int32_t interval_bytes
    Entries offsets
    Entries times
    int64_t timestamp               # the largest so far
    int64_t timestamp_offset
    int64_t entered_timestamp


cdef uint8_t *grow(Entries *entries, int32_t entry_bytes) noexcept nogil:
    """Returns room for one more entry, or NULL."""
    cdef uint8_t *grown
    cdef int64_t capacity
    if entries.size_bytes + entry_bytes > entries.capacity:
        capacity = entries.capacity * 2 + 1024 * entry_bytes
        grown = <uint8_t *>realloc(entries.data, <size_t>capacity)
        if grown == NULL:
            return NULL
        entries.data = grown
        entries.capacity = capacity
    entries.size_bytes += entry_bytes
    return entries.data + entries.size_bytes - entry_bytes


cdef bint enter_time(Reindexing *work) noexcept nogil:
    cdef uint8_t *entry
    if work.timestamp <= work.entered_timestamp:
        return True
    entry = grow(&work.times, TIME_ENTRY_BYTES)
    if entry == NULL:
        return False
    store_be64(entry, work.timestamp)
    store_be32(entry + 8, <int32_t>(work.timestamp_offset - work.base_offset))
    work.entered_timestamp = work.timestamp
    return True


cdef int enter_batches(Reindexing *work, LogScan *scan) noexcept nogil:
    """Adds entries for the segment's batches, as appends do; skips damaged batches."""
    cdef BatchInfo info
    cdef BatchInfo bad
    cdef const uint8_t *batch = NULL
    cdef uint8_t *entry
    cdef int64_t since = 0
    cdef int64_t expected = work.base_offset
    cdef int found
    while True:
        found = scan_next(scan, &info, &batch)
        if found == 0 and scan.bad != NULL:
            found = scan_skip(scan, expected, work.base_offset + 0x7FFFFFFF, &bad)
            if found > 0:
                continue
        if found <= 0:
            return found
        if info.max_timestamp > work.timestamp:
            work.timestamp = info.max_timestamp
            work.timestamp_offset = last_offset_of(&info)
        if since > work.interval_bytes:
            entry = grow(&work.offsets, OFFSET_ENTRY_BYTES)
            if entry == NULL or not enter_time(work):
                return -ENOMEM
            store_be32(entry, <int32_t>(last_offset_of(&info) - work.base_offset))
            store_be32(entry + 4, <int32_t>scan_at(scan))
            since = 0
        since += info.size_bytes
        expected = last_offset_of(&info) + 1
        scan_pass(scan, info.size_bytes)


cdef int next_unsound(Log *log, Reindexing *work) noexcept nogil:
    """Finds a closed segment whose index is not trusted: 1, 0 when there is none, or a negated errno. Call it under the
    lock."""
    cdef LogState *state = state_of(log)
    cdef Segment *segment
    cdef int32_t i
    cdef int error = 0
    if state.closed or state.deleting:
        return 0
    for i in range(state.segment_count - 1):
        segment = state.segments[i]
        if segment.index_unsound and not segment.index_rebuilt:
            work.file = segment_file(state, segment, False, &error)
            work.base_offset = segment.base_offset
            work.size_bytes = segment.size_bytes
            work.truncations = log.truncations
            work.interval_bytes = log.config.index_interval_bytes
            return 1 if work.file != NULL else error
    return 0


cdef int put_in_place(Log *log, Reindexing *work) noexcept nogil:
    """Renames the new files to their names. Returns 1 when the segment still exists. Call it under the lock: readers find
    the old file or the new one."""
    cdef LogState *state = state_of(log)
    cdef char[PATH_BYTES] path
    cdef int32_t i = segment_floor(state, work.base_offset)
    cdef int error
    if state.closed or state.deleting or log.truncations != work.truncations or i < 0 \
            or state.segments[i].base_offset != work.base_offset or i == state.segment_count - 1:
        return 0
    error = replace_file(segment_path(path, state, work.base_offset, b".index"),
                         work.offsets.data, work.offsets.size_bytes, False)
    if error == 0:
        error = replace_file(segment_path(path, state, work.base_offset, b".timeindex"),
                             work.times.data, work.times.size_bytes, False)
    state.segments[i].index_rebuilt = True               # only once: a permanent error would otherwise rebuild it again and again
    if error != 0:
        return error
    index_trust(state.segments[i])
    state.rebuilt_indexes += 1
    return 1


cdef int reindex_next(Log *log, Reindexing *work) noexcept nogil:
    """Rebuilds the indexes of one segment: 1, 0 when there is nothing to do, or a negated errno."""
    cdef LogScan scan
    cdef int found
    pthread_mutex_lock(&log.lock)
    found = next_unsound(log, work)
    pthread_mutex_unlock(&log.lock)
    if found <= 0:
        return found
    work.timestamp = work.entered_timestamp = NO_TIMESTAMP
    work.timestamp_offset = -1
    found = scan_open(&scan, work.file.fd, 0, work.size_bytes)
    if found == 0:
        found = enter_batches(work, &scan)
    scan_close(&scan)
    segment_file_release(work.file)
    if found == 0 and not enter_time(work):              # a closed segment's time index ends with its largest timestamp
        found = -ENOMEM
    if found < 0:
        return found
    pthread_mutex_lock(&log.lock)
    found = put_in_place(log, work)
    pthread_mutex_unlock(&log.lock)
    return found


def rebuild_indexes(PartitionLog log not None):
    """Rebuilds the indexes of closed segments whose index a search has found missing, short or wrong.

    Reads the segments outside the log's lock. Returns the base offsets of the segments.

    Raises:
        OSError: A segment could not be read, or its index not written; searches continue without that index.
    """
    cdef Reindexing work
    cdef int found = 1
    cdef list done = []
    while found > 0:
        work.offsets.data = work.times.data = NULL
        work.offsets.size_bytes = work.offsets.capacity = work.times.size_bytes = work.times.capacity = 0
        with nogil:
            found = reindex_next(log.log, &work)
        free(work.offsets.data)
        free(work.times.data)
        if found > 0:
            done.append(work.base_offset)
    if found < 0 and found != -ENOENT:
        raise OSError(-found, strerror(-found).decode("utf-8", "replace"), log.directory)
    return done
