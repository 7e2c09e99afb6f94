"""Finds the recovery point, see recovery_point.pxd."""
from libc.errno cimport EBADMSG, EIO, ENOENT
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from bowstring._native.base.bigendian cimport load_be32, load_be64
from bowstring._native.disk.file_ops cimport PATH_BYTES, read_file
from bowstring._native.log.index cimport indexes_keep
from bowstring._native.log.recovery cimport index_batch, producers_rebuild, segment_scan
from bowstring._native.log.scan cimport LogScan, scan_close, scan_next, scan_open, scan_pass, scan_skip
from bowstring._native.log.segment cimport Walk, last_offset_of, walk_peek, walk_start
from bowstring._native.log.segment_files cimport segment_file, segment_file_release, segment_path
from bowstring._native.log.transaction_index cimport aborted_sound, aborted_truncate
from bowstring._native.log.types cimport (
    NO_TIMESTAMP, OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, UNREAD, LogState, SegmentFile, state_of)
from bowstring._native.record.batch cimport BatchInfo

cdef enum:
    # If the time index ends this far before the offset index, the timestamps probably do not ascend.
    TIME_LAG_BYTES = 67108864

cdef struct Trusted:
    # The valid part of the index files below the recovery point.
    int32_t offset_entries
    int32_t time_entries
    int64_t position                # of the last entry's batch; 0 without one
    int64_t last_offset             # that batch's; -1 without one
    int64_t timestamp               # the last time entry's
    int64_t timestamp_offset


cdef int read_offset_index(const LogState *state, const Segment *segment, int64_t point, Trusted *out) noexcept nogil:
    """Accepts entries while they ascend and lie below the point: an unclosed file may end in arbitrary bytes."""
    cdef char[PATH_BYTES] path
    cdef uint8_t *data = NULL
    cdef int64_t offset, position
    cdef int64_t size_bytes = read_file(segment_path(path, state, segment.base_offset, b".index"), &data)
    cdef int64_t at = 0
    out.offset_entries = 0
    out.position = 0
    out.last_offset = -1
    if size_bytes < 0:
        return 0 if size_bytes == -ENOENT else <int>size_bytes
    while at + OFFSET_ENTRY_BYTES <= size_bytes:
        offset = segment.base_offset + load_be32(data + at)
        position = load_be32(data + at + 4)
        if offset <= out.last_offset or position < out.position or (at > 0 and position == out.position) \
                or offset < segment.base_offset or offset >= point or position >= segment.size_bytes:
            break
        out.last_offset = offset
        out.position = position
        out.offset_entries += 1
        at += OFFSET_ENTRY_BYTES
    free(data)
    return 0


cdef int read_time_index(const LogState *state, const Segment *segment, Trusted *out) noexcept nogil:
    """Accepts time entries while they ascend, up to the end of the offset index."""
    cdef char[PATH_BYTES] path
    cdef uint8_t *data = NULL
    cdef int64_t offset, timestamp
    cdef int64_t size_bytes = read_file(segment_path(path, state, segment.base_offset, b".timeindex"), &data)
    cdef int64_t at = 0
    out.time_entries = 0
    out.timestamp = NO_TIMESTAMP
    out.timestamp_offset = -1
    if size_bytes < 0:
        return 0 if size_bytes == -ENOENT else <int>size_bytes
    while at + TIME_ENTRY_BYTES <= size_bytes:
        timestamp = load_be64(data + at)
        offset = segment.base_offset + load_be32(data + at + 8)
        if timestamp <= out.timestamp or offset < segment.base_offset or offset < out.timestamp_offset \
                or offset > out.last_offset:
            break
        out.timestamp = timestamp
        out.timestamp_offset = offset
        out.time_entries += 1
        at += TIME_ENTRY_BYTES
    free(data)
    return 0


cdef int drop_untimed(const LogState *state, const Segment *segment, Trusted *out) noexcept nogil:
    """Drops offset entries beyond the last time entry, to add both again: the time index may have lost its end."""
    cdef char[PATH_BYTES] path
    cdef uint8_t *data = NULL
    cdef int64_t position
    cdef int32_t n = out.offset_entries
    cdef int64_t size_bytes
    if out.last_offset <= out.timestamp_offset or n == 0:
        return 0
    size_bytes = read_file(segment_path(path, state, segment.base_offset, b".index"), &data)
    if size_bytes < <int64_t>n * OFFSET_ENTRY_BYTES:
        free(data)
        return <int>size_bytes if size_bytes < 0 else -EIO
    while n > 0 and segment.base_offset + load_be32(data + <int64_t>(n - 1) * OFFSET_ENTRY_BYTES) > out.timestamp_offset:
        n -= 1
    position = load_be32(data + <int64_t>(n - 1) * OFFSET_ENTRY_BYTES + 4) if n > 0 else 0
    if out.position - position <= TIME_LAG_BYTES:
        out.offset_entries = n
        out.position = position
        out.last_offset = segment.base_offset + load_be32(data + <int64_t>(n - 1) * OFFSET_ENTRY_BYTES) if n > 0 else -1
    free(data)
    return 0


cdef bint contradicts(const BatchInfo *info, const Trusted *trusted) noexcept nogil:
    """Whether the batch that the last time entry names has another timestamp."""
    return info.base_offset <= trusted.timestamp_offset <= last_offset_of(info) \
        and info.max_timestamp != trusted.timestamp


cdef int walk_to_point(Log *log, Segment *segment, Walk *walk, const Trusted *trusted, int64_t point) noexcept nogil:
    """Walks from the last trusted index entry to the point and adds what the index lacks. 1, 0 or a negated errno."""
    cdef LogState *state = state_of(log)
    cdef BatchInfo info
    cdef int64_t end_offset = segment.base_offset
    cdef int error = 0
    cdef int found = walk_peek(walk, &info)
    if trusted.offset_entries > 0:
        # The entry must match the batch, and the time index must not have lost entries before it.
        if found <= 0 or last_offset_of(&info) != trusted.last_offset or info.max_timestamp > trusted.timestamp:
            return found if found < 0 and found != -EBADMSG else 0
        if contradicts(&info, trusted):
            return 0
        state.bytes_since_index = info.size_bytes
        end_offset = last_offset_of(&info) + 1
        walk.position += info.size_bytes
        found = walk_peek(walk, &info)
    while found > 0 and info.base_offset < point:
        if info.base_offset < end_offset or last_offset_of(&info) - segment.base_offset > INT32_MAX:
            return 0
        if contradicts(&info, trusted):
            return 0
        error = index_batch(log, segment, &info, walk.position)
        if error != 0:
            return error
        end_offset = last_offset_of(&info) + 1
        walk.position += info.size_bytes
        found = walk_peek(walk, &info)
    if found < 0:
        return found if found != -EBADMSG or end_offset != point else 1   # above the point a scan follows
    return end_offset == point or (found > 0 and info.base_offset == point and end_offset < point)


cdef int resume_at(Log *log, Segment *segment, int64_t recovery_point, int64_t now_ms, int64_t *position) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef Trusted trusted
    cdef Walk walk
    cdef SegmentFile *file
    cdef int found = 0
    cdef int error = read_offset_index(state, segment, recovery_point, &trusted)
    if error == 0:
        error = read_time_index(state, segment, &trusted)
    if error == 0:
        error = drop_untimed(state, segment, &trusted)
    if error == 0:
        error = indexes_keep(state, trusted.offset_entries, trusted.time_entries)
    if error != 0:
        return error
    if segment.has_aborted and not aborted_sound(state, segment):
        return 0
    state.activated = True
    state.bytes_since_index = 0
    segment.largest_timestamp = trusted.timestamp
    segment.largest_timestamp_offset = trusted.timestamp_offset
    segment.first_timestamp = UNREAD
    file = segment_file(state, segment, True, &error)
    if file == NULL:
        return error
    walk_start(&walk, file.fd, trusted.position, segment.size_bytes)
    found = walk_to_point(log, segment, &walk, &trusted, recovery_point)
    segment_file_release(file)
    if found <= 0:
        return 0 if found == -EBADMSG else found
    position[0] = walk.position
    error = aborted_truncate(state, segment, recovery_point)
    if error == 0 and state.producers.end_offset != recovery_point:
        error = producers_rebuild(log, recovery_point, now_ms)
    return error if error != 0 else 1


cdef bint known_snapshot(const LogState *state, int64_t offset) noexcept nogil:
    cdef int32_t i
    for i in range(state.producers.snapshot_count):
        if state.producers.snapshots[i] == offset:
            return True
    return False


cdef int point_confirmed(Log *log, Segment *segment, int64_t recovery_point) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef LogScan scan
    cdef BatchInfo info
    cdef const uint8_t *batch = NULL
    cdef int64_t expected = segment.base_offset
    cdef int found, error = 0
    cdef bint confirmed = known_snapshot(state, recovery_point)
    cdef SegmentFile *file = segment_file(state, segment, True, &error) if not confirmed else NULL
    if file == NULL:
        return error if error != 0 else confirmed
    found = scan_open(&scan, file.fd, 0, segment.size_bytes)
    while found >= 0 and not confirmed and expected < recovery_point:
        found = scan_next(&scan, &info, &batch)
        if found == 0:
            if scan.bad == NULL:
                break
            found = scan_skip(&scan, expected, segment.base_offset + INT32_MAX, &info)
            if found <= 0:
                break
            if found == 1:
                continue                                 # the next step reads the good batch that was found
        else:
            if found < 0 or info.base_offset < expected:
                break
            scan_pass(&scan, info.size_bytes)
        expected = last_offset_of(&info) + 1
        confirmed = info.base_offset == recovery_point or expected == recovery_point
    scan_close(&scan)
    segment_file_release(file)
    return found if found < 0 else confirmed


cdef int segment_recover(Log *log, Segment *segment, int64_t recovery_point, bint producers_stale, int64_t now_ms,
                         Recovered *out) noexcept nogil:
    cdef int64_t position = 0
    cdef int found = 0
    cdef int error = 0
    if recovery_point > segment.base_offset:
        found = resume_at(log, segment, recovery_point, now_ms, &position)
        if found > 0:
            return segment_scan(log, segment, position, recovery_point, recovery_point, out)
        if found == 0:
            found = point_confirmed(log, segment, recovery_point)
        if found < 0:
            return found
    if producers_stale or state_of(log).producers.end_offset > segment.base_offset:
        error = producers_rebuild(log, segment.base_offset, now_ms)
    if error != 0:
        return error
    return segment_scan(log, segment, 0, segment.base_offset, recovery_point if found > 0 else segment.base_offset, out)
