"""Checkpoints, see checkpoint.pxd."""
from libc.errno cimport ENOENT, ENOMEM
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, strlen, strrchr
from bowstring._native.base.clock cimport monotonic_ns
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.disk.file_ops cimport PATH_BYTES, file_ops
from bowstring._native.disk.directory_health cimport directory_took
from bowstring._native.log.flush cimport FlushGoal, FlushPlan, flush_done, flush_goal, flush_plan, flush_sync, log_flush
from bowstring._native.log.index cimport indexes_write
from bowstring._native.log.leader_epochs cimport epochs_write
from bowstring._native.log.partition_log cimport PartitionLog
from bowstring._native.log.producer_state cimport snapshot_forget, snapshot_newest, snapshot_rename, snapshot_take
from bowstring._native.log.segment cimport active_segment, begins_segment
from bowstring._native.log.segment_files cimport active_write_out, segment_path
from bowstring._native.log.types cimport CheckpointSnapshot, LogState, log_out_of_service, state_of

cdef enum:
    # With fewer logs, syncing each file costs less than syncing the file system, which includes data of others.
    BULK_FROM = 8
    ROOTS_MAX = 16                  # log directories in one checkpoint

# ---------------------------------------------------------------- the files from which recovery starts


cdef int leave_snapshot(LogState *state, int64_t offset, int64_t *left) noexcept nogil:
    """Writes a snapshot at `offset`, the log end, and removes the one before the previous. *left is -1 if the snapshot
    existed already."""
    cdef char[PATH_BYTES] path
    cdef CheckpointSnapshot oldest = state.checkpoints[0]
    cdef bint empty = state.producers.count == 0
    cdef bint removable = oldest.offset >= 0 and not begins_segment(state, oldest.offset)
    cdef int error = 0
    left[0] = -1
    state.producers.end_offset = offset
    if offset <= snapshot_newest(&state.producers) or offset == 0:
        return 0
    if not (removable and empty and oldest.empty and snapshot_rename(state, oldest.offset, offset)):
        error = snapshot_take(state)
        if error == 0 and removable:
            error = file_ops.unlink(segment_path(path, state, oldest.offset, b".snapshot"))
            error = 0 if error == -ENOENT else error
            snapshot_forget(&state.producers, oldest.offset)
    if error != 0:
        return error
    state.checkpoints[0] = state.checkpoints[1]
    state.checkpoints[1].offset = offset
    state.checkpoints[1].empty = empty
    left[0] = offset
    return 0


cdef int write_out(Log *log, int64_t *snapshot) noexcept nogil:
    """Writes everything that is only in memory to the log's files. Call it under the lock, if there is unflushed data."""
    cdef LogState *state = state_of(log)
    cdef int error = active_write_out(state)
    if error == 0 and state.activated:
        error = indexes_write(state)
    if error == 0:
        error = leave_snapshot(state, log.log_end_offset, snapshot)
    return error if error != 0 else epochs_write(state, False)


cdef bint wanted(Log *log, FlushGoal *goal) noexcept nogil:
    cdef LogState *state = state_of(log)
    flush_goal(log, True, goal)
    if state.epochs.dirty and not (state.closed or state.deleting or log_out_of_service(log)):
        goal.needed = True
    return goal.needed

# ---------------------------------------------------------------- one by one


cdef int checkpoint_one(Log *log) noexcept nogil:
    cdef FlushPlan plan
    cdef FlushGoal goal
    cdef int64_t snapshot = -1
    cdef int error = 0
    cdef int64_t started_ns
    cdef bint planned, epochs
    pthread_mutex_lock(&log.lock)
    if not wanted(log, &goal):
        pthread_mutex_unlock(&log.lock)
        return 0
    epochs = state_of(log).epochs.dirty and not goal.rescue
    if not goal.rescue:
        error = write_out(log, &snapshot)
    planned = error == 0
    if planned:
        error = flush_plan(log, True, &plan)
        plan.snapshot = snapshot
        plan.epochs = epochs
    pthread_mutex_unlock(&log.lock)
    if planned:
        started_ns = monotonic_ns()
        error = flush_sync(&plan, True, error)
        directory_took(log.directory, monotonic_ns() - started_ns)
    return flush_done(log, &goal, plan.directory if planned else NULL, epochs, error)


cdef void checkpoint_each(Log **logs, const FlushGoal *goals, int32_t n, CheckpointOutcome *out) noexcept nogil:
    cdef int32_t i
    for i in range(n):
        if goals[i].needed:
            if checkpoint_one(logs[i]) == 0:
                out.flushed += 1
            else:
                out.failed += 1

# ---------------------------------------------------------------- many at once

cdef struct Roots:
    # The log directories of the logs.
    char *paths[ROOTS_MAX]
    int32_t count


cdef bint enter_root(Roots *roots, const char *directory) noexcept nogil:
    """Adds a log directory. False when there are too many, or memory ran out."""
    cdef const char *slash = strrchr(directory, b'/')
    cdef size_t n = slash - directory if slash != NULL else 0
    cdef int32_t i
    for i in range(roots.count):
        if strlen(roots.paths[i]) == n and memcmp(roots.paths[i], directory, n) == 0:
            return True
    if roots.count == ROOTS_MAX or n == 0:
        return False
    roots.paths[roots.count] = <char *>malloc(n + 1)
    if roots.paths[roots.count] == NULL:
        return False
    memcpy(roots.paths[roots.count], directory, n)
    roots.paths[roots.count][n] = 0
    roots.count += 1
    return True


cdef bint write_out_all(Log **logs, FlushGoal *goals, int32_t n, Roots *roots, CheckpointOutcome *out) noexcept nogil:
    """Writes each log to its files and collects the log directories. False when there are too many directories: each log
    is then flushed alone."""
    cdef int64_t snapshot
    cdef int32_t i
    cdef int error
    for i in range(n):
        if not goals[i].needed:
            continue
        pthread_mutex_lock(&logs[i].lock)
        error = 0
        if not enter_root(roots, state_of(logs[i]).directory):
            pthread_mutex_unlock(&logs[i].lock)
            return False
        if wanted(logs[i], &goals[i]):                   # check again: the log may be closed by now
            error = active_write_out(state_of(logs[i])) if goals[i].rescue else write_out(logs[i], &snapshot)
        pthread_mutex_unlock(&logs[i].lock)
        if error != 0:
            flush_done(logs[i], &goals[i], NULL, False, error)
            goals[i].needed = False
            out.failed += 1
    return True


cdef bint sync_roots(const Roots *roots, CheckpointOutcome *out) noexcept nogil:
    cdef int32_t i
    for i in range(roots.count):
        if file_ops.sync_file_system(roots.paths[i]) != 0:
            return False
        out.file_systems += 1
    return True


cdef void checkpoint_bulk(Log **logs, FlushGoal *goals, int32_t n, CheckpointOutcome *out) noexcept nogil:
    cdef Roots roots
    cdef int32_t i
    roots.count = 0
    if write_out_all(logs, goals, n, &roots, out) and sync_roots(&roots, out):
        for i in range(n):
            if goals[i].needed:
                flush_done(logs[i], &goals[i], NULL, False, 0)
                out.flushed += 1
    else:                                                # syncs file by file, to find the log that fails
        out.file_systems = 0
        for i in range(n):
            if goals[i].needed and not goals[i].rescue:  # written, but not synced
                pthread_mutex_lock(&logs[i].lock)
                state_of(logs[i]).epochs.dirty = True
                pthread_mutex_unlock(&logs[i].lock)
        checkpoint_each(logs, goals, n, out)
    for i in range(roots.count):
        free(roots.paths[i])


cdef int checkpoint_logs(Log **logs, int32_t n, int32_t bulk_from, CheckpointOutcome *out) noexcept nogil:
    cdef FlushGoal *goals = <FlushGoal *>calloc(n if n > 0 else 1, sizeof(FlushGoal))
    cdef int32_t i, needed = 0
    out.flushed = out.failed = out.file_systems = 0
    if goals == NULL:
        return -ENOMEM
    for i in range(n):
        pthread_mutex_lock(&logs[i].lock)
        needed += wanted(logs[i], &goals[i])
        pthread_mutex_unlock(&logs[i].lock)
    if needed >= bulk_from:
        checkpoint_bulk(logs, goals, n, out)
    else:
        checkpoint_each(logs, goals, n, out)
    for i in range(n):                                   # a directory may have failed at any moment
        pthread_mutex_lock(&logs[i].lock)
        flush_goal(logs[i], True, &goals[i])
        out.failed += goals[i].lost
        pthread_mutex_unlock(&logs[i].lock)
    free(goals)
    return 0


def flush_logs(list logs not None, *, int32_t bulk_from=BULK_FROM):
    """Flushes PartitionLogs up to their ends, as a checkpoint: the next recovery starts there.

    Flushes batches, index tails, leader epochs, and a producer snapshot at each log's end. Releases the GIL. Records that
    are appended meanwhile are not covered: each log's ``recovery_point`` says how far it was flushed.

    Args:
        logs: Logs of any topics and log directories. A log without new data costs almost nothing.
        bulk_from: If at least this many logs have new data, their file systems are synced as a whole.

    Returns:
        ``flushed`` (number of logs that had new data), ``failed`` (number of logs that could not be flushed;
        PartitionLog.failed and stats()["failure"] say which and why), ``file_systems`` (number synced as a whole).
    """
    cdef int32_t n = <int32_t>len(logs)
    cdef Log **pointers = <Log **>malloc((n + 1) * sizeof(Log *))
    cdef CheckpointOutcome out
    cdef int32_t i
    cdef int error
    if pointers == NULL:
        raise MemoryError("no memory for a checkpoint")
    try:
        for i in range(n):
            pointers[i] = (<PartitionLog?>logs[i]).log
        with nogil:
            error = checkpoint_logs(pointers, n, bulk_from, &out)
    finally:
        free(pointers)
    if error != 0:
        raise MemoryError("no memory for a checkpoint")
    return {"flushed": out.flushed, "failed": out.failed, "file_systems": out.file_systems}


cdef int32_t flush_closed_segments(Log **logs, int32_t n) noexcept nogil:
    cdef int32_t i, flushed = 0
    cdef bint due
    for i in range(n):
        pthread_mutex_lock(&logs[i].lock)
        due = state_of(logs[i]).segment_count > 0 \
            and state_of(logs[i]).recovery_point < active_segment(state_of(logs[i])).base_offset
        pthread_mutex_unlock(&logs[i].lock)
        if due and log_flush(logs[i], False) == 0:
            flushed += 1
    return flushed


def flush_rolled(list logs not None):
    """Flushes segments that were rolled since the last call, as Kafka does after a roll. Returns the number of logs.

    Does not flush active segments: recovery reads them after a crash. Releases the GIL. A log that fails is out of
    service.
    """
    cdef int32_t n = <int32_t>len(logs)
    cdef Log **pointers = <Log **>malloc((n + 1) * sizeof(Log *))
    cdef int32_t i, flushed
    if pointers == NULL:
        raise MemoryError("no memory to flush logs")
    try:
        for i in range(n):
            pointers[i] = (<PartitionLog?>logs[i]).log
        with nogil:
            flushed = flush_closed_segments(pointers, n)
    finally:
        free(pointers)
    return flushed
