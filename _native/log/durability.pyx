"""Commit mode of a log: connects it to a write-ahead log and records its durable end, see durability.pxd."""
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy
from bowstring._native.base.atomics cimport load_i64, store_i64
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.log.partition_log cimport PartitionLog
from bowstring._native.log.state cimport log_advance_high_watermark
from bowstring._native.log.segment_files cimport active_write_out
from bowstring._native.log.types cimport Log, lock_with_gil, state_of
from bowstring._native.wal.group_commit cimport wal_kick, wal_stage
from bowstring._native.wal.types cimport WAL_LEFT
from bowstring._native.wal.write_ahead_log cimport WriteAheadLog


cdef void log_durable_to(Log *log, int64_t cuts, int64_t offset, bint advance) noexcept nogil:
    pthread_mutex_lock(&log.lock)
    if cuts != NOW and cuts != log.cuts and offset > log.cut_offset:
        offset = log.cut_offset
    if offset > log.log_end_offset:                      # the log was truncated meanwhile
        offset = log.log_end_offset
    if offset > log.durable_end_offset:
        store_i64(&log.durable_end_offset, offset)
    pthread_mutex_unlock(&log.lock)
    if advance:
        log_advance_high_watermark(log, offset)


def join(PartitionLog log not None, WriteAheadLog wal, bytes topic_id not None, int32_t partition):
    """Makes appends durable through ``wal`` from now on; with None, they are only in the page cache again.

    Flush the log first (``log.flush()``): its data must be on the medium. No append may run meanwhile. The write-ahead log
    must outlive the log.
    """
    if len(topic_id) != 16:
        raise ValueError(f"a topic id must have 16 bytes, not {len(topic_id)}")
    lock_with_gil(log.log)
    with nogil:
        active_write_out(state_of(log.log))              # the modes have separate pools
    memcpy(log.log.topic_id, PyBytes_AS_STRING(topic_id), 16)
    log.log.partition = partition
    log.log.staged_frame = log.log.cut_frame = 0
    store_i64(&log.log.durable_end_offset, log.log.log_end_offset)
    log.log.wal = wal.wal if wal is not None else NULL
    pthread_mutex_unlock(&log.log.lock)


def leave(PartitionLog log not None, WriteAheadLog wal not None):
    """Records in ``wal`` that its entries of this log are in synced files, so that a replay skips them. Returns the frame
    that says so.

    Join the log to another write-ahead log, or to None, first.

    Raises:
        MemoryError: Nothing was recorded; a replay compares the entries with the files, which takes longer.
        ValueError: The log still uses ``wal``.
    """
    cdef int64_t frame
    if log.log.wal == wal.wal:
        raise ValueError("the log still uses this write-ahead log; join it to another one, or to None, first")
    frame = wal_stage(wal.wal, log.log.topic_id, log.log.partition, log.log.moves, WAL_LEFT, 0, NULL, NULL, 0)
    if frame < 0:
        raise MemoryError("no memory for an entry of the write-ahead log")
    wal_kick(wal.wal)
    return frame


def staged_frame(PartitionLog log not None):
    """Returns the newest frame of the write-ahead log with a batch of this log; 0 if there is none."""
    cdef int64_t frame
    lock_with_gil(log.log)
    frame = log.log.staged_frame
    pthread_mutex_unlock(&log.log.lock)
    return frame


def cuts(PartitionLog log not None):
    """Returns how often the log was truncated; see :func:`durable_to`."""
    return load_i64(&log.log.cuts)


def durable_to(PartitionLog log not None, int64_t offset, *, int64_t cuts=NOW, bint advance=True):
    """Records that all batches below ``offset`` are durable.

    Args:
        cuts: What :func:`cuts` returned when the log ended at ``offset``; what was cut since does not count. By default the
            log is as it was.
        advance: Raises the high watermark to ``offset``, which it must not do with followers.
    """
    with nogil:
        log_durable_to(log.log, cuts, offset, advance)
