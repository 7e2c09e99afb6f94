"""What makes a log shorter, see log_retention.pxd."""
from libc.errno cimport ENOENT, ENOMEM
from libc.stdint cimport int16_t, int32_t, int64_t
from libc.stdlib cimport free
from bowstring._native.atomics cimport store_i32, store_i64
from bowstring._native.batch cimport BatchInfo
from bowstring._native.log_aborted cimport aborted_truncate
from bowstring._native.log_checked cimport corrupt_begin, segment_checks_cut
from bowstring._native.log_cut cimport log_cut
from bowstring._native.log_epochs cimport (
    epochs_clear, epochs_newest, epochs_truncate_end, epochs_truncate_start, epochs_write)
from bowstring._native.log_files cimport (
    directory_path, file_ops, file_release, segment_file, segment_file_detach, segment_path, sync_path)
from bowstring._native.log_index cimport indexes_forget, indexes_truncate
from bowstring._native.log_producers cimport (
    producers_clear, producers_on_high_watermark, snapshot_forget, snapshot_newest)
from bowstring._native.log_recovery cimport producers_rebuild, timestamps_rescan
from bowstring._native.log_roll cimport log_fail, log_out_of_service, log_rest, log_roll, log_settle_stable, roll_jitter_ms, state_of
from bowstring._native.log_segment cimport (
    active_segment, file_delete_later, segment_activate, segment_add, segment_age_timestamp, segment_create,
    segment_delete, segment_locate, segments_remove)
from bowstring._native.log_types cimport (
    KAFKA_STORAGE_ERROR, OFFSET_OUT_OF_RANGE, DeletedFile, LogState, Segment, SegmentFile, pthread_mutex_t)
from bowstring._native.wal_commit cimport wal_kick, wal_stage
from bowstring._native.wal_types cimport WAL_START, WAL_TRUNCATE

cdef extern from "pthread.h" nogil:
    int pthread_mutex_lock(pthread_mutex_t *mutex)
    int pthread_mutex_unlock(pthread_mutex_t *mutex)


cdef bint writable(const Log *log) noexcept nogil:
    cdef LogState *state = state_of(log)
    return not (log_out_of_service(log) or state.closed or state.deleting or state.moved)

# ---------------------------------------------------------------- log start


cdef void raise_start(Log *log, int64_t offset) noexcept nogil:
    cdef LogState *state = state_of(log)
    if offset <= log.log_start_offset:
        return
    store_i64(&log.log_start_offset, offset)
    if log.high_watermark < offset:
        store_i64(&log.high_watermark, offset)
    if state.recovery_point < offset:
        state.recovery_point = offset
    epochs_truncate_start(&state.epochs, offset)
    producers_on_high_watermark(&state.producers, offset)
    if state.producers.end_offset < offset:
        state.producers.end_offset = offset
    log_settle_stable(log)


cdef int16_t log_delete_records(Log *log, int64_t before_offset) noexcept nogil:
    cdef int16_t error = 0
    pthread_mutex_lock(&log.lock)
    if before_offset == -1:
        before_offset = log.high_watermark
    if not writable(log):
        error = KAFKA_STORAGE_ERROR                      # what it says could not be kept
    elif before_offset < 0 or before_offset > log.high_watermark:
        error = OFFSET_OUT_OF_RANGE
    else:
        raise_start(log, before_offset)
    pthread_mutex_unlock(&log.lock)
    return error

# ---------------------------------------------------------------- retention


cdef RetentionReason breach(Log *log, int32_t i, int64_t excess_bytes, int64_t now_ms) noexcept nogil:
    """Why segment i may go, 0 when it may not. `excess_bytes`: what the log is above retention.bytes."""
    cdef LogState *state = state_of(log)
    cdef Segment *segment = state.segments[i]
    if i + 1 < state.segment_count and state.segments[i + 1].base_offset <= log.log_start_offset:
        return START_OFFSET_BREACH
    if not log.config.delete_enabled:
        return <RetentionReason>0
    if log.config.retention_bytes >= 0 and excess_bytes - segment.size_bytes >= 0:
        return RETENTION_SIZE_BREACH
    if log.config.retention_ms >= 0 and now_ms - segment_age_timestamp(state, segment) > log.config.retention_ms:
        return RETENTION_MS_BREACH
    return <RetentionReason>0


cdef int retire(Log *log, int32_t n, int64_t now_ms) noexcept nogil:
    """The first n segments go; when that is all of them a new one is rolled first."""
    cdef LogState *state = state_of(log)
    cdef int64_t delay_ms = log.config.file_delete_delay_ms
    cdef int64_t base_offset
    cdef int32_t i
    cdef int error = 0
    cdef Segment *segment
    if n == state.segment_count:
        if not state.activated:
            error = segment_activate(state)
        if error == 0:
            error = log_roll(log, now_ms)
        if error != 0:
            return error
    raise_start(log, state.segments[n].base_offset)
    for i in range(n):
        segment = state.segments[0]
        base_offset = segment.base_offset
        segments_remove(state, 0, 1)
        store_i64(&log.size_bytes, log.size_bytes - segment.size_bytes)
        error = segment_delete(state, segment, now_ms, delay_ms)
        if error == 0:
            error = file_delete_later(state, base_offset, b".snapshot", now_ms, delay_ms)
        snapshot_forget(&state.producers, base_offset)
        if error != 0:
            return error
    return 0


cdef int32_t log_apply_retention(Log *log, int64_t now_ms, RetiredSegment *retired, int32_t capacity) noexcept nogil:
    """A segment with anything at or above the high watermark stays, and so does an empty active one."""
    cdef LogState *state = state_of(log)
    cdef int64_t excess_bytes, upper_bound
    cdef int32_t n = 0
    cdef RetentionReason reason
    cdef int error = 0
    pthread_mutex_lock(&log.lock)
    if writable(log):
        excess_bytes = log.size_bytes - log.config.retention_bytes
        while n < state.segment_count and n < capacity:
            upper_bound = state.segments[n + 1].base_offset if n + 1 < state.segment_count else log.log_end_offset
            if log.high_watermark < upper_bound:
                break
            if n + 1 == state.segment_count and state.segments[n].size_bytes == 0:
                break
            reason = breach(log, n, excess_bytes, now_ms)
            if reason == 0:
                break
            excess_bytes -= state.segments[n].size_bytes
            retired[n].base_offset = state.segments[n].base_offset
            retired[n].size_bytes = state.segments[n].size_bytes
            retired[n].reason = reason
            n += 1
        if n > 0:
            error = retire(log, n, now_ms)
        if error == 0:
            error = log_rest(log)
        if error != 0:
            log_fail(log, error, b"deleting segments")
    pthread_mutex_unlock(&log.lock)
    return error if error != 0 else n


cdef int32_t log_unlink_expired(Log *log, int64_t now_ms) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef char[4096] path
    cdef DeletedFile **at
    cdef DeletedFile *expired
    cdef int32_t n = 0
    cdef int error
    cdef int32_t failure = 0
    pthread_mutex_lock(&log.lock)
    at = &state.deleted
    while at[0] != NULL and not log_out_of_service(log):
        expired = at[0]
        if expired.due_ms > now_ms:
            at = &expired.next
            continue
        error = file_ops.unlink(directory_path(path, state, expired.name))
        if error != 0 and error != -ENOENT:
            failure = error
            at = &expired.next                           # tried again next time
            continue
        at[0] = expired.next
        free(expired)
        n += 1
    pthread_mutex_unlock(&log.lock)
    return failure if failure != 0 else n

# ---------------------------------------------------------------- truncation


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
    return error


cdef int truncate_active(Log *log, int64_t offset) noexcept nogil:
    """A batch that holds `offset` goes whole."""
    cdef LogState *state = state_of(log)
    cdef Segment *segment = active_segment(state)
    cdef int64_t position = segment.size_bytes
    cdef BatchInfo info
    cdef SegmentFile *file
    cdef int error = 0
    cdef int found
    if not state.activated:
        segment_file_detach(segment)                     # it was not the active one: it is now
        error = segment_activate(state)
        if error != 0:
            return error
    found = segment_locate(state, segment, offset, segment.size_bytes, &position, &info)
    if found < 0:
        return found
    position = corrupt_begin(segment, position)          # nobody can tell which offsets were in there
    error = indexes_truncate(state, offset)
    if error == 0:
        error = aborted_truncate(state, segment, offset)
    if error != 0 or position == segment.size_bytes:
        return error
    file = segment_file(state, segment, True, &error)
    if file == NULL:
        return error
    error = log_cut(state, segment, file, position)
    if error == 0:
        error = file_ops.sync(file.fd)                   # or what was cut off may come back under a newer epoch
    file_release(file)
    if error == 0:
        store_i64(&log.size_bytes, log.size_bytes - (segment.size_bytes - position))
        segment.size_bytes = position
        segment_checks_cut(segment, position)
        state.bytes_since_index = 0
        state.reserved_bytes = 0
        error = timestamps_rescan(log)
    return error


cdef void drop_snapshots_above(LogState *state, int64_t offset) noexcept nogil:
    cdef char[4096] path
    cdef int64_t newest = snapshot_newest(&state.producers)
    while newest > offset:
        file_ops.unlink(segment_path(path, state, newest, b".snapshot"))
        snapshot_forget(&state.producers, newest)
        newest = snapshot_newest(&state.producers)


cdef void set_end(Log *log, int64_t offset) noexcept nogil:
    """Everything that may not be above the log end."""
    cdef LogState *state = state_of(log)
    log.truncations += 1
    state.limit_offset = -1
    if log.log_start_offset > offset:
        store_i64(&log.log_start_offset, offset)
    if log.high_watermark > offset:
        store_i64(&log.high_watermark, offset)
    if state.recovery_point > offset:
        state.recovery_point = offset
    store_i32(&log.leader_epoch, epochs_newest(&state.epochs))
    store_i64(&log.log_end_offset, offset)
    if active_segment(state).base_offset < state.synced_segment:
        state.synced_segment = active_segment(state).base_offset
    log_settle_stable(log)


cdef int truncate_within(Log *log, int64_t offset, int64_t now_ms) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef int64_t newest = active_segment(state).base_offset
    cdef int error = 0
    while error == 0 and active_segment(state).base_offset > offset:
        error = drop_last_segment(log, now_ms)
    if error == 0 and active_segment(state).base_offset < newest:
        error = sync_path(state.directory)               # or they come back behind a log that ends before them
    if error == 0:
        error = truncate_active(log, offset)
    drop_snapshots_above(state, offset)
    epochs_truncate_end(&state.epochs, offset)
    if error == 0:
        state.roll_jitter_ms = roll_jitter_ms(log)
        error = producers_rebuild(log, offset, now_ms)
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
    if error == 0:
        state.roll_jitter_ms = roll_jitter_ms(log)
        store_i64(&log.log_start_offset, offset)
        set_end(log, offset)
        store_i64(&log.high_watermark, offset)
        log_settle_stable(log)
    return error


cdef int tell_wal(Log *log, int32_t kind, int64_t offset) noexcept nogil:
    """Replaying must not bring back what was cut off: the write-ahead log is told in its place in the order."""
    cdef int64_t frame
    if log.wal == NULL:
        return 0
    frame = wal_stage(log.wal, log.topic_id, log.partition, kind, offset, NULL, NULL, 0)
    if frame < 0:
        return -ENOMEM
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
    if writable(log):
        if offset >= log.log_end_offset:                 # an epoch may have begun where nothing was written
            epochs_truncate_end(&state.epochs, log.log_end_offset)
            store_i32(&log.leader_epoch, epochs_newest(&state.epochs))
        elif state.segments[0].base_offset > offset:
            error = start_again(log, offset, now_ms)
        else:
            error = truncate_within(log, offset, now_ms)
        if error == 0:                                   # an epoch that was cut off must not be found again
            error = epochs_write(state, True)
        if error == 0 and offset < end_offset:
            error = tell_wal(log, WAL_TRUNCATE, offset)
        if error != 0:
            log_fail(log, error, b"truncating the log")
    pthread_mutex_unlock(&log.lock)
    return error


cdef int log_truncate_fully(Log *log, int64_t offset, int64_t now_ms) noexcept nogil:
    cdef int error = 0
    pthread_mutex_lock(&log.lock)
    if writable(log):
        error = start_again(log, offset, now_ms)
        if error == 0:
            error = tell_wal(log, WAL_START, offset)
        if error != 0:
            log_fail(log, error, b"truncating the log")
    pthread_mutex_unlock(&log.lock)
    return error
