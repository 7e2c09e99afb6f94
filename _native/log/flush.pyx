"""Flushes logs, see flush.pxd.

Contents: syncing files · the steps of a flush (goal, plan, sync, done) · log_flush · flush.messages.
"""
from libc.errno cimport EIO, ENOENT, ENOMEM, ESTALE
from libc.stdint cimport int32_t, int64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc
from libc.string cimport strcmp
from bowstring._native.base.atomics cimport load_i32, store_i64
from bowstring._native.base.clock cimport monotonic_ns
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.disk.file_ops cimport FILE_PATH_BYTES, PATH_BYTES, sync_path
from bowstring._native.disk.directory_health cimport directory_fail, directory_took, may_pass
from bowstring._native.disk.staged_tail cimport tail_sync
from bowstring._native.log.leader_epochs cimport epochs_write
from bowstring._native.log.segment cimport active_segment, segment_floor
from bowstring._native.log.segment_files cimport segment_file, segment_file_release
from bowstring._native.log.state cimport log_fail
from bowstring._native.log.types cimport LogState, SegmentFile, log_out_of_service, state_of

# ---------------------------------------------------------------- syncing files


cdef int sync_of(const char *directory, int64_t base_offset, const char *suffix) noexcept nogil:
    cdef char[FILE_PATH_BYTES] path
    cdef int error
    snprintf(path, sizeof(path), b"%s/%020lld%s", directory, <long long>base_offset, suffix)
    error = sync_path(path)
    return 0 if error == -ENOENT else error              # deleted meanwhile, or never there


cdef int sync_indexes(const char *directory, int64_t base_offset) noexcept nogil:
    cdef int error = sync_of(directory, base_offset, b".index")
    if error == 0:
        error = sync_of(directory, base_offset, b".timeindex")
    return error if error != 0 else sync_of(directory, base_offset, b".txnindex")


cdef int sync_epochs(const char *directory) noexcept nogil:
    cdef char[FILE_PATH_BYTES] path
    snprintf(path, sizeof(path), b"%s/leader-epoch-checkpoint", directory)
    return sync_path(path)

# ---------------------------------------------------------------- the steps


cdef void flush_goal(Log *log, bint include_active, FlushGoal *goal) noexcept nogil:
    cdef LogState *state = state_of(log)
    goal.newest_base = active_segment(state).base_offset
    goal.truncations = log.truncations
    goal.end_offset = log.log_end_offset if include_active else goal.newest_base
    # An empty log needs no sync: its files are created again if they are lost.
    goal.names = state.synced_segment < goal.newest_base and log.log_end_offset > state.segments[0].base_offset
    goal.rescue = goal.lost = False
    if state.closed or state.deleting or log_out_of_service(log):
        goal.end_offset = state.recovery_point
        goal.names = False
        if not (state.closed or state.deleting) and log.log_end_offset > state.recovery_point:
            goal.lost = log.directory != NULL and load_i32(&log.directory.failed)
            goal.rescue = not goal.lost and not state.rescued
    goal.needed = goal.names or goal.rescue or goal.end_offset > state.recovery_point


cdef int32_t flush_first(const LogState *state) noexcept nogil:
    """The first segment that a flush must sync. A segment that was flushed while it was active is included: its indexes
    were completed when it was rolled, and recovery trusts indexes below the recovery point. After an unclean stop nothing
    shows whether the one that ends at the recovery point is such a segment."""
    cdef int32_t first = segment_floor(state, state.recovery_point - (state.synced_segment < 0))
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
    plan.epochs = plan.aborted = False
    snprintf(plan.directory, PATH_BYTES, b"%s", state.directory)
    flush_goal(log, include_active, &plan.goal)
    if plan.goal.rescue:
        last = state.segment_count
    if not plan.goal.needed or last <= first:
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
    """Outside a checkpoint the active segment's indexes are not synced: recovery restores what they lack."""
    cdef int32_t i
    for i in range(plan.n):
        if error == 0:
            error = tail_sync(&plan.files[i].tail)
        if plan.goal.rescue:
            pass                                         # recovery rebuilds its indexes
        elif error == 0 and (active_indexes or plan.base_offsets[i] != plan.goal.newest_base):
            error = sync_indexes(plan.directory, plan.base_offsets[i])
        elif error == 0 and plan.aborted:
            error = sync_of(plan.directory, plan.base_offsets[i], b".txnindex")
        segment_file_release(plan.files[i])
    if error == 0 and plan.epochs:
        error = sync_epochs(plan.directory)
    if error == 0 and plan.goal.names:
        error = sync_of(plan.directory, plan.goal.newest_base, b".snapshot")
    if error == 0 and plan.snapshot >= 0:
        error = sync_of(plan.directory, plan.snapshot, b".snapshot")
    if error == 0 and (plan.goal.names or plan.goal.rescue or plan.epochs or plan.snapshot >= 0 or plan.aborted):
        error = sync_path(plan.directory)
    free(plan.files)
    free(plan.base_offsets)
    return error


cdef int flush_done(Log *log, const FlushGoal *goal, const char *directory, bint epochs, int error) noexcept nogil:
    cdef LogState *state = state_of(log)
    pthread_mutex_lock(&log.lock)
    if epochs and error != 0:
        state.epochs.dirty = True
    if error == -ENOENT and directory != NULL and strcmp(directory, state.directory) != 0:
        error = -ESTALE                                  # moved meanwhile: the next flush uses the new path
    elif state.deleting:
        error = 0                                        # the log is being deleted: its files are not needed
    elif error != 0:
        if may_pass(error):
            pass                                         # the next flush tries again
        elif goal.rescue and log.directory != NULL:
            directory_fail(log.directory, error, b"syncing a log that is out of service", state.directory)
        elif not state.closed:
            log_fail(log, error, b"flushing the log")
    elif goal.rescue:
        state.rescued = True
    else:
        if goal.end_offset > state.recovery_point and goal.truncations == log.truncations:
            store_i64(&state.recovery_point, goal.end_offset)
        if goal.names and goal.newest_base > state.synced_segment:
            state.synced_segment = goal.newest_base
    pthread_mutex_unlock(&log.lock)
    return error

# ---------------------------------------------------------------- all the steps


cdef int flush_once(Log *log, bint include_active) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef FlushPlan plan
    cdef int64_t started_ns
    cdef int error
    pthread_mutex_lock(&log.lock)
    error = flush_plan(log, include_active, &plan)
    if error == 0 and state.epochs.dirty and not (state.closed or state.deleting or log_out_of_service(log)):
        error = epochs_write(state, False)
        plan.epochs = True
    pthread_mutex_unlock(&log.lock)
    started_ns = monotonic_ns()
    error = flush_sync(&plan, False, error)
    directory_took(log.directory, monotonic_ns() - started_ns)
    if plan.goal.lost and error == 0:
        return -EIO
    return flush_done(log, &plan.goal, plan.directory, plan.epochs, error)


cdef int log_flush(Log *log, bint include_active) noexcept nogil:
    cdef int error = -ESTALE
    while error == -ESTALE:
        error = flush_once(log, include_active)
    return error

# ---------------------------------------------------------------- flush.messages


cdef int sync_segments(LogState *state, int32_t first) noexcept nogil:
    """Syncs batches, the indexes of segments that recovery will trust, and file names."""
    cdef SegmentFile *file
    cdef int64_t newest = active_segment(state).base_offset
    cdef int32_t i
    cdef int error = epochs_write(state, True)
    for i in range(first if first > 0 else 0, state.segment_count):
        file = segment_file(state, state.segments[i], i == state.segment_count - 1, &error) if error == 0 else NULL
        if file != NULL:
            error = tail_sync(&file.tail)
            segment_file_release(file)
        if error == 0 and i < state.segment_count - 1:
            error = sync_of(state.directory, state.segments[i].base_offset, b".index")
            if error == 0:
                error = sync_of(state.directory, state.segments[i].base_offset, b".timeindex")
        if error == 0 and state.segments[i].has_aborted:
            error = sync_of(state.directory, state.segments[i].base_offset, b".txnindex")
    if error == 0 and (state.synced_segment < newest or active_segment(state).has_aborted):
        error = sync_of(state.directory, newest, b".snapshot")
        if error == 0:
            error = sync_path(state.directory)
        if error == 0:
            state.synced_segment = newest
    return error


cdef bint log_flush_by_count(Log *log) noexcept nogil:
    """Applies flush.messages. False: the appended batches are not on the medium."""
    cdef LogState *state = state_of(log)
    cdef int error
    if log.log_end_offset - state.recovery_point < log.config.flush_messages:
        return True
    error = sync_segments(state, flush_first(state))
    if error != 0:
        if not may_pass(error):
            log_fail(log, error, b"flushing the log")
        return False
    store_i64(&state.recovery_point, log.log_end_offset)
    return True
