"""Puts a future replica in the place of the current one, under reactors that serve it (KIP-113)."""
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t
from bowstring._native.base.pthread cimport (
    pthread_mutex_lock, pthread_mutex_unlock, pthread_rwlock_unlock, pthread_rwlock_wrlock)
from bowstring._native.log cimport PartitionLog
from bowstring._native.log.future_replica cimport (
    COPY_LOST, FutureReplica, future_copy_rest, future_diverged, future_join_wal, future_leave_wal, future_take_over,
    source_durable)
from bowstring._native.server.data_plane cimport DataPlane
from bowstring._native.server.topic_table cimport partition_advanced
from bowstring._native.server.partition_types cimport Partition
from bowstring._native.wal.types cimport Wal
from bowstring._native.wal.write_ahead_log cimport WriteAheadLog


def replace_log(DataPlane plane not None, str topic, int partition, FutureReplica copy not None, int64_t max_bytes,
                WriteAheadLog wal=None):
    """Replaces a partition's log by its copy, between two passes of every reactor. For the control thread.

    Copies the remaining batches first, if they have less than ``max_bytes``. Requests that wait on the partition
    keep waiting; the old log is kept for readers that still use it. ``wal``: in commit mode, the write-ahead log of
    the copy's directory; the copy must be synced, and nothing copied since.

    Returns:
        int: 0 when done; 1 when there was too much to copy, or something not durable yet, or the log was truncated below
        the end of the copy: copy what is left, sync the copy, and try again; a negated
        errno when copying failed, and all is as it was.

    Raises:
        KeyError: The partition is not served here.
    """
    cdef Partition *p = plane._find(topic, partition)
    cdef PartitionLog target = copy.target
    cdef object old = <object>p.log_owner
    cdef Wal *target_wal = wal.wal if wal is not None else NULL
    cdef int64_t n
    cdef int outcome = 1, durable
    with nogil:
        pthread_mutex_lock(&p.truncate_lock)             # a storage thread truncates the old log or the new one
        pthread_rwlock_wrlock(&plane.plane.table_lock)
        durable = source_durable(p.log, not p.replicated)
        if durable < 0:
            outcome = durable
        elif durable and not future_diverged(&copy.copier) and (p.log.wal == NULL) == (target_wal == NULL) \
                and (target_wal == NULL or future_join_wal(p.log, target.log, target_wal)):
            n = future_copy_rest(&copy.copier, max_bytes)
            if n == 0:
                outcome = future_take_over(p.log, target.log)
            elif n < 0 and n != COPY_LOST:
                outcome = <int>n
            if outcome == 0:
                p.log = target.log
            else:
                future_leave_wal(target.log)
        pthread_rwlock_unlock(&plane.plane.table_lock)
        pthread_mutex_unlock(&p.truncate_lock)
    if outcome == 0:
        Py_INCREF(target)
        p.log_owner = <PyObject *>target
        plane.replaced.setdefault(<size_t>p, []).append(old)
        Py_DECREF(old)                                   # the list has it now
    partition_advanced(p, 0, NULL)
    return outcome
