"""Rolling, flushing and closing, see log_roll.pxd."""
from libc.errno cimport ENOENT, ENOMEM
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc
from libc.string cimport strcmp
from bowstring._native.atomics cimport load_i64, store_i32, store_i64
from bowstring._native.clock cimport monotonic_ns, wall_clock_ms
from bowstring._native.directory_health cimport directory_fail, directory_took, is_of_directory
from bowstring._native.log_epochs cimport epochs_write
from bowstring._native.log_files cimport (
    file_ops, file_release, segment_file, segment_file_demote, segment_file_detach, sync_path)
from bowstring._native.log_index cimport indexes_forget, indexes_write, time_index_append
from bowstring._native.log_producers cimport first_unstable_offset, snapshot_take
from bowstring._native.log_segment cimport (
    active_segment, segment_activate, segment_create, segment_first_timestamp, segment_floor)
from bowstring._native.log_types cimport PATH_BYTES, SegmentFile, pthread_mutex_t

cdef extern from "pthread.h" nogil:
    int pthread_mutex_lock(pthread_mutex_t *mutex)
    int pthread_mutex_unlock(pthread_mutex_t *mutex)


cdef void log_fail(Log *log, int error, const char *doing) noexcept nogil:
    cdef LogState *state = state_of(log)
    if not log.failed:
        state.failed_errno = -error
        state.failed_doing = doing
        store_i32(&log.failed, 1)
        if log.directory != NULL and is_of_directory(error):
            directory_fail(log.directory, error, doing, state.directory)


cdef void log_settle_stable(Log *log) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef int64_t unstable = first_unstable_offset(&state.producers)
    if 0 <= unstable < log.log_start_offset:
        unstable = log.log_start_offset
    state.first_unstable_offset = unstable
    store_i64(&log.last_stable_offset,
              unstable if 0 <= unstable < log.high_watermark else log.high_watermark)

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
    """By the span of batch timestamps; by the wall clock where batches have none."""
    cdef LogState *state = state_of(log)
    cdef Segment *segment = active_segment(state)
    cdef int64_t first = segment_first_timestamp(state, segment)
    cdef int64_t waited = newest_timestamp - first if first >= 0 else now_ms - segment.created_ms
    return segment.size_bytes > 0 and waited > log.config.segment_ms - state.roll_jitter_ms


cdef int log_roll(Log *log, int64_t now_ms) noexcept nogil:
    """Closes the active segment and begins the next at the log end; an empty one just goes on."""
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
    if error != 0:
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
    """A segment's time index ends with its largest timestamp; then the index files are whole."""
    cdef Segment *segment = active_segment(state)
    cdef int error = 0
    if segment.largest_timestamp >= 0 and state.activated:
        error = time_index_append(state, segment.largest_timestamp, segment.largest_timestamp_offset)
    give_back_blocks(state)
    return error if error != 0 else indexes_write(state)


cdef void give_back_blocks(LogState *state) noexcept nogil:
    """Blocks reserved behind the end of the active segment; that it fails costs space, nothing else."""
    cdef Segment *segment = active_segment(state)
    cdef int error = 0
    cdef SegmentFile *file
    if state.reserved_bytes > segment.size_bytes:
        file = segment_file(state, segment, True, &error)
        if file != NULL:
            file_ops.truncate(file.fd, segment.size_bytes)
            file_release(file)
    state.reserved_bytes = 0

# ---------------------------------------------------------------- flushing


cdef int sync_of(const char *directory, int64_t base_offset, const char *suffix) noexcept nogil:
    cdef char[4160] path                                 # a directory's path, which may fill PATH_BYTES, and a name
    cdef int error
    snprintf(path, sizeof(path), b"%s/%020lld%s", directory, <long long>base_offset, suffix)
    error = sync_path(path)
    return 0 if error == -ENOENT else error              # deleted meanwhile, or never there


cdef int sync_indexes(const char *directory, int64_t base_offset) noexcept nogil:
    cdef int error = sync_of(directory, base_offset, b".index")
    if error == 0:
        error = sync_of(directory, base_offset, b".timeindex")
    return error if error != 0 else sync_of(directory, base_offset, b".txnindex")


cdef void flush_goal(Log *log, bint include_active, FlushGoal *goal) noexcept nogil:
    cdef LogState *state = state_of(log)
    goal.newest_base = active_segment(state).base_offset
    goal.truncations = log.truncations
    goal.end_offset = log.log_end_offset if include_active else goal.newest_base
    # The files of a log that was never written to are made again if they get lost.
    goal.names = state.synced_segment < goal.newest_base and log.log_end_offset > state.segments[0].base_offset
    if state.closed or state.deleting or log_out_of_service(log):
        goal.end_offset = state.recovery_point
        goal.names = False
    goal.needed = goal.names or goal.end_offset > state.recovery_point


cdef int32_t flush_first(const LogState *state) noexcept nogil:
    """The first segment a flush must look at. One that was flushed while it was active got its indexes when it was
    rolled: recovery, which begins at the recovery point, will trust them."""
    cdef int32_t first = segment_floor(state, state.recovery_point)
    cdef int32_t rolled = segment_floor(state, state.synced_segment) if state.synced_segment >= 0 else first
    return rolled if rolled < first else first


cdef int flush_plan(Log *log, bint include_active, FlushPlan *plan) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef int32_t first = flush_first(state)
    cdef int32_t last = state.segment_count - (0 if include_active else 1)
    cdef int32_t i
    cdef int error = 0
    if first < 0:
        first = 0
    plan.n = 0
    plan.files = NULL
    plan.base_offsets = NULL
    plan.snapshot = -1
    plan.aborted = False
    snprintf(plan.directory, PATH_BYTES, b"%s", state.directory)
    flush_goal(log, include_active, &plan.goal)
    if (plan.goal.end_offset <= state.recovery_point and not plan.goal.names) or last <= first:
        return 0
    plan.files = <SegmentFile **>malloc((last - first) * sizeof(SegmentFile *))
    plan.base_offsets = <int64_t *>malloc((last - first) * sizeof(int64_t))
    if plan.files == NULL or plan.base_offsets == NULL:
        return -ENOMEM
    for i in range(first, last):
        plan.files[plan.n] = segment_file(state, state.segments[i], i == state.segment_count - 1, &error)
        if plan.files[plan.n] == NULL:
            return error
        plan.base_offsets[plan.n] = state.segments[i].base_offset
        plan.n += 1
    plan.aborted = include_active and active_segment(state).has_aborted
    return 0


cdef int flush_sync(FlushPlan *plan, bint active_indexes, int error) noexcept nogil:
    """Without a checkpoint the active segment's indexes stay behind: recovery finds again what they lack."""
    cdef int32_t i
    for i in range(plan.n):
        if error == 0:
            error = file_ops.sync(plan.files[i].fd)
        if error == 0 and (active_indexes or plan.base_offsets[i] != plan.goal.newest_base):
            error = sync_indexes(plan.directory, plan.base_offsets[i])
        elif error == 0 and plan.aborted:
            error = sync_of(plan.directory, plan.base_offsets[i], b".txnindex")
        file_release(plan.files[i])
    if error == 0 and plan.goal.names:
        error = sync_of(plan.directory, plan.goal.newest_base, b".snapshot")
    if error == 0 and plan.snapshot >= 0:
        error = sync_of(plan.directory, plan.snapshot, b".snapshot")
    if error == 0 and (plan.goal.names or plan.snapshot >= 0 or plan.aborted):
        error = sync_path(plan.directory)
    free(plan.files)
    free(plan.base_offsets)
    return error


cdef int flush_done(Log *log, const FlushGoal *goal, const char *directory, int error) noexcept nogil:
    cdef LogState *state = state_of(log)
    pthread_mutex_lock(&log.lock)
    if error == -ENOENT and directory != NULL and strcmp(directory, state.directory) != 0:
        error = 0                                        # moved meanwhile: the next flush syncs it where it is now
    elif state.deleting:
        error = 0                                        # the files may have been renamed meanwhile; nobody needs them
    elif error != 0:
        if not state.closed:
            log_fail(log, error, b"flushing the log")
    else:
        if goal.end_offset > state.recovery_point and goal.truncations == log.truncations:
            state.recovery_point = goal.end_offset
        if goal.names and goal.newest_base > state.synced_segment:
            state.synced_segment = goal.newest_base
    pthread_mutex_unlock(&log.lock)
    return error


cdef int log_flush(Log *log, bint include_active) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef FlushPlan plan
    cdef int64_t started_ns
    cdef int error
    pthread_mutex_lock(&log.lock)
    error = flush_plan(log, include_active, &plan)
    if error == 0 and not (state.closed or state.deleting or log_out_of_service(log)):
        error = epochs_write(state, True)
    pthread_mutex_unlock(&log.lock)
    started_ns = monotonic_ns()
    error = flush_sync(&plan, False, error)
    directory_took(log.directory, monotonic_ns() - started_ns)
    return flush_done(log, &plan.goal, plan.directory, error)


cdef int log_rest(Log *log) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef int error = 0
    if state.quiet_since_offset == log.log_end_offset and state.offset_index.tail_capacity \
            + state.time_index.tail_capacity > 0 and not log_out_of_service(log):
        error = indexes_write(state)
        if error == 0:
            indexes_forget(state)
            give_back_blocks(state)
        else:
            log_fail(log, error, b"writing an index")
    state.quiet_since_offset = log.log_end_offset
    return error


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
                error = snapshot_take(state)
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
