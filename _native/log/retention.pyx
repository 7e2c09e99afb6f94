"""Deletes from the start of a log, see retention.pxd."""
from libc.errno cimport ENOENT
from libc.stdint cimport int16_t, int32_t, int64_t
from libc.stdlib cimport free
from bowstring._native.base.atomics cimport store_i64
from bowstring._native.base.error_codes cimport KAFKA_STORAGE_ERROR, OFFSET_OUT_OF_RANGE
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.disk.file_ops cimport PATH_BYTES, file_ops
from bowstring._native.disk.directory_health cimport may_pass
from bowstring._native.log.leader_epochs cimport epochs_truncate_start
from bowstring._native.log.producer_state cimport producers_on_high_watermark, snapshot_forget
from bowstring._native.log.roll cimport log_rest, log_roll
from bowstring._native.log.segment cimport (
    file_delete_later, segment_activate, segment_age_timestamp, segment_delete, segments_remove)
from bowstring._native.log.segment_files cimport directory_path
from bowstring._native.log.state cimport log_fail, log_update_last_stable, log_writable
from bowstring._native.log.timestamp_search cimport timestamps_learn
from bowstring._native.log.types cimport DeletedFile, LogState, Segment, log_out_of_service, state_of


# ---------------------------------------------------------------- log start


cdef void raise_start(Log *log, int64_t offset) noexcept nogil:
    cdef LogState *state = state_of(log)
    if offset <= log.log_start_offset:
        return
    store_i64(&log.log_start_offset, offset)
    if log.high_watermark < offset:
        store_i64(&log.high_watermark, offset)
    if state.recovery_point < offset:
        store_i64(&state.recovery_point, offset)
    epochs_truncate_start(&state.epochs, offset)
    producers_on_high_watermark(&state.producers, offset)
    if state.producers.end_offset < offset:
        state.producers.end_offset = offset
    log_update_last_stable(log)


cdef int16_t log_delete_records(Log *log, int64_t before_offset) noexcept nogil:
    cdef int16_t error = 0
    pthread_mutex_lock(&log.lock)
    if before_offset == -1:
        before_offset = log.high_watermark
    if not log_writable(log):
        error = KAFKA_STORAGE_ERROR                      # the new log start could not be saved
    elif before_offset < 0 or before_offset > log.high_watermark:
        error = OFFSET_OUT_OF_RANGE
    else:
        raise_start(log, before_offset)
    pthread_mutex_unlock(&log.lock)
    return error

# ---------------------------------------------------------------- retention


cdef RetentionReason breach(Log *log, int32_t i, int64_t excess_bytes, int64_t now_ms) noexcept nogil:
    """Returns why segment i may be deleted; 0 if it may not. `excess_bytes`: log size minus retention.bytes."""
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
    """Deletes the first n segments. If there are no others, rolls a new one first."""
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
    """Keeps segments that reach the high watermark, and an empty active segment."""
    cdef LogState *state = state_of(log)
    cdef int64_t excess_bytes, upper_bound
    cdef int32_t n = 0
    cdef RetentionReason reason
    cdef int error = 0
    if log.config.retention_ms >= 0 and log.config.delete_enabled:
        timestamps_learn(log, now_ms - log.config.retention_ms)
    pthread_mutex_lock(&log.lock)
    if log_writable(log):
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
            if may_pass(error):
                error = 0                                # the next time tries again
        if error != 0:
            log_fail(log, error, b"deleting segments")
    pthread_mutex_unlock(&log.lock)
    return error if error != 0 else n


cdef int32_t log_unlink_expired(Log *log, int64_t now_ms) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef char[PATH_BYTES] path
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
