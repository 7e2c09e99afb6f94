"""Rolling and closing, see roll.pxd."""
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint64_t
from bowstring._native.base.clock cimport wall_clock_ms
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.disk.file_ops cimport sync_path
from bowstring._native.disk.directory_health cimport may_pass
from bowstring._native.disk.staged_tail cimport tail_truncate
from bowstring._native.log.flush cimport log_flush, sync_of
from bowstring._native.log.index cimport indexes_forget, indexes_full, indexes_write, time_index_append
from bowstring._native.log.leader_epochs cimport epochs_write
from bowstring._native.log.producer_state cimport snapshot_rename, snapshot_take
from bowstring._native.log.segment cimport (
    active_segment, begins_segment, indexes_complete, segment_activate, segment_create, segment_first_timestamp)
from bowstring._native.log.segment_files cimport (
    active_write_out, segment_file, segment_file_demote, segment_file_detach, segment_file_release)
from bowstring._native.log.state cimport log_fail
from bowstring._native.log.types cimport (
    CheckpointSnapshot, LogState, Producers, Segment, SegmentFile, log_out_of_service, state_of)
from bowstring._native.record.batch cimport BatchInfo


# ---------------------------------------------------------------- rolling


cdef int32_t roll_jitter_ms(const Log *log) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef const char *at = state.directory
    cdef uint64_t hash = 14695981039346656037ULL
    cdef int64_t span = log.config.segment_jitter_ms
    if span > log.config.segment_ms:
        span = log.config.segment_ms
    if span <= 0:
        return 0
    while at[0]:
        hash = (hash ^ <uint8_t>at[0]) * 1099511628211ULL
        at += 1
    hash = (hash ^ <uint64_t>active_segment(state).base_offset) * 1099511628211ULL
    return <int32_t>((hash >> 16) % <uint64_t>(span if span < 0x7FFFFFFF else 0x7FFFFFFF))


cdef bint log_time_to_roll(Log *log, int64_t newest_timestamp, int64_t now_ms) noexcept nogil:
    """Compares segment.ms with the span of batch timestamps, or with the wall clock if batches have none."""
    cdef LogState *state = state_of(log)
    cdef Segment *segment = active_segment(state)
    cdef int64_t first = segment_first_timestamp(state, segment)
    cdef int64_t waited = newest_timestamp - first if first >= 0 else now_ms - segment.created_ms
    return segment.size_bytes > 0 and waited > log.config.segment_ms - state.roll_jitter_ms


cdef bint must_roll(Log *log, const BatchInfo *info, int64_t now_ms) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef Segment *segment = active_segment(state)
    return (segment.size_bytes > log.config.segment_bytes - info.size_bytes
            or log_time_to_roll(log, info.max_timestamp, now_ms)
            or indexes_full(state, log.config.segment_index_bytes)
            or info.base_offset + info.last_offset_delta - segment.base_offset > INT32_MAX)


cdef int log_roll(Log *log, int64_t now_ms) noexcept nogil:
    """Closes the active segment and begins the next at the log end. An empty segment stays active."""
    cdef LogState *state = state_of(log)
    cdef Segment *segment = active_segment(state)
    cdef int64_t base_offset = log.log_end_offset
    cdef int error
    if segment.base_offset == base_offset:
        return 0
    error = close_active(state)
    if error == 0:
        error = segment_create(state, base_offset, now_ms)
    if error == 0:
        segment_file_demote(segment)
        state.roll_jitter_ms = roll_jitter_ms(log)
        state.producers.end_offset = base_offset
        error = snapshot_take(state)
        if may_pass(error):
            error = 0                                    # recovery begins with an older one
    if error != 0 and not may_pass(error):
        log_fail(log, error, b"rolling a segment")
    return error


cdef int log_roll_now(Log *log, int64_t now_ms) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef int64_t before
    cdef int error = 0
    cdef bint rolled
    pthread_mutex_lock(&log.lock)
    before = active_segment(state).base_offset
    if not (log_out_of_service(log) or state.closed or state.deleting or state.moved):
        if not state.activated:
            error = segment_activate(state)
        if error == 0 and (now_ms == INT64_MAX or log_time_to_roll(log, now_ms, now_ms)):
            error = log_roll(log, wall_clock_ms() if now_ms == INT64_MAX else now_ms)
    rolled = active_segment(state).base_offset != before
    pthread_mutex_unlock(&log.lock)
    return error if error != 0 else rolled


cdef int close_active(LogState *state) noexcept nogil:
    """Completes the files: the staged tail, the largest timestamp at the end of the time index, the indexes, which have no
    file before their first entry."""
    cdef Segment *segment = active_segment(state)
    cdef int error = active_write_out(state)
    if error == 0 and segment.largest_timestamp >= 0 and state.activated:
        error = time_index_append(state, segment.largest_timestamp, segment.largest_timestamp_offset)
    give_back_blocks(state)
    if error == 0:
        error = indexes_write(state)
    if error == 0 and (state.activated or segment.size_bytes == 0):
        error = indexes_complete(state, segment.base_offset)
    return error


cdef void give_back_blocks(LogState *state) noexcept nogil:
    """Frees blocks reserved after the end of the active segment. A failure only wastes space."""
    cdef Segment *segment = active_segment(state)
    cdef int error = 0
    cdef SegmentFile *file
    if state.reserved_bytes > segment.size_bytes:
        file = segment_file(state, segment, True, &error)
        if file != NULL:
            tail_truncate(&file.tail, segment.size_bytes)
            segment_file_release(file)
    state.reserved_bytes = 0

# ---------------------------------------------------------------- closing


cdef int log_rest(Log *log) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef int error = 0
    if state.quiet_since_offset == log.log_end_offset and state.offset_index.tail_capacity \
            + state.time_index.tail_capacity > 0 and not log_out_of_service(log):
        error = indexes_write(state)
        if error == 0:
            indexes_forget(state)
            give_back_blocks(state)
        elif not may_pass(error):
            log_fail(log, error, b"writing an index")
    state.quiet_since_offset = log.log_end_offset
    return error


cdef int leave_snapshot(LogState *state) noexcept nogil:
    """Leaves a producer snapshot at the log end. Without producers an older one is renamed, and none is made if there is
    none: a clean start without snapshots begins without producers, as Kafka's does. To create files is most of the
    work of closing thousands of logs."""
    cdef Producers *producers = &state.producers
    cdef CheckpointSnapshot older
    cdef int32_t i
    if producers.count == 0:
        if producers.snapshot_count == 0:
            return 0
        for i in range(2):
            older = state.checkpoints[i]
            if 0 <= older.offset < producers.end_offset and older.empty and not begins_segment(state, older.offset) \
                    and snapshot_rename(state, older.offset, producers.end_offset):
                return 0
    return snapshot_take(state)


cdef int log_close(Log *log, bint sync) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef Segment *segment
    cdef int error = 0
    cdef int32_t i
    if sync:
        error = log_flush(log, True)
    pthread_mutex_lock(&log.lock)
    if not state.closed and state.segment_count > 0:
        segment = active_segment(state)
        if not log_out_of_service(log) and not state.deleting:
            error = close_active(state)
            state.producers.end_offset = log.log_end_offset
            if error == 0:
                error = leave_snapshot(state)
            if error == 0:
                error = epochs_write(state, sync)
            if error == 0 and sync and state.activated:
                error = sync_of(state.directory, segment.base_offset, b".index")
                if error == 0:
                    error = sync_of(state.directory, segment.base_offset, b".timeindex")
                if error == 0:
                    error = sync_of(state.directory, log.log_end_offset, b".snapshot")
                if error == 0:
                    error = sync_path(state.directory)
            if error != 0:
                log_fail(log, error, b"closing the log")
        for i in range(state.segment_count):
            segment_file_detach(state.segments[i])
        indexes_forget(state)
        state.closed = True
    pthread_mutex_unlock(&log.lock)
    return error
