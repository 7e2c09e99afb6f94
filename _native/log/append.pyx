"""Appending to a log.

Batches are staged first: offset, producer check, roll, index entry, slot in the iovec. One pwritev writes all staged
batches, and only then the log end moves. When a write fails, sizes and indexes are restored. Producers and epochs are
not: a failed log writes no snapshot and starts with recovery, so their changes never reach the disk.

Contents: writing (commit) · staging (stage) · log_append, which goes through both.
"""
from libc.errno cimport EIO, ENOMEM
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t
from bowstring._native.base.atomics cimport bump_i64, load_i32, store_i32, store_i64
from bowstring._native.base.clock cimport monotonic_ns
from bowstring._native.base.error_codes cimport KAFKA_STORAGE_ERROR, RECORD_LIST_TOO_LARGE
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.disk.file_ops cimport file_ops, iovec, is_full
from bowstring._native.disk.directory_health cimport directory_tell, directory_took, may_pass
from bowstring._native.disk.staged_tail cimport tail_append, tail_truncate, tail_write_out
from bowstring._native.disk.tail_pool cimport TailPool
from bowstring._native.log.flush cimport log_flush_by_count
from bowstring._native.log.index cimport indexes_truncate, offset_index_append, time_index_append
from bowstring._native.log.leader_epochs cimport epochs_assign, epochs_newest
from bowstring._native.log.producer_state cimport (
    CompletedTransaction, Marker, marker_check, marker_read, producer_check, producer_end_transaction,
    producer_update, producer_verify)
from bowstring._native.log.roll cimport log_roll, must_roll
from bowstring._native.log.segment cimport active_segment, segment_activate
from bowstring._native.log.segment_files cimport segment_file, segment_file_release
from bowstring._native.log.state cimport log_fail, log_fail_for_good, log_update_last_stable, log_writable
from bowstring._native.log.transaction_index cimport aborted_open, aborted_write
from bowstring._native.log.types cimport LogState, RememberedBatch, Segment, SegmentFile, log_out_of_service, state_of
from bowstring._native.log.verification cimport verification_done
from bowstring._native.log.verified_ranges cimport io_clock_advance
from bowstring._native.log.write_behind cimport write_behind
from bowstring._native.record.batch cimport ATTR_CONTROL, BatchInfo, batch_assign, batch_stamp
from bowstring._native.wal.group_commit cimport wal_entry_max_bytes, wal_spare, wal_stage, wal_stage_parts
from bowstring._native.wal.types cimport WAL_APPEND

cdef enum:
    RESERVE_MIN_BYTES = 1 << 20     # in smaller segments reserving blocks does not pay
    RESERVE_MAX_BYTES = 16 << 20
    WAL_PARTS = 64                  # batches of one entry of the write-ahead log

# ---------------------------------------------------------------- writing


cdef TailPool *pool_of(const Log *log) noexcept nogil:
    """Returns the pool of the log's mode; NULL: its tail is not staged."""
    if log.directory == NULL:
        return NULL
    return log.directory.tails if log.wal == NULL else log.directory.wal_tails


cdef TailPool *pool_for(Log *log, int64_t end) noexcept nogil:
    """Returns where a batch that ends at this position may be staged; NULL: it goes to the file."""
    cdef LogState *state = state_of(log)
    cdef TailPool *pool = pool_of(log)
    if pool == NULL or end < pool.from_bytes:
        return NULL
    # Only where blocks are reserved: then no full disk can refuse later what was acknowledged.
    return pool if end <= state.reserved_bytes and not state.reserve_failed else NULL


cdef bint made_room(Log *log, int fd, int64_t end) noexcept nogil:
    """For a full disk: frees reserved blocks and spare segments of the write-ahead log. Returns whether it freed any."""
    cdef LogState *state = state_of(log)
    cdef bint made = False
    if state.reserved_bytes > end:
        file_ops.truncate(fd, end)
        state.reserved_bytes = 0
        made = True
    return (log.wal != NULL and wal_spare(log.wal) > 0) or made


cdef int write_parts(Log *log, int fd, Staged *staged, int64_t *written) noexcept nogil:
    """Writes all parts and continues after a short write. Sets *written to the bytes in the file, also on an error."""
    cdef iovec *part = staged.parts
    cdef int left = staged.parts_count
    cdef int64_t n
    written[0] = 0
    while written[0] < staged.size_bytes:
        n = file_ops.pwritev(fd, part, left, staged.position + written[0])
        if is_full(n) and made_room(log, fd, staged.position + written[0]):
            continue
        if n <= 0:
            return <int>n if n < 0 else -EIO
        written[0] += n
        while left > 0 and n >= <int64_t>part.iov_len:
            n -= part.iov_len
            part += 1
            left -= 1
        if left > 0:
            part.iov_base = <uint8_t *>part.iov_base + n
            part.iov_len -= n
    return 0


cdef void reserve_ahead(Log *log, int fd, int64_t position, int64_t end) noexcept nogil:
    """Reserves blocks in steps, so that ext4 need not allocate each page later (a quarter of the write's CPU
    time). The file's size does not change. Errors are ignored: the write itself reports them, and nothing is staged.

    The blocks of the batches from `position` to `end` are included, because these may be staged.
    """
    cdef LogState *state = state_of(log)
    cdef int64_t step = end if end < RESERVE_MAX_BYTES else RESERVE_MAX_BYTES
    cdef int64_t least = RESERVE_MIN_BYTES
    cdef TailPool *pool = pool_of(log)
    if pool != NULL and pool.from_bytes < least:
        least = pool.from_bytes
    if end <= state.reserved_bytes or end < least:
        return
    state.reserve_failed = file_ops.reserve(fd, position, end - position + step) != 0
    state.reserved_bytes = end + step


cdef int write_staged(Log *log, SegmentFile *file, Staged *staged, int64_t *written) noexcept nogil:
    """Appends all parts to the tail or to the file. Sets *written to the bytes that are there, also on an error."""
    cdef LogState *state = state_of(log)
    cdef int64_t end = staged.position + staged.size_bytes
    cdef int found
    written[0] = 0
    found = tail_append(&file.tail, pool_for(log, end), staged.parts, staged.parts_count, staged.size_bytes,
                        staged.position, state.directory, active_segment(state).base_offset)
    if is_full(found) and log.wal != NULL and wal_spare(log.wal) > 0:
        found = tail_write_out(&file.tail)
    if found == 0:
        return write_parts(log, file.fd, staged, written)
    if found > 0:
        written[0] = staged.size_bytes
    return found if found < 0 else 0


cdef void take_back(Log *log, Staged *staged, AppendEntry **entries, int32_t end, int64_t written) noexcept nogil:
    """After a failed write: keeps the batches that are complete in the file, refuses the others."""
    cdef LogState *state = state_of(log)
    cdef Segment *segment = active_segment(state)
    cdef int64_t kept = 0
    cdef int32_t i
    cdef AppendEntry *entry
    cdef int error = 0
    cdef SegmentFile *file
    staged.next_offset = log.log_end_offset
    for i in range(staged.first, end):
        entry = entries[i]
        if entry.error != 0 or entry.duplicate:
            continue
        if kept + entry.info.size_bytes <= written:
            kept += entry.info.size_bytes
            staged.next_offset = entry.base_offset + entry.info.last_offset_delta + 1
        else:
            written = kept
            entry.error = KAFKA_STORAGE_ERROR
    for i in range(staged.first, end):                   # the batch that it repeats was not written
        if entries[i].duplicate and entries[i].base_offset >= staged.next_offset:
            entries[i].duplicate = False
            entries[i].error = KAFKA_STORAGE_ERROR
    staged.size_bytes = kept
    segment.size_bytes = staged.position + kept
    file = segment_file(state, segment, True, &error)
    if file != NULL:
        tail_truncate(&file.tail, segment.size_bytes)    # if that fails, too, recovery truncates
        state.reserved_bytes = 0
        segment_file_release(file)
    indexes_truncate(state, staged.next_offset)


cdef void publish(Log *log, Staged *staged, AppendEntry **entries, int32_t end) noexcept nogil:
    cdef int32_t i
    cdef int64_t batches = 0, records = 0
    for i in range(staged.first, end):
        if entries[i].error == 0 and not entries[i].duplicate:
            batches += 1
            records += entries[i].info.record_count
    state_of(log).producers.end_offset = staged.next_offset
    bump_i64(&log.appended_batches, batches)
    bump_i64(&log.appended_records, records)
    bump_i64(&log.appended_bytes, staged.size_bytes)
    store_i64(&log.size_bytes, log.size_bytes + staged.size_bytes)
    store_i64(&log.log_end_offset, staged.next_offset)


cdef int to_wal(Log *log, AppendEntry **entries, int32_t first, int32_t end) noexcept nogil:
    """Stages the written batches of entries[first:end) in the write-ahead log. Returns 0 or a negated errno."""
    cdef const uint8_t *parts[WAL_PARTS]
    cdef int64_t[WAL_PARTS] sizes
    cdef int64_t bytes, frame
    cdef int32_t i, n, start
    cdef AppendEntry *entry
    i = first
    while i < end:
        start = i
        n = 0
        bytes = 0
        while i < end and n < WAL_PARTS:
            entry = entries[i]
            if entry.error == 0 and not entry.duplicate:
                if n > 0 and bytes + entry.info.size_bytes > log.wal.frame_bytes // 2:
                    break
                parts[n] = entry.data
                sizes[n] = entry.info.size_bytes
                bytes += entry.info.size_bytes
                n += 1
            i += 1
        if n > 0:
            frame = stage_in_wal(log, first_written(entries, start, i), parts, sizes, n, bytes)
            if frame < 0:
                return -ENOMEM
            log.staged_frame = frame
        for n in range(start, i):
            entries[n].wal_frame = log.staged_frame
    return 0


cdef int64_t stage_in_wal(Log *log, int64_t offset, const uint8_t **parts, const int64_t *sizes, int32_t n,
                          int64_t bytes) noexcept nogil:
    if bytes > wal_entry_max_bytes(log.wal):             # only a single batch can be so large
        return wal_stage_parts(log.wal, log.topic_id, log.partition, log.moves, offset, parts[0], bytes)
    return wal_stage(log.wal, log.topic_id, log.partition, log.moves, WAL_APPEND, offset, parts, sizes, n)


cdef int64_t first_written(AppendEntry **entries, int32_t first, int32_t end) noexcept nogil:
    cdef int32_t i
    for i in range(first, end):
        if entries[i].error == 0 and not entries[i].duplicate:
            return entries[i].base_offset
    return -1


cdef void refuse_all(AppendEntry **entries, int32_t first, int32_t end) noexcept nogil:
    cdef int32_t i
    for i in range(first, end):
        entries[i].error = KAFKA_STORAGE_ERROR


cdef void commit(Log *log, Staged *staged, AppendEntry **entries, int32_t end) noexcept nogil:
    """Writes the staged batches of entries[first:end) and makes them part of the log."""
    cdef LogState *state = state_of(log)
    cdef int64_t written = 0
    cdef int64_t started_ns
    cdef int error = 0
    cdef SegmentFile *file
    if staged.parts_count > 0:
        file = segment_file(state, active_segment(state), True, &error)
        if file != NULL:
            reserve_ahead(log, file.fd, staged.position, staged.position + staged.size_bytes)
            started_ns = monotonic_ns()
            error = write_staged(log, file, staged, &written)
            directory_took(log.directory, monotonic_ns() - started_ns)
            active_segment(state).written_clock = io_clock_advance(written)
            if error == 0 and not state.replaying:
                write_behind(log, file, staged.position + staged.size_bytes, staged.followed)
            segment_file_release(file)
        if error == 0 and log.wal != NULL:
            error = to_wal(log, entries, staged.first, end)
        if error != 0:
            if log.wal != NULL:
                written = 0                              # part of it would not be durable
            take_back(log, staged, entries, end, written)
            log_fail(log, error, b"appending to the log")
        publish(log, staged, entries, end)
    elif log.wal != NULL and to_wal(log, entries, staged.first, end) != 0:
        refuse_all(entries, staged.first, end)           # duplicates, as durable as the batches they repeat
    staged.first = end
    staged.parts_count = 0
    staged.size_bytes = 0
    staged.position = active_segment(state).size_bytes
    staged.next_offset = log.log_end_offset

# ---------------------------------------------------------------- staging


cdef int enter(Log *log, const BatchInfo *info) noexcept nogil:
    """Updates the segment's size, timestamps and indexes for this batch (Kafka's LogSegment.append)."""
    cdef LogState *state = state_of(log)
    cdef Segment *segment = active_segment(state)
    cdef int64_t last_offset = info.base_offset + info.last_offset_delta
    cdef int error = 0
    if segment.size_bytes == 0:
        segment.first_timestamp = info.max_timestamp
    if info.max_timestamp > segment.largest_timestamp:
        segment.largest_timestamp = info.max_timestamp
        segment.largest_timestamp_offset = last_offset
    if state.bytes_since_index > log.config.index_interval_bytes:
        error = offset_index_append(state, last_offset, segment.size_bytes)
        if error == 0:
            error = time_index_append(state, segment.largest_timestamp, segment.largest_timestamp_offset)
        state.bytes_since_index = 0
    state.bytes_since_index += info.size_bytes
    segment.size_bytes += info.size_bytes
    return error


cdef void push(Staged *staged, uint8_t *data, int64_t size_bytes) noexcept nogil:
    """Adds a part; parts that are adjacent in memory become one."""
    cdef iovec *last = &staged.parts[staged.parts_count - 1]
    if staged.parts_count > 0 and <uint8_t *>last.iov_base + last.iov_len == data:
        last.iov_len += size_bytes
    else:
        staged.parts[staged.parts_count].iov_base = data
        staged.parts[staged.parts_count].iov_len = <size_t>size_bytes
        staged.parts_count += 1
    staged.size_bytes += size_bytes


cdef bint refused(Log *log, AppendEntry *entry, bint is_marker, const Marker *marker) noexcept nogil:
    """Returns whether the batch is not appended; then sets the entry's error, or a duplicate's first offset."""
    cdef LogState *state = state_of(log)
    cdef const RememberedBatch *duplicate = NULL
    if state.replaying:
        return False                                     # it was checked when it was produced, with the settings of that time
    if entry.info.size_bytes > log.config.segment_bytes:
        entry.error = RECORD_LIST_TOO_LARGE
    elif is_marker:
        entry.error = marker_check(&state.producers, &entry.info, marker, entry.transaction_version)
    elif entry.info.producer_id >= 0:
        entry.error = producer_check(&state.producers, &entry.info, entry.verification, &duplicate)
        if duplicate != NULL:
            entry.duplicate = True
            entry.base_offset = duplicate.last_offset - duplicate.offset_delta
            entry.log_append_time_ms = duplicate.timestamp
    return entry.error != 0 or entry.duplicate


cdef bint follows(const Log *log, const Staged *staged, const AppendEntry *entry) noexcept nogil:
    """Whether a batch with assigned offsets may follow. Compaction leaves gaps, but none wider than INT32_MAX."""
    return (entry.info.base_offset >= staged.next_offset
            and entry.info.base_offset + entry.info.last_offset_delta - log.log_end_offset <= INT32_MAX)


cdef void stamp(AppendEntry *entry, int64_t now_ms) noexcept nogil:
    batch_stamp(entry.data, entry.info.size_bytes, now_ms)
    entry.info.max_timestamp = entry.log_append_time_ms = now_ms


cdef void unable(Log *log, int error, const char *doing) noexcept nogil:
    """Fails the log after an error before which nothing was changed, unless the error may pass: then the next append tries
    again, and the control thread is notified (heal.pyx)."""
    cdef LogState *state = state_of(log)
    if error >= 0:
        return
    if state.replaying or not may_pass(error):
        log_fail(log, error, doing)
    elif not state.refuses:
        state.refuses = 1
        if log.directory != NULL:
            directory_tell(log.directory)


cdef int open_active(LogState *state) noexcept nogil:
    """Opens the active segment's file before anything is changed for a batch."""
    cdef int error = 0
    cdef SegmentFile *file
    if active_segment(state).file == NULL:
        file = segment_file(state, active_segment(state), True, &error)
        if file != NULL:
            segment_file_release(file)
    return error


cdef bint rolled(Log *log, Staged *staged, int64_t now_ms) noexcept nogil:
    cdef int error = log_roll(log, now_ms)
    unable(log, error, b"rolling a segment")
    if error == 0:
        staged.position = 0
        error = open_active(state_of(log))
        unable(log, error, b"opening the active segment")
    return error == 0


cdef bint enter_state(Log *log, const Staged *staged, AppendEntry *entry, int32_t leader_epoch, bint is_marker,
                      const Marker *marker, CompletedTransaction *done) noexcept nogil:
    """Updates epochs and producers for a batch. False when memory has run out: they are then rebuilt (heal.pyx)."""
    cdef LogState *state = state_of(log)
    cdef bint fits = True
    if leader_epoch > epochs_newest(&state.epochs):
        fits = epochs_assign(&state.epochs, leader_epoch, entry.base_offset)
        if fits:
            store_i32(&log.leader_epoch, leader_epoch)
    if fits and is_marker:
        fits = producer_end_transaction(&state.producers, &entry.info, marker,
                                        not staged.followed and entry.transaction_version >= 2, done)
    elif fits and entry.info.producer_id >= 0 and not entry.info.attributes & ATTR_CONTROL:
        fits = producer_update(&state.producers, &entry.info)
    if not fits:
        log_fail(log, -ENOMEM, b"remembering producers and epochs")
    return fits


cdef void note_aborted(Log *log, Staged *staged, AppendEntry **entries, int32_t i, int fd,
                       const CompletedTransaction *done) noexcept nogil:
    """Writes the marker entries[i], then its entry of the transaction index, whose file is open."""
    cdef int error = 0
    if done.first_offset < 0:
        file_ops.close(fd)
        return
    commit(log, staged, entries, i + 1)
    if entries[i].error == 0:
        error = aborted_write(active_segment(state_of(log)), fd, done)
    else:
        file_ops.close(fd)
    if error != 0:                                       # the marker is in the log: only recovery adds what is missing
        log_fail_for_good(log, error, b"writing a transaction index")


cdef bint stage(Log *log, Staged *staged, AppendEntry **entries, int32_t i, int32_t leader_epoch,
                int64_t now_ms) noexcept nogil:
    """Assigns entries[i] its offset and position; see the .pxd."""
    cdef LogState *state = state_of(log)
    cdef AppendEntry *entry = entries[i]
    cdef Marker marker
    cdef CompletedTransaction done
    cdef int aborted_fd = -1
    cdef bint is_marker = (entry.info.attributes & ATTR_CONTROL and entry.info.producer_id >= 0
                           and marker_read(entry.data, &entry.info, &marker))
    done.first_offset = -1
    if leader_epoch == AS_WRITTEN:
        if not follows(log, staged, entry):
            entry.error = KAFKA_STORAGE_ERROR
            return True
        leader_epoch = entry.info.leader_epoch
        entry.base_offset = entry.info.base_offset
    elif refused(log, entry, is_marker, &marker):
        return True
    else:
        entry.info.base_offset = entry.base_offset = staged.next_offset
        if log.config.log_append_time and not state.replaying:
            stamp(entry, now_ms)
    if staged.parts_count == STAGED_MAX:
        commit(log, staged, entries, i)
    if not log.failed and must_roll(log, &entry.info, now_ms):
        commit(log, staged, entries, i)
        if log.failed or not rolled(log, staged, now_ms):
            entry.error = KAFKA_STORAGE_ERROR
            return False
    if is_marker and marker.aborted:
        aborted_fd = aborted_open(state, active_segment(state))
        if aborted_fd < 0:
            unable(log, aborted_fd, b"opening a transaction index")
            entry.error = KAFKA_STORAGE_ERROR
            return False
    if log.failed or not enter_state(log, staged, entry, leader_epoch, is_marker, &marker, &done):
        if aborted_fd >= 0:
            file_ops.close(aborted_fd)
        entry.error = KAFKA_STORAGE_ERROR
        return False
    batch_assign(entry.data, entry.base_offset, leader_epoch)
    push(staged, entry.data, entry.info.size_bytes)
    unable(log, enter(log, &entry.info), b"writing an index")    # without an entry searches are slower; the batch may be written
    staged.next_offset = entry.base_offset + entry.info.last_offset_delta + 1
    if aborted_fd >= 0:
        note_aborted(log, staged, entries, i, aborted_fd, &done)
    return not log.failed


cdef int64_t log_verify(Log *log, const BatchInfo *info, bint adds, int64_t now_ms) noexcept nogil:
    cdef int64_t token
    pthread_mutex_lock(&log.lock)
    token = producer_verify(&state_of(log).producers, info, adds, now_ms)
    pthread_mutex_unlock(&log.lock)
    return token


cdef void log_verified(Log *log, int64_t producer_id, int64_t token) noexcept nogil:
    pthread_mutex_lock(&log.lock)
    verification_done(&state_of(log).producers, producer_id, token)
    pthread_mutex_unlock(&log.lock)


cdef bint begin(Log *log, Staged *staged) noexcept nogil:
    """Returns whether batches may be staged."""
    cdef LogState *state = state_of(log)
    cdef int error = 0
    if log.wal != NULL and load_i32(&log.wal.failed):
        log_fail_for_good(log, -load_i32(&log.wal.failed), b"writing the write-ahead log")
    if not log_out_of_service(log) and not state.closed:
        if not state.activated:
            error = segment_activate(state)
        if error == 0 and not (state.deleting or state.moved):
            error = open_active(state)
        unable(log, error, b"opening the active segment")
        if error == 0:
            state.refuses = 0
    staged.first = staged.parts_count = 0
    staged.followed = False
    staged.size_bytes = 0
    staged.position = active_segment(state).size_bytes
    staged.next_offset = log.log_end_offset
    return error == 0 and log_writable(log)


cdef void log_append(Log *log, AppendEntry **entries, int32_t n, int32_t leader_epoch,
                         int64_t now_ms) noexcept nogil:
    cdef Staged staged
    cdef int32_t i
    cdef bint begun
    for i in range(n):
        entries[i].error = 0
        entries[i].duplicate = 0
        entries[i].base_offset = -1
        entries[i].log_append_time_ms = -1
        entries[i].wal_frame = 0
    pthread_mutex_lock(&log.lock)
    begun = begin(log, &staged)
    staged.followed = leader_epoch == AS_WRITTEN
    i = 0
    if begun:
        while i < n:
            i += 1
            if not stage(log, &staged, entries, i - 1, leader_epoch, now_ms):
                break
        commit(log, &staged, entries, i)
        log_update_last_stable(log)
        if log.config.flush_messages < INT64_MAX and not log.failed and not log_flush_by_count(log):
            i = 0                                        # the batches are in the log but not durable: refuse them all
    while i < n:
        entries[i].error = KAFKA_STORAGE_ERROR
        i += 1
    pthread_mutex_unlock(&log.lock)
