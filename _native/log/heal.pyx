"""Returns logs to service after errors that pass, such as a lack of descriptors or memory.

An append that failed half-way may leave bytes behind the log end, index entries beyond it, and producers that count batches
which were refused. A truncation at the log end removes all of that, as it does on a follower.
"""
from libc.stdint cimport int64_t
from posix.fcntl cimport O_CREAT, O_RDWR
from bowstring._native.base.atomics cimport load_i32, store_i32
from bowstring._native.base.clock cimport wall_clock_ms
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.disk.file_ops cimport PATH_BYTES, file_ops
from bowstring._native.log.leader_epochs cimport epochs_write
from bowstring._native.log.partition_log cimport PartitionLog
from bowstring._native.log.python_values cimport check
from bowstring._native.log.segment cimport active_segment, log_cut, segment_activate
from bowstring._native.log.segment_files cimport segment_file, segment_file_release, segment_path
from bowstring._native.log.state cimport FAILED_FOR_NOW
from bowstring._native.log.truncate cimport tell_wal, truncate_within
from bowstring._native.log.types cimport Log, LogState, Segment, SegmentFile, lock_with_gil, state_of
from bowstring._native.wal.types cimport WAL_START, WAL_TRUNCATE


cdef int complete_active(LogState *state) noexcept nogil:
    """Makes the file of an empty active segment, which a truncation may have failed to make."""
    cdef char[PATH_BYTES] path
    cdef Segment *segment = active_segment(state)
    cdef int fd
    if segment.size_bytes > 0:
        return 0
    fd = file_ops.open(segment_path(path, state, segment.base_offset, b".log"), O_RDWR | O_CREAT)
    if fd >= 0:
        file_ops.close(fd)
    return min(fd, 0)


cdef int cut_rest(LogState *state) noexcept nogil:
    """Removes what a failed append has left in the file behind the log end."""
    cdef Segment *segment = active_segment(state)
    cdef int64_t size_bytes = 0
    cdef int error = 0
    cdef SegmentFile *file = segment_file(state, segment, True, &error)
    if file == NULL:
        return error
    error = file_ops.stat(file.fd, &size_bytes, NULL)
    if error == 0 and size_bytes > segment.size_bytes:
        error = log_cut(state, segment, file, segment.size_bytes)
        state.reserved_bytes = 0
    segment_file_release(file)
    return error


cdef int mend(Log *log, int64_t now_ms) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef int error = complete_active(state)
    cdef bint empty
    if error == 0:
        error = cut_rest(state)
    if error == 0:
        error = truncate_within(log, log.log_end_offset, now_ms)
    if error == 0:
        error = epochs_write(state, True)
    if error == 0:
        empty = state.segments[0].base_offset == log.log_end_offset
        error = tell_wal(log, WAL_START if empty else WAL_TRUNCATE, log.log_end_offset)
    return error


cdef int try_to_append(Log *log) noexcept nogil:
    """Opens what an append opens, for a log that has refused one."""
    cdef LogState *state = state_of(log)
    cdef int error = 0
    cdef SegmentFile *file
    if not state.activated:
        error = segment_activate(state)
    if error == 0:
        file = segment_file(state, active_segment(state), True, &error)
        if file != NULL:
            segment_file_release(file)
    if error == 0:
        state.refuses = 0
    return error


cdef bint heals(const Log *log) noexcept nogil:
    cdef LogState *state = state_of(log)
    return ((log.failed == FAILED_FOR_NOW or (log.failed == 0 and state.refuses))
            and not (log.directory != NULL and load_i32(&log.directory.failed))
            and not (log.wal != NULL and load_i32(&log.wal.failed))
            and not (state.closed or state.deleting or state.moved))


def may_heal(PartitionLog log not None):
    """Returns whether only an error that passes keeps the log out of service."""
    cdef bint may
    lock_with_gil(log.log)
    may = heals(log.log)
    pthread_mutex_unlock(&log.log.lock)
    return may


def heal(PartitionLog log not None):
    """Returns a failed log to service with what is in it up to its end: files, epochs and producers. Does nothing for one that
    needs nothing. Reads what recovery would read: not for the control thread.

    Raises:
        LogError: It failed again.
    """
    cdef int error = 0
    with nogil:
        pthread_mutex_lock(&log.log.lock)
        if heals(log.log):
            error = mend(log.log, wall_clock_ms()) if log.log.failed else try_to_append(log.log)
            if error == 0 and log.log.failed == FAILED_FOR_NOW:
                state_of(log.log).failed_errno = 0
                state_of(log.log).failed_doing = NULL
                store_i32(&log.log.failed, 0)
        pthread_mutex_unlock(&log.log.lock)
    check(log.log, error)
