"""Truncates a log, see truncate.pxd."""
from libc.errno cimport ENOMEM
from libc.stdint cimport int32_t, int64_t
from bowstring._native.base.atomics cimport load_i64, store_i32, store_i64
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.disk.file_ops cimport PATH_BYTES, file_ops, sync_path
from bowstring._native.disk.directory_health cimport may_pass
from bowstring._native.log.index cimport indexes_forget, indexes_truncate
from bowstring._native.log.leader_epochs cimport epochs_clear, epochs_newest, epochs_truncate_end, epochs_write
from bowstring._native.log.producer_state cimport (
    producers_clear, producers_on_high_watermark, producers_recall, snapshot_forget, snapshot_newest)
from bowstring._native.log.recovery cimport producers_rebuild, timestamps_rescan
from bowstring._native.log.roll cimport roll_jitter_ms
from bowstring._native.log.segment cimport (
    active_segment, file_delete_later, log_cut, segment_activate, segment_add, segment_create, segment_delete,
    segment_locate)
from bowstring._native.log.segment_files cimport segment_file, segment_file_detach, segment_file_release, segment_path
from bowstring._native.log.state cimport log_fail, log_fail_for_good, log_update_last_stable, log_writable
from bowstring._native.log.transaction_index cimport aborted_truncate
from bowstring._native.log.types cimport LogState, Segment, SegmentFile, state_of
from bowstring._native.log.verified_ranges cimport corrupt_begin, segment_checks_cut
from bowstring._native.record.batch cimport BatchInfo
from bowstring._native.wal.group_commit cimport wal_kick, wal_stage
from bowstring._native.wal.types cimport WAL_START, WAL_TRUNCATE


cdef int drop_last_segment(Log *log, int64_t now_ms) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef Segment *segment = active_segment(state)
    cdef int64_t base_offset = segment.base_offset
    cdef int error
    state.segment_count -= 1
    state.offset_index.tail_count = state.time_index.tail_count = 0
    state.activated = False
    store_i64(&log.size_bytes, log.size_bytes - segment.size_bytes)
    error = segment_delete(state, segment, now_ms, log.config.file_delete_delay_ms)
    if error == 0:
        error = file_delete_later(state, base_offset, b".snapshot", now_ms, log.config.file_delete_delay_ms)
    snapshot_forget(&state.producers, base_offset)
    if error != 0:                                       # its files are left above the log end: a start has to look at them
        log_fail_for_good(log, error, b"removing a truncated segment")
    return error


cdef int cut_active(Log *log, Segment *segment, int64_t position) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef int error = 0
    cdef SegmentFile *file = segment_file(state, segment, True, &error)
    if file == NULL:
        return error
    error = log_cut(state, segment, file, position)
    if error == 0:
        error = file_ops.sync(file.fd)                   # else truncated batches could reappear after a power loss
    segment_file_release(file)
    if error == 0:
        store_i64(&log.size_bytes, log.size_bytes - (segment.size_bytes - position))
        segment.size_bytes = position
        segment_checks_cut(segment, position)
        state.bytes_since_index = 0
        state.reserved_bytes = 0
        error = timestamps_rescan(log)
    return error


cdef int truncate_active(Log *log, int64_t *end_offset) noexcept nogil:
    """Removes complete batches: the log then ends where the batch with the offset began. Otherwise recovery would treat the
    gap before the next segment as lost records, and delete the segment."""
    cdef int64_t offset = end_offset[0]
    cdef LogState *state = state_of(log)
    cdef Segment *segment = active_segment(state)
    cdef int64_t position = segment.size_bytes
    cdef BatchInfo info
    cdef int error = 0
    cdef int found
    if not state.activated:
        segment_file_detach(segment)                     # it has just become active
        error = segment_activate(state)
        if error != 0:
            return error
    found = segment_locate(state, segment, offset, segment.size_bytes, &position, &info)
    if found < 0:
        return found
    if found > 0 and info.base_offset < offset:
        offset = end_offset[0] = info.base_offset
    position = corrupt_begin(segment, position)          # a corrupt range is removed completely: its offsets are unknown
    error = indexes_truncate(state, offset)
    if error == 0 and position < segment.size_bytes:
        error = cut_active(log, segment, position)
    # After the batches: recovery removes entries of transactions that are gone, but below the recovery point it does not
    # add those that are missing.
    return error if error != 0 else aborted_truncate(state, segment, offset)


cdef void drop_snapshots_above(LogState *state, int64_t offset) noexcept nogil:
    cdef char[PATH_BYTES] path
    cdef int64_t newest = snapshot_newest(&state.producers)
    while newest > offset:
        file_ops.unlink(segment_path(path, state, newest, b".snapshot"))
        snapshot_forget(&state.producers, newest)
        newest = snapshot_newest(&state.producers)


cdef void set_end(Log *log, int64_t offset) noexcept nogil:
    """Lowers all offsets that must not be above the log end."""
    cdef LogState *state = state_of(log)
    store_i64(&log.truncations, log.truncations + 1)
    state.limit_offset = -1
    if log.lowest_cut > offset:
        store_i64(&log.lowest_cut, offset)
    if log.log_start_offset > offset:
        store_i64(&log.log_start_offset, offset)
    if log.high_watermark > offset:
        store_i64(&log.high_watermark, offset)
    if state.recovery_point > offset:
        store_i64(&state.recovery_point, offset)
    store_i32(&log.leader_epoch, epochs_newest(&state.epochs))
    store_i64(&log.log_end_offset, offset)
    if active_segment(state).base_offset < state.synced_segment:
        state.synced_segment = active_segment(state).base_offset
    # Those that were read again with the producers may have ended below it, which may never rise again.
    producers_on_high_watermark(&state.producers, log.high_watermark)
    log_update_last_stable(log)


cdef int truncate_within(Log *log, int64_t offset, int64_t now_ms) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef int64_t newest = active_segment(state).base_offset
    cdef int error = 0
    while error == 0 and active_segment(state).base_offset > offset:
        error = drop_last_segment(log, now_ms)
    if error == 0 and active_segment(state).base_offset < newest:
        error = sync_path(state.directory)               # else segments above the log end could reappear after a power loss
    if error == 0:
        error = truncate_active(log, &offset)
    drop_snapshots_above(state, offset)
    epochs_truncate_end(&state.epochs, offset)
    if error == 0:
        state.roll_jitter_ms = roll_jitter_ms(log)
        error = producers_rebuild(log, offset, now_ms)
    if error == 0:
        error = producers_recall(log, now_ms)
    set_end(log, offset)
    return error


cdef int start_again(Log *log, int64_t offset, int64_t now_ms) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef int error = 0
    while error == 0 and state.segment_count > 0:
        error = drop_last_segment(log, now_ms)
    epochs_clear(&state.epochs)
    producers_clear(&state.producers)
    drop_snapshots_above(state, -1)
    state.producers.end_offset = offset
    indexes_forget(state)
    if error == 0:
        error = segment_create(state, offset, now_ms)
    if state.segment_count == 0:                         # even a failed log has an active segment
        segment_add(state, offset, 0, now_ms)
    if error == 0 or may_pass(error):                    # log_heal makes the files of the segment
        state.roll_jitter_ms = roll_jitter_ms(log)
        store_i64(&log.log_start_offset, offset)
        set_end(log, offset)
        store_i64(&log.high_watermark, offset)
        log_update_last_stable(log)
    return error


cdef int tell_wal(Log *log, int32_t kind, int64_t offset) noexcept nogil:
    """Stages the truncation in the write-ahead log, in order, so that a replay does not restore truncated batches."""
    cdef int64_t frame
    if log.wal == NULL:
        return 0
    frame = wal_stage(log.wal, log.topic_id, log.partition, log.moves, kind, offset, NULL, NULL, 0)
    if frame < 0:
        return -ENOMEM
    if log.cut_frame <= load_i64(&log.wal.durable_frame) or offset < log.cut_offset:
        log.cut_offset = offset
    log.cut_frame = frame
    store_i64(&log.cuts, log.cuts + 1)
    log.staged_frame = frame
    if log.durable_end_offset > offset or kind == WAL_START:
        store_i64(&log.durable_end_offset, offset)
    wal_kick(log.wal)
    return 0


cdef int log_truncate_to(Log *log, int64_t offset, int64_t now_ms) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef int64_t end_offset
    cdef int error = 0
    pthread_mutex_lock(&log.lock)
    end_offset = log.log_end_offset
    if log_writable(log):
        if offset >= log.log_end_offset:                 # an epoch may have begun where nothing was written
            epochs_truncate_end(&state.epochs, log.log_end_offset)
            store_i32(&log.leader_epoch, epochs_newest(&state.epochs))
        elif state.segments[0].base_offset > offset:
            error = start_again(log, offset, now_ms)
        else:
            error = truncate_within(log, offset, now_ms)
        if error == 0:                                   # so that a truncated epoch is not found again
            error = epochs_write(state, True)
        if error == 0 and offset < end_offset:
            error = tell_wal(log, WAL_TRUNCATE, log.log_end_offset)
        if error != 0:
            log_fail(log, error, b"truncating the log")
    pthread_mutex_unlock(&log.lock)
    return error


cdef int log_truncate_fully(Log *log, int64_t offset, int64_t now_ms) noexcept nogil:
    cdef int error = 0
    pthread_mutex_lock(&log.lock)
    if log_writable(log):
        error = start_again(log, offset, now_ms)
        if error == 0:
            error = tell_wal(log, WAL_START, offset)
        if error != 0:
            log_fail(log, error, b"truncating the log")
    pthread_mutex_unlock(&log.lock)
    return error
