"""Reads a log's batches again, see recovery.pxd."""
from libc.errno cimport EBADMSG, ENOENT, ENOMEM
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from bowstring._native.disk.file_ops cimport PATH_BYTES, file_ops, read_range
from bowstring._native.disk.directory_health cimport may_pass
from bowstring._native.log.index cimport (
    indexes_reset, indexes_write, offset_index_append, offset_index_floor, time_index_append, time_index_last)
from bowstring._native.log.leader_epochs cimport epochs_assign, epochs_clear, epochs_newest
from bowstring._native.log.producer_state cimport (
    CompletedTransaction, Marker, marker_read, producer_end_transaction, producer_update, producers_clear,
    snapshot_forget, snapshot_load)
from bowstring._native.log.scan cimport LogScan, scan_at, scan_close, scan_next, scan_open, scan_pass, scan_skip
from bowstring._native.log.segment cimport (
    Walk, active_segment, last_offset_of, log_cut, segment_locate, walk_peek, walk_start)
from bowstring._native.log.segment_files cimport segment_file, segment_file_detach, segment_file_release, segment_path
from bowstring._native.log.transaction_index cimport aborted_append
from bowstring._native.log.types cimport NO_TIMESTAMP, LogFinding, LogState, SegmentFile, state_of
from bowstring._native.log.verified_ranges cimport segment_checks_cut, segment_mark_corrupt, segment_verified
from bowstring._native.log.verify cimport finding_add
from bowstring._native.record.batch cimport ATTR_CONTROL, BatchInfo

# ---------------------------------------------------------------- updating the log's state from a batch


cdef int replay(Log *log, Segment *segment, const uint8_t *batch, const BatchInfo *info,
                bint write_aborted) noexcept nogil:
    """Updates the producer state and .txnindex for this batch."""
    cdef LogState *state = state_of(log)
    cdef Marker marker
    cdef CompletedTransaction done
    cdef bint fits = True
    if last_offset_of(info) < state.producers.end_offset:   # a batch that holds the log start counts, too
        return 0
    done.first_offset = -1
    if info.producer_id >= 0 and info.attributes & ATTR_CONTROL:
        if marker_read(batch, info, &marker):
            fits = producer_end_transaction(&state.producers, info, &marker, False, &done)
    elif info.producer_id >= 0:
        fits = producer_update(&state.producers, info)
    state.producers.end_offset = last_offset_of(info) + 1
    if not fits:
        return -ENOMEM
    if write_aborted and done.first_offset >= 0 and done.aborted:
        return aborted_append(state, segment, &done)
    return 0


cdef int index_batch(Log *log, Segment *segment, const BatchInfo *info, int64_t position) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef int error = 0
    if position == 0:
        segment.first_timestamp = info.max_timestamp
    if info.max_timestamp > segment.largest_timestamp:
        segment.largest_timestamp = info.max_timestamp
        segment.largest_timestamp_offset = last_offset_of(info)
    if state.bytes_since_index > log.config.index_interval_bytes:
        error = offset_index_append(state, last_offset_of(info), position)
        if error == 0:
            error = time_index_append(state, segment.largest_timestamp, segment.largest_timestamp_offset)
        state.bytes_since_index = 0
    state.bytes_since_index += info.size_bytes
    return error


cdef int step_over(LogState *state, Segment *segment, LogScan *scan, int64_t point, Recovered *out) noexcept nogil:
    """Marks a bad batch below the recovery point, which is kept in the file. Returns 1 when good batches follow."""
    cdef BatchInfo info
    cdef const uint8_t *batch = NULL
    cdef const char *why = scan.bad
    cdef LogFinding *finding
    cdef int64_t position = scan_at(scan)
    cdef int64_t first_offset = out.end_offset
    cdef int found = scan_skip(scan, first_offset, segment.base_offset + INT32_MAX, &info)
    if found < 0:
        return found
    if found == 2:
        out.end_offset = last_offset_of(&info) + 1
    elif found == 1:
        found = scan_next(scan, &info, &batch)
        out.end_offset = info.base_offset if found > 0 else first_offset
    else:
        out.broken_tail = True
        if point < INT64_MAX:
            out.end_offset = point
    finding = finding_add(state, why, segment.base_offset, b".log", position, scan_at(scan) - position,
                          first_offset, out.end_offset)
    if finding != NULL:
        finding.out_of_service = True
    return -ENOMEM if segment_mark_corrupt(segment, position, scan_at(scan) - position) < 0 else found


cdef int take_batch(Log *log, Segment *segment, const uint8_t *batch, const BatchInfo *info,
                    int64_t position) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef int error = index_batch(log, segment, info, position)
    if error == 0:
        error = replay(log, segment, batch, info, True)
    if error == 0 and info.leader_epoch > epochs_newest(&state.epochs) \
            and not epochs_assign(&state.epochs, info.leader_epoch, info.base_offset):
        error = -ENOMEM
    return error


cdef int recover_batches(Log *log, Segment *segment, LogScan *scan, int64_t point, Recovered *out) noexcept nogil:
    cdef BatchInfo info
    cdef const uint8_t *batch = NULL
    cdef int found
    while True:
        found = scan_next(scan, &info, &batch)
        if found > 0 and (info.base_offset < out.end_offset
                          or last_offset_of(&info) - segment.base_offset > INT32_MAX):
            scan.bad = b"the batch's offsets do not follow those of the previous batch"
            found = 0
        if found == 0 and scan.bad != NULL and out.end_offset < point:
            found = step_over(state_of(log), segment, scan, point, out)
            if found > 0:
                continue
        if found <= 0:
            return found
        found = take_batch(log, segment, batch, &info, scan_at(scan))
        if found != 0:
            return found
        out.end_offset = last_offset_of(&info) + 1
        scan_pass(scan, info.size_bytes)


cdef int forget_segment(LogState *state, Segment *segment) noexcept nogil:
    """Resets the state that came from the segment's other files: the scan rebuilds it."""
    cdef char[PATH_BYTES] path
    cdef int error = indexes_reset(state)
    state.activated = True
    state.bytes_since_index = 0
    segment.index_unsound = False
    segment.largest_timestamp = segment.first_timestamp = NO_TIMESTAMP
    segment.largest_timestamp_offset = -1
    if error == 0 and segment.has_aborted:
        error = file_ops.unlink(segment_path(path, state, segment.base_offset, b".txnindex"))
        error = 0 if error == -ENOENT else error
        segment.has_aborted = False
    return error


cdef int cut_off(LogState *state, Segment *segment, SegmentFile *file, int64_t valid_bytes, Recovered *out) noexcept nogil:
    out.truncated_bytes = segment.size_bytes - valid_bytes
    if out.truncated_bytes == 0:
        return 0
    finding_add(state, b"recovery truncated the bytes after the last complete batch", segment.base_offset, b".log",
                valid_bytes, out.truncated_bytes, out.end_offset, -1)
    segment.size_bytes = valid_bytes
    segment_checks_cut(segment, valid_bytes)
    return log_cut(state, segment, file, valid_bytes)


cdef int segment_scan(Log *log, Segment *segment, int64_t position, int64_t first_offset, int64_t point,
                      Recovered *out) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef LogScan scan
    cdef SegmentFile *file
    cdef int error = forget_segment(state, segment) if position == 0 else 0
    out.end_offset = first_offset
    out.truncated_bytes = 0
    out.broken_tail = False
    if error != 0:
        return error
    file = segment_file(state, segment, True, &error)
    if file == NULL:
        return error
    error = scan_open(&scan, file.fd, position, segment.size_bytes)
    if error == 0:
        error = recover_batches(log, segment, &scan, point, out)
    scan_close(&scan)
    if error == 0 and not out.broken_tail:
        error = cut_off(state, segment, file, scan_at(&scan), out)
    if error == 0:
        segment_verified(segment, position, scan_at(&scan))
    segment_file_release(file)
    segment_file_detach(segment)                         # the first append or read opens it again
    if error == 0 and segment.largest_timestamp >= 0:
        error = time_index_append(state, segment.largest_timestamp, segment.largest_timestamp_offset)
    if error == 0:
        error = indexes_write(state)
    state.recovered_segments += 1
    state.recovered_bytes += segment.size_bytes - position
    return error

# ---------------------------------------------------------------- producers


cdef int replay_at(Log *log, Segment *segment, int fd, int64_t position, const BatchInfo *info) noexcept nogil:
    """Reads the records of control batches only: for other batches the header is enough."""
    cdef uint8_t *batch = NULL
    cdef int error
    if info.producer_id >= 0 and info.attributes & ATTR_CONTROL:
        batch = <uint8_t *>malloc(<size_t>info.size_bytes)
        if batch == NULL:
            return -ENOMEM
        if read_range(fd, batch, info.size_bytes, position) != info.size_bytes:
            free(batch)
            return -EBADMSG
    error = replay(log, segment, batch, info, False)
    free(batch)
    return error


cdef int walk_on(LogState *state, Segment *segment, Walk *walk, int64_t expected, BatchInfo *info) noexcept nogil:
    """Like walk_peek, but skips damage: the damage lies below the recovery point, and the log continues after it."""
    cdef LogScan scan
    cdef BatchInfo bad
    cdef LogFinding *finding
    cdef int64_t position
    cdef int found = walk_peek(walk, info)
    while found == -EBADMSG:
        position = walk.position
        found = scan_open(&scan, walk.fd, position, walk.end)
        if found == 0:
            found = scan_skip(&scan, expected, segment.base_offset + INT32_MAX, &bad)
        walk.position = scan_at(&scan)
        scan_close(&scan)
        if found < 0:
            return found
        finding = finding_add(state, b"there is no batch header", segment.base_offset, b".log", position,
                              walk.position - position, expected, -1)
        if finding != NULL:
            finding.out_of_service = True
        if segment_mark_corrupt(segment, position, walk.position - position) < 0:
            return -ENOMEM
        found = walk_peek(walk, info)
    return found


cdef int replay_segment(Log *log, Segment *segment, int64_t to_offset) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef Walk walk
    cdef BatchInfo info
    cdef int64_t start = 0
    cdef int error = 0
    cdef int found
    cdef SegmentFile *file
    if state.producers.end_offset > segment.base_offset:
        found = segment_locate(state, segment, state.producers.end_offset, segment.size_bytes, &start, &info)
        if found == -EBADMSG:
            start = 0
        elif found <= 0:
            return found
    file = segment_file(state, segment, segment == active_segment(state), &error)
    if file == NULL:
        return error
    walk_start(&walk, file.fd, start, segment.size_bytes)
    found = walk_on(state, segment, &walk, segment.base_offset, &info)
    while found > 0 and info.base_offset < to_offset and error == 0:
        error = replay_at(log, segment, file.fd, walk.position, &info)
        walk.position += info.size_bytes
        found = walk_on(state, segment, &walk, last_offset_of(&info) + 1, &info)
    segment_file_release(file)
    return error if error != 0 else (found if found < 0 else 0)


cdef int producers_rebuild(Log *log, int64_t offset, int64_t now_ms) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef char[PATH_BYTES] path
    cdef int32_t i
    cdef int64_t at
    cdef int error = -ENOENT
    producers_clear(&state.producers)
    state.producers.end_offset = log.log_start_offset
    i = state.producers.snapshot_count
    while i > 0 and error != 0:
        i -= 1
        at = state.producers.snapshots[i]
        if at > offset or at < log.log_start_offset:
            continue
        error = snapshot_load(state, at, now_ms, log.config.producer_id_expiration_ms)
        if may_pass(error):
            return error
        if error != 0:
            file_ops.unlink(segment_path(path, state, at, b".snapshot"))
            snapshot_forget(&state.producers, at)
            state.producers.end_offset = log.log_start_offset
    for i in range(state.segment_count):
        if i + 1 < state.segment_count and state.segments[i + 1].base_offset <= state.producers.end_offset:
            continue
        if state.segments[i].base_offset >= offset or state.producers.end_offset >= offset:
            break
        error = replay_segment(log, state.segments[i], offset)
        if error != 0:
            return error
    state.producers.end_offset = offset
    return 0

# ---------------------------------------------------------------- epochs, timestamps


cdef int epochs_rebuild(Log *log) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef Walk walk
    cdef BatchInfo info
    cdef SegmentFile *file
    cdef int32_t i
    cdef int found, error = 0
    epochs_clear(&state.epochs)
    for i in range(state.segment_count):
        file = segment_file(state, state.segments[i], i == state.segment_count - 1, &error)
        if file == NULL:
            return error
        walk_start(&walk, file.fd, 0, state.segments[i].size_bytes)
        found = walk_on(state, state.segments[i], &walk, state.segments[i].base_offset, &info)
        while found > 0:
            if info.leader_epoch > epochs_newest(&state.epochs) \
                    and not epochs_assign(&state.epochs, info.leader_epoch, info.base_offset):
                found = -ENOMEM
                break
            walk.position += info.size_bytes
            found = walk_on(state, state.segments[i], &walk, last_offset_of(&info) + 1, &info)
        segment_file_release(file)
        if found < 0:
            return found
    state.epochs.dirty = True
    return 0


cdef int timestamps_rescan(Log *log) noexcept nogil:
    """After a truncation: finds the largest timestamp by the last time entry and the batches after it."""
    cdef LogState *state = state_of(log)
    cdef Segment *segment = active_segment(state)
    cdef Walk walk
    cdef BatchInfo info
    cdef int64_t timestamp = NO_TIMESTAMP, offset = segment.base_offset, unused = 0
    cdef int found, error = 0
    cdef SegmentFile *file
    time_index_last(state, segment, &timestamp, &offset)
    file = segment_file(state, segment, True, &error)
    if file == NULL:
        return error
    walk_start(&walk, file.fd, offset_index_floor(state, segment, offset, &unused), segment.size_bytes)
    found = walk_peek(&walk, &info)
    while found > 0:
        if info.max_timestamp > timestamp:
            timestamp = info.max_timestamp
            offset = last_offset_of(&info)
        walk.position += info.size_bytes
        found = walk_peek(&walk, &info)
    segment_file_release(file)
    segment.largest_timestamp = timestamp
    segment.largest_timestamp_offset = offset if timestamp >= 0 else -1
    if segment.size_bytes == 0:
        segment.first_timestamp = NO_TIMESTAMP
    return found if found < 0 else 0
