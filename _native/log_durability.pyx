"""Commit mode of a log: joined to a write-ahead log, and told what is durable. See log_durability.pxd."""
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy
from bowstring._native.atomics cimport store_i64
from bowstring._native.log cimport PartitionLog, log_advance_high_watermark
from bowstring._native.log_types cimport Log, pthread_mutex_t
from bowstring._native.wal cimport WriteAheadLog

cdef extern from "pthread.h" nogil:
    int pthread_mutex_lock(pthread_mutex_t *mutex)
    int pthread_mutex_unlock(pthread_mutex_t *mutex)


cdef void log_durable_to(Log *log, int64_t offset, bint advance) noexcept nogil:
    pthread_mutex_lock(&log.lock)
    if offset > log.log_end_offset:                      # cut off meanwhile
        offset = log.log_end_offset
    if offset > log.durable_end_offset:
        store_i64(&log.durable_end_offset, offset)
    pthread_mutex_unlock(&log.lock)
    if advance:
        log_advance_high_watermark(log, offset)


def join(PartitionLog log not None, WriteAheadLog wal, bytes topic_id not None, int32_t partition):
    """Appends go through ``wal`` from now on; with None, they are as durable as the page cache again.

    What is there must be on the medium already when a log is joined to a write-ahead log (``log.flush()``), and
    nothing may append meanwhile. The write-ahead log must outlive the log.
    """
    if len(topic_id) != 16:
        raise ValueError("a topic id has 16 bytes")
    pthread_mutex_lock(&log.log.lock)
    memcpy(log.log.topic_id, PyBytes_AS_STRING(topic_id), 16)
    log.log.partition = partition
    log.log.staged_frame = 0
    store_i64(&log.log.durable_end_offset, log.log.log_end_offset)
    log.log.wal = wal.wal if wal is not None else NULL
    pthread_mutex_unlock(&log.log.lock)


def staged_frame(PartitionLog log not None):
    """The newest frame of the write-ahead log that holds a batch of this log; 0 when none does."""
    cdef int64_t frame
    pthread_mutex_lock(&log.log.lock)
    frame = log.log.staged_frame
    pthread_mutex_unlock(&log.log.lock)
    return frame


def durable_to(PartitionLog log not None, int64_t offset):
    """The write-ahead log has everything below ``offset``: the high watermark moves up to it."""
    with nogil:
        log_durable_to(log.log, offset, True)
