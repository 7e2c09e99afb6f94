"""Copies a log into another one, see future_replica.pxd.

Batches are copied unchanged, with offsets, epochs, producers and timestamps; the target has its own segments and indexes.
Only batches with a correct CRC are copied, so damage does not spread to a second disk.
"""
import os

from cpython.bytes cimport PyBytes_AS_STRING
from libc.errno cimport EAGAIN, EBADMSG, EIO, ENOMEM
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset
from posix.unistd cimport usleep
from bowstring._native.base.atomics cimport load_i32, load_i64, store_i32, store_i64
from bowstring._native.base.bigendian cimport load_be32
from bowstring._native.base.clock cimport wall_clock_ms
from bowstring._native.base.error_codes cimport CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR, OFFSET_OUT_OF_RANGE
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.disk.file_ops cimport file_ops, read_range, sync_path
from bowstring._native.log.append cimport AS_WRITTEN, ENTRIES_TOGETHER, log_append
from bowstring._native.log.disk_read cimport read_warm
from bowstring._native.log.leader_epochs cimport epochs_copy, epochs_newest, epochs_truncate_start
from bowstring._native.log.partition_log cimport PartitionLog
from bowstring._native.log.producer_state cimport find_or_add, producers_clear, transaction_add
from bowstring._native.log.verification cimport verifications_copy
from bowstring._native.log.read cimport cursor_forget
from bowstring._native.log.roll cimport log_roll
from bowstring._native.log.segment cimport active_segment
from bowstring._native.log.segment_files cimport active_write_out, segment_file_release
from bowstring._native.log.state cimport log_advance_high_watermark, log_fail, log_update_last_stable
from bowstring._native.log.truncate cimport log_truncate_to
from bowstring._native.log.types cimport AppendEntry, LogSlice, LogState, Producer, Producers, lock_with_gil, state_of
from bowstring._native.record.batch cimport (
    BATCH_HEADER_BYTES, BATCH_LENGTH, BATCH_LENGTH_PREFIX_BYTES, batch_crc_ok, batch_parse)
from bowstring._native.wal.group_commit cimport wal_kick, wal_stage
from bowstring._native.wal.types cimport WAL_LEFT, Wal
from bowstring._native.log.python_values import LogError

cdef enum:
    DURABLE_LOOKS = 40
    DURABLE_LOOK_US = 50
    MOVES_MAX = 0xFFFF              # what an entry of the write-ahead log has room for

# ---------------------------------------------------------------- batches


cdef int append_all(Log *target, uint8_t *data, int64_t size_bytes) noexcept nogil:
    """Appends whole batches, in order."""
    cdef AppendEntry[ENTRIES_TOGETHER] entries
    cdef AppendEntry *pointers[ENTRIES_TOGETHER]
    cdef int64_t at = 0, n
    cdef int32_t count, i
    while at < size_bytes:
        count = 0
        while at < size_bytes and count < ENTRIES_TOGETHER:
            if size_bytes - at < BATCH_HEADER_BYTES:
                return -EBADMSG
            n = <int64_t>load_be32(data + at + BATCH_LENGTH) + BATCH_LENGTH_PREFIX_BYTES
            if n > size_bytes - at or batch_parse(data + at, n, &entries[count].info) != 0 \
                    or not batch_crc_ok(data + at, n):
                return -EBADMSG
            entries[count].data = data + at
            pointers[count] = &entries[count]
            count += 1
            at += n
        log_append(target, pointers, count, AS_WRITTEN, wall_clock_ms())
        for i in range(count):
            if entries[i].error != 0:
                return -state_of(target).failed_errno if target.failed else -EAGAIN
    return 0


cdef int skip_to(Log *target, int64_t offset) noexcept nogil:
    """Ends the target at `offset` with an empty segment, as in a source whose last batches were compacted away."""
    cdef int error
    pthread_mutex_lock(&target.lock)
    store_i64(&target.log_end_offset, offset)
    state_of(target).producers.end_offset = offset
    error = log_roll(target, wall_clock_ms())
    pthread_mutex_unlock(&target.lock)
    return error


cdef bint ends_empty(Log *source, int64_t end) noexcept nogil:
    """Whether only an empty segment lies at the end."""
    cdef bint empty
    pthread_mutex_lock(&source.lock)
    empty = active_segment(state_of(source)).size_bytes == 0 and active_segment(state_of(source)).base_offset == end
    pthread_mutex_unlock(&source.lock)
    return empty


cdef bint future_diverged(const Copier *copier) noexcept nogil:
    return load_i64(&copier.source.lowest_cut) < load_i64(&copier.target.log_end_offset)


cdef int adapt(Copier *copier) noexcept nogil:
    """Truncates the target as the source was truncated. The source may be as long as before by now, with other batches."""
    cdef Log *source = copier.source
    cdef int64_t offset
    pthread_mutex_lock(&source.lock)
    offset = source.lowest_cut
    store_i64(&source.lowest_cut, INT64_MAX)
    pthread_mutex_unlock(&source.lock)
    if offset >= copier.target.log_end_offset:
        return 0
    return log_truncate_to(copier.target, offset, wall_clock_ms())


cdef int64_t future_copy_some(Copier *copier, int64_t max_bytes) noexcept nogil:
    cdef Log *target = copier.target
    cdef int64_t end
    cdef LogSlice found
    cdef uint8_t *grown
    cdef int64_t n, start
    cdef int error = adapt(copier)
    if error != 0:
        return error
    end = load_i64(&copier.source.log_end_offset)
    if target.log_end_offset == end:
        return 0
    if target.log_end_offset > end:
        return COPY_LOST
    # Readers no longer see offsets below the log start, but they do see later batches of the same segment.
    start = load_i64(&copier.source.log_start_offset)
    error = read_warm(copier.source, target.log_end_offset if target.log_end_offset > start else start, end, max_bytes,
                      True, &copier.cursor, &found)
    if error != 0:
        return COPY_LOST if error == OFFSET_OUT_OF_RANGE else (-EBADMSG if error == CORRUPT_MESSAGE else -EIO)
    if found.file == NULL:
        return skip_to(target, end) if ends_empty(copier.source, end) else -EIO
    if found.size_bytes > copier.capacity:
        grown = <uint8_t *>realloc(copier.buffer, <size_t>found.size_bytes)
        if grown == NULL:
            segment_file_release(found.file)
            return -ENOMEM
        copier.buffer = grown
        copier.capacity = found.size_bytes
    n = read_range(found.file.fd, copier.buffer, found.size_bytes, found.position)
    segment_file_release(found.file)
    if n != found.size_bytes:
        return n if n < 0 else -EIO
    error = append_all(target, copier.buffer, n)
    return error if error != 0 else n


cdef int64_t future_copy_rest(Copier *copier, int64_t max_bytes) noexcept nogil:
    cdef int64_t copied = 0
    cdef int64_t n = 1
    while n > 0 and copied < max_bytes:                  # a read ends with its segment
        n = future_copy_some(copier, max_bytes - copied)
        copied += n
    return n

# ---------------------------------------------------------------- replacing the log


cdef bint all_durable(Log *source) noexcept nogil:
    cdef bint durable
    pthread_mutex_lock(&source.lock)
    durable = load_i64(&source.wal.durable_frame) >= source.staged_frame
    if durable:
        store_i64(&source.durable_end_offset, source.log_end_offset)
    pthread_mutex_unlock(&source.lock)
    return durable


cdef int source_durable(Log *source, bint alone) noexcept nogil:
    cdef int i
    if source.wal == NULL:
        return not alone or load_i64(&source.high_watermark) == source.log_end_offset
    wal_kick(source.wal)
    for i in range(DURABLE_LOOKS):
        if load_i32(&source.wal.failed):
            return -load_i32(&source.wal.failed)
        if all_durable(source):
            if alone:
                log_advance_high_watermark(source, source.log_end_offset)
            return 1
        usleep(DURABLE_LOOK_US)
    return 0


cdef bint producers_copy(Producers *to, const Producers *of) noexcept nogil:
    """Copies producer state, without the list of snapshots. False when memory ran out."""
    cdef Producer *producer
    cdef uint32_t i
    cdef int32_t k
    producers_clear(to)
    for i in range(of.mask + 1 if of.table != NULL else 0):
        if of.table[i] != NULL:
            producer = find_or_add(to, of.table[i].producer_id)
            if producer == NULL:
                return False
            producer[0] = of.table[i][0]
    for k in range(of.ongoing.count):
        if not transaction_add(&to.ongoing, &of.ongoing.items[k]):
            return False
    for k in range(of.unreplicated.count):
        if not transaction_add(&to.unreplicated, &of.unreplicated.items[k]):
            return False
    to.end_offset = of.end_offset
    return verifications_copy(to, of)


cdef bint future_join_wal(Log *source, Log *target, Wal *wal) noexcept nogil:
    cdef bint joined = False
    pthread_mutex_lock(&target.lock)
    if state_of(target).recovery_point >= target.log_end_offset:
        memcpy(target.topic_id, source.topic_id, 16)
        target.partition = source.partition
        target.staged_frame = 0
        target.moves = min(source.moves + 1, MOVES_MAX)
        store_i64(&target.durable_end_offset, target.log_end_offset)
        target.wal = wal
        joined = True
    pthread_mutex_unlock(&target.lock)
    return joined


cdef void future_leave_wal(Log *target) noexcept nogil:
    pthread_mutex_lock(&target.lock)
    if target.wal != NULL and target.staged_frame != 0 \
            and wal_stage(target.wal, target.topic_id, target.partition, target.moves, WAL_LEFT, 0, NULL, NULL, 0) < 0:
        log_fail(target, -ENOMEM, b"leaving a write-ahead log")     # the move ends, and starts again with the next start
    target.wal = NULL
    pthread_mutex_unlock(&target.lock)


cdef int future_take_over(Log *source, Log *target) noexcept nogil:
    cdef LogState *old = state_of(source)
    cdef LogState *new = state_of(target)
    cdef int error = 0
    pthread_mutex_lock(&source.lock)
    pthread_mutex_lock(&target.lock)                     # no other code holds the locks of two logs
    if target.log_end_offset != source.log_end_offset or target.failed or new.closed:
        error = -EIO
    elif not producers_copy(&new.producers, &old.producers) or not epochs_copy(&new.epochs, &old.epochs):
        error = -ENOMEM
        log_fail(target, error, b"replacing a partition's log by its future replica")
    else:
        store_i32(&target.leader_epoch, epochs_newest(&new.epochs))
        if source.log_start_offset > target.log_start_offset:
            store_i64(&target.log_start_offset, source.log_start_offset)
            epochs_truncate_start(&new.epochs, source.log_start_offset)
        store_i64(&target.high_watermark, source.high_watermark)
        # Makes readers' cursors into the source invalid in the target.
        store_i64(&target.truncations, source.truncations + 1)
        # What waited for the source's frames makes nothing durable that the target is still waiting for.
        store_i64(&target.cuts, source.cuts + 1)
        target.cut_offset = target.durable_end_offset
        target.cut_frame = target.staged_frame
        new.limit_offset = -1
        store_i64(&target.appended_batches, source.appended_batches)
        store_i64(&target.appended_records, source.appended_records)
        store_i64(&target.appended_bytes, source.appended_bytes)
        log_update_last_stable(target)
        source.wal = NULL
        old.moved = True
    pthread_mutex_unlock(&target.lock)
    pthread_mutex_unlock(&source.lock)
    return error


cdef class FutureReplica:
    """Copies one log into another, which must be empty or have the first batches of the source. What the source truncates
    from now on is truncated in the target, too.

    Args:
        source: The log to copy; it still accepts appends.
        target: The copy, opened with a log start offset at which a batch of the source begins.
    """

    def __cinit__(self, PartitionLog source not None, PartitionLog target not None):
        memset(&self.copier, 0, sizeof(Copier))
        self.source = source
        self.target = target
        self.copier.source = source.log
        self.copier.target = target.log
        cursor_forget(&self.copier.cursor)
        lock_with_gil(source.log)
        store_i64(&source.log.lowest_cut, INT64_MAX)
        pthread_mutex_unlock(&source.log.lock)

    def __dealloc__(self):
        free(self.copier.buffer)

    def copy(self, int64_t max_bytes):
        """Copies up to ``max_bytes`` (at least one batch). Returns the bytes copied, 0 when nothing is left.

        Returns -1 when retention has deleted the next batch from the source: start again with an empty target.

        Raises:
            LogError: The source could not be read, or the target not written.
        """
        cdef int64_t n
        with nogil:
            n = future_copy_some(&self.copier, max_bytes)
        if n == COPY_LOST:
            return -1
        if n < 0:
            raise LogError(KAFKA_STORAGE_ERROR, self._failure(<int>n))
        return n

    def _failure(self, int error):
        stopped = f"copying {self.source.directory} to {self.target.directory} failed"
        if error == -EBADMSG:
            return (f"{stopped}: the batch at offset {self.target.log_end_offset} is corrupt. The partition can be "
                    "moved once retention or DeleteRecords has removed that batch")
        return f"{stopped} at offset {self.target.log_end_offset}: {os.strerror(-error)}"


def move_directory(PartitionLog log not None, path):
    """Renames a log's directory while the log is in use, and makes the new name durable.

    Raises:
        OSError: The file system refused. The log keeps its old path, unless only the sync failed.
    """
    cdef bytes name = str(path).encode("utf-8", "surrogateescape")
    cdef bytes parent = os.path.dirname(name)
    cdef const char *c_parent = parent
    cdef LogState *state = state_of(log.log)
    cdef char *copy = <char *>malloc(len(name) + 1)
    cdef char *old = NULL
    cdef int error
    if copy == NULL:
        raise MemoryError("no memory for a path")
    memcpy(copy, PyBytes_AS_STRING(name), len(name) + 1)
    with nogil:
        pthread_mutex_lock(&log.log.lock)                # files are opened by path under this lock
        error = active_write_out(state)                  # a staged tail is restored under the directory's name
        if error == 0:
            error = file_ops.rename(state.directory, copy)
        if error == 0:
            old = state.directory
            state.directory = copy
        pthread_mutex_unlock(&log.log.lock)
        if error == 0:
            free(old)
            error = sync_path(c_parent)
        else:
            free(copy)
    if error != 0:
        raise OSError(-error, os.strerror(-error), str(path))
