"""Replaces corrupt ranges of an open log by the same batches from another replica.

A replica's batches are those of its leader, byte for byte, so they fit where the corrupt ones are: nothing moves, the log
end stays, and readers that wait behind the range are not disturbed. Until the new bytes are synced the range stays out of
service: a crash in between leaves a range that fails its CRC as before.
"""
from libc.errno cimport EBADMSG, ESTALE
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport strerror
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.disk.file_ops cimport file_ops, write_range
from bowstring._native.log.partition_log cimport PartitionLog
from bowstring._native.log.scan cimport LogScan, scan_at, scan_close, scan_next, scan_open, scan_open_window, scan_pass
from bowstring._native.log.segment cimport segment_floor
from bowstring._native.log.segment_files cimport segment_file, segment_file_release
from bowstring._native.log.types cimport Log, LogState, Segment, SegmentFile, state_of
from bowstring._native.log.verified_ranges cimport corrupt_end, segment_mark_corrupt, segment_unmark_corrupt
from bowstring._native.record.batch cimport BatchInfo, batch_crc_ok, batch_extent, batch_parse

cdef struct Target:
    # The file of a corrupt range, held open.
    SegmentFile *file
    int64_t size_bytes
    int64_t next_base               # all offsets of the segment are lower
    int64_t truncations


cdef Segment *find_segment(Log *log, int64_t base_offset, Target *target, int *error) noexcept nogil:
    """Finds the segment and holds its file; NULL and *error when it is gone. Call it under the lock."""
    cdef LogState *state = state_of(log)
    cdef int64_t i = segment_floor(state, base_offset)
    cdef bint active
    target.file = NULL
    error[0] = -ESTALE
    if state.closed or state.deleting or i < 0 or state.segments[i].base_offset != base_offset:
        return NULL
    active = i == state.segment_count - 1
    target.size_bytes = state.segments[i].size_bytes
    target.next_base = log.log_end_offset if active else state.segments[i + 1].base_offset
    target.truncations = log.truncations
    error[0] = 0
    target.file = segment_file(state, state.segments[i], active, error)
    return state.segments[i] if target.file != NULL else NULL

# ---------------------------------------------------------------- which offsets


cdef int walk(const Target *target, int64_t position, int64_t end, int64_t *next_offset, int64_t *last_at) noexcept nogil:
    """Passes the good batches in [position, end); *last_at is where the last begins. -EBADMSG: one is bad."""
    cdef LogScan scan
    cdef BatchInfo info
    cdef const uint8_t *batch = NULL
    cdef int found = scan_open(&scan, target.file.fd, position, end)
    while found == 0 and scan_at(&scan) < end:
        found = scan_next(&scan, &info, &batch)
        if found > 0:
            next_offset[0] = info.base_offset + info.last_offset_delta + 1
            last_at[0] = scan_at(&scan)
            scan_pass(&scan, info.size_bytes)
            found = 0
        elif found == 0:
            found = -EBADMSG
    scan_close(&scan)
    return found


cdef int base_at(const Target *target, int64_t position, int64_t *base_offset) noexcept nogil:
    """Reads the base offset of the batch at `position`; at the end of the file it is that of the next segment."""
    cdef LogScan scan
    cdef BatchInfo info
    cdef const uint8_t *batch = NULL
    cdef int found
    base_offset[0] = target.next_base
    if position >= target.size_bytes:
        return 0
    found = scan_open_window(&scan, target.file.fd, position, target.size_bytes, 0)
    if found == 0:
        found = scan_next(&scan, &info, &batch)
        base_offset[0] = info.base_offset
    scan_close(&scan)
    return -EBADMSG if found == 0 else (found if found < 0 else 0)


cdef int mark_jumper(Log *log, const Target *target, int64_t base_offset, int64_t position, int64_t end) noexcept nogil:
    """Marks the batch before a range, too: its base offset, which no CRC covers, is higher than those behind the range."""
    cdef Target now
    cdef Segment *segment
    cdef int error = 0
    pthread_mutex_lock(&log.lock)
    segment = find_segment(log, base_offset, &now, &error)
    if segment != NULL:
        if now.truncations == target.truncations:
            segment_mark_corrupt(segment, position, end - position)
        segment_file_release(now.file)
    pthread_mutex_unlock(&log.lock)
    return error


cdef int find_offsets(Log *log, int64_t base_offset, int64_t clean_from, int64_t position, int64_t end,
                      int64_t *first_offset, int64_t *end_offset, int64_t *truncations) noexcept nogil:
    cdef Target target
    cdef int64_t last_at = -1
    cdef int error = 0
    pthread_mutex_lock(&log.lock)
    find_segment(log, base_offset, &target, &error)
    pthread_mutex_unlock(&log.lock)
    if target.file == NULL:
        return error
    first_offset[0] = base_offset
    truncations[0] = target.truncations
    error = walk(&target, clean_from, position, first_offset, &last_at)
    if error == 0:
        error = base_at(&target, end, end_offset)
    if error == 0 and last_at >= 0 and first_offset[0] >= end_offset[0]:
        error = mark_jumper(log, &target, base_offset, last_at, position)
        error = -EBADMSG if error == 0 else error
    segment_file_release(target.file)
    return error


def corrupt_offsets(PartitionLog log not None):
    """Finds which offsets the corrupt ranges held. Reads the good batches before each, so not for a thread in a hurry.

    Returns:
        ``[(base offset of the segment, position, bytes, first offset, end offset, truncations)]``, for :func:`write_back`.
        A range whose neighbours are bad, too, and were not marked yet, is left out; the next call may have it.

    Raises:
        OSError: A file cannot be read.
    """
    cdef int64_t base_offset, clean_from, position, end, first_offset = 0, end_offset = 0, truncations = 0
    cdef int error
    cdef list found = []
    before = None
    for base_offset, position, end in _joined(log.corrupt_ranges()):
        clean_from = before[1] if before is not None and before[0] == base_offset else 0
        before = base_offset, end
        with nogil:
            error = find_offsets(log.log, base_offset, clean_from, position, end, &first_offset, &end_offset, &truncations)
        if error == 0:
            found.append((base_offset, position, end - position, first_offset, end_offset, truncations))
        elif error != -EBADMSG and error != -ESTALE:
            raise _os_error(log, base_offset, error)
    return found


def _joined(ranges):
    """Joins ranges that touch: [(base offset, position, end)]."""
    joined = []
    for name, position, size_bytes in ranges:
        base_offset = int(name[:20])
        if joined and joined[len(joined) - 1][0] == base_offset and joined[len(joined) - 1][2] == position:
            joined.append((base_offset, joined.pop()[1], position + size_bytes))
        else:
            joined.append((base_offset, position, position + size_bytes))
    return joined

# ---------------------------------------------------------------- writing


cdef bint fits(const uint8_t *at, int64_t size_bytes, int64_t first_offset, int64_t end_offset) noexcept nogil:
    """Whether these are whole, good batches, in order and within the offsets."""
    cdef const uint8_t *end = at + size_bytes
    cdef BatchInfo info
    cdef int64_t size
    while at < end:
        size = batch_extent(at, end - at)
        if size <= 0 or batch_parse(at, size, &info) != 0 or not batch_crc_ok(at, size):
            return False
        if info.base_offset < first_offset or info.base_offset + info.last_offset_delta >= end_offset:
            return False
        first_offset = info.base_offset + info.last_offset_delta + 1
        at += size
    return True


cdef bint still_corrupt(const Segment *segment, int64_t position, int64_t end) noexcept nogil:
    while 0 <= position < end:
        position = corrupt_end(segment, position)
    return position == end


cdef int replace(Log *log, int64_t base_offset, int64_t position, int64_t truncations, const uint8_t *data,
                 int64_t size_bytes) noexcept nogil:
    """Writes under the lock, so that no truncation comes between: it would be undone. Syncs without it."""
    cdef Target target
    cdef Segment *segment
    cdef int error = 0
    pthread_mutex_lock(&log.lock)
    segment = find_segment(log, base_offset, &target, &error)
    if segment != NULL:
        error = -ESTALE
        if log.truncations == truncations and still_corrupt(segment, position, position + size_bytes):
            error = write_range(target.file.fd, data, size_bytes, position)
    pthread_mutex_unlock(&log.lock)
    if target.file == NULL:
        return error
    if error == 0:
        error = file_ops.sync(target.file.fd)
    segment_file_release(target.file)
    if error != 0:
        return error
    pthread_mutex_lock(&log.lock)
    segment = find_segment(log, base_offset, &target, &error)
    if segment != NULL:
        if log.truncations == truncations:
            segment_unmark_corrupt(segment, position, size_bytes)
        segment_file_release(target.file)
    pthread_mutex_unlock(&log.lock)
    return error


def write_back(PartitionLog log not None, place, const uint8_t[::1] data not None):
    """Writes good batches where corrupt ones are, syncs them, and serves them again.

    Args:
        place: What :func:`corrupt_offsets` returned for the range.
        data: The batches that another replica has for its offsets; as many bytes as the range.

    Returns:
        Whether they were written. False: the log has changed meanwhile.

    Raises:
        ValueError: The batches do not fit there. Nothing was written.
        OSError: The file cannot be written.
    """
    cdef int64_t base_offset = place[0], position = place[1], size_bytes = place[2]
    cdef int64_t first_offset = place[3], end_offset = place[4], truncations = place[5]
    cdef int error
    cdef bint good
    if data.shape[0] != size_bytes:
        raise ValueError(f"{data.shape[0]} bytes do not fit where {size_bytes} bytes are corrupt")
    with nogil:
        good = fits(&data[0], size_bytes, first_offset, end_offset)
    if not good:
        raise ValueError(f"these are not whole and good batches of the offsets {first_offset} to {end_offset - 1}")
    with nogil:
        error = replace(log.log, base_offset, position, truncations, &data[0], size_bytes)
    if error == -ESTALE:
        return False
    if error != 0:
        raise _os_error(log, base_offset, error)
    return True


def _os_error(PartitionLog log, base_offset, int error):
    return OSError(-error, strerror(-error).decode("utf-8", "replace"), f"{log.directory}/{base_offset:020d}.log")
