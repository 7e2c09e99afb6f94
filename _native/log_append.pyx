"""Appending to a log.

Batches are staged first: offset, producer check, roll, index entry, place in the iovec. What is staged goes
out with one pwritev, and only then does the log end move. State that staging has changed and a failed write
has not earned is either put back (sizes, indexes) or never written to disk, because a failed log takes no
snapshot and starts by recovery (producers, epochs).
"""
from libc.errno cimport EBADMSG, EIO, ENOENT
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memset
from bowstring._native.atomics cimport bump_i64, load_i32, store_i32, store_i64
from bowstring._native.batch cimport (
    ATTR_CONTROL, BATCH_HEADER_BYTES, BATCH_LENGTH, BATCH_LENGTH_PREFIX_BYTES, BatchInfo, batch_assign,
    batch_crc_ok, batch_parse, batch_stamp)
from bowstring._native.bigendian cimport load_be32
from bowstring._native.clock cimport monotonic_ns
from bowstring._native.log_aborted cimport aborted_append
from bowstring._native.log_checked cimport io_clock_advance
from bowstring._native.log_epochs cimport epochs_assign, epochs_newest, epochs_write
from bowstring._native.log_files cimport (
    file_ops, file_release, iovec, segment_file, segment_path, sync_path)
from bowstring._native.log_index cimport (
    indexes_full, indexes_truncate, offset_index_append, time_index_append)
from bowstring._native.log_producers cimport (
    CompletedTransaction, Marker, marker_check, marker_read, producer_check, producer_end_transaction,
    producer_update)
from bowstring._native.directory_health cimport directory_took
from bowstring._native.log_roll cimport (
    flush_first, log_fail, log_out_of_service, log_roll, log_settle_stable, log_time_to_roll, state_of)
from bowstring._native.log_segment cimport active_segment, segment_activate
from bowstring._native.log_types cimport (
    KAFKA_STORAGE_ERROR, RECORD_LIST_TOO_LARGE, LogState, RememberedBatch, Segment, SegmentFile,
    pthread_mutex_t)
from bowstring._native.wal_commit cimport wal_entry_max_bytes, wal_stage
from bowstring._native.wal_types cimport WAL_APPEND, WAL_FRAME_BYTES

cdef extern from "pthread.h" nogil:
    int pthread_mutex_lock(pthread_mutex_t *mutex)
    int pthread_mutex_unlock(pthread_mutex_t *mutex)

cdef enum:
    RESERVE_MIN_BYTES = 1 << 20     # a segment this large is worth reserving blocks for
    RESERVE_MAX_BYTES = 16 << 20
    STAGED_MAX = 256                # parts of one pwritev; the kernel takes 1,024
    WAL_PARTS = 64                  # batches of one entry of the write-ahead log

cdef struct Staged:
    # Batches that have their place in the active segment but are not written yet.
    int64_t next_offset             # after the last staged batch
    int64_t position                # where the first staged byte goes
    int64_t size_bytes
    int32_t first                   # entries[first:end) are staged, refused, or duplicates
    int32_t parts_count
    iovec[256] parts

# ---------------------------------------------------------------- writing


cdef int write_parts(int fd, Staged *staged, int64_t *written) noexcept nogil:
    """All of it, going on after a short write; *written is what reached the file in any case."""
    cdef iovec *part = staged.parts
    cdef int left = staged.parts_count
    cdef int64_t n
    written[0] = 0
    while written[0] < staged.size_bytes:
        n = file_ops.pwritev(fd, part, left, staged.position + written[0])
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


cdef void reserve_ahead(LogState *state, int fd, int64_t end) noexcept nogil:
    """Reserves blocks in steps, which spares ext4 a delayed allocation for every page (a quarter of the
    write's CPU time). The size of the file stays what was written. That it fails is no error: the write tells.
    """
    cdef int64_t step = end if end < RESERVE_MAX_BYTES else RESERVE_MAX_BYTES
    if end <= state.reserved_bytes or end < RESERVE_MIN_BYTES:
        return
    file_ops.reserve(fd, end, step)
    state.reserved_bytes = end + step


cdef void take_back(Log *log, Staged *staged, AppendEntry **entries, int32_t end, int64_t written) noexcept nogil:
    """The write failed: keeps the batches that are whole in the file, refuses the others."""
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
    for i in range(staged.first, end):                   # a repetition of what is not there is not there either
        if entries[i].duplicate and entries[i].base_offset >= staged.next_offset:
            entries[i].duplicate = False
            entries[i].error = KAFKA_STORAGE_ERROR
    staged.size_bytes = kept
    segment.size_bytes = staged.position + kept
    file = segment_file(state, segment, True, &error)
    if file != NULL:
        file_ops.truncate(file.fd, segment.size_bytes)   # if even that fails, recovery does it
        state.reserved_bytes = 0
        file_release(file)
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


cdef int sync_active(Log *log) noexcept nogil:
    """What the write-ahead log can't take is made durable where it is, and all of the segment before it with it."""
    cdef int error = 0
    cdef SegmentFile *file = segment_file(state_of(log), active_segment(state_of(log)), True, &error)
    if file != NULL:
        error = file_ops.sync(file.fd)
        file_release(file)
    return error


cdef int to_wal(Log *log, AppendEntry **entries, int32_t first, int32_t end) noexcept nogil:
    """Copies what was written of entries[first:end) into the write-ahead log, in pieces no larger than a frame."""
    cdef const uint8_t *parts[64]
    cdef int64_t[64] sizes
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
                if n > 0 and bytes + entry.info.size_bytes > WAL_FRAME_BYTES // 2:
                    break
                parts[n] = entry.data
                sizes[n] = entry.info.size_bytes
                bytes += entry.info.size_bytes
                n += 1
            i += 1
        frame = log.staged_frame
        if n > 0:
            frame = -1
            if bytes <= wal_entry_max_bytes(log.wal):
                frame = wal_stage(log.wal, log.topic_id, log.partition, WAL_APPEND,
                                  first_written(entries, start, i), parts, sizes, n)
            if frame > 0:
                log.staged_frame = frame
            elif sync_active(log) != 0:
                return -EIO
        for n in range(start, i):
            entries[n].wal_frame = frame if frame > 0 else 0
    return 0


cdef int64_t first_written(AppendEntry **entries, int32_t first, int32_t end) noexcept nogil:
    cdef int32_t i
    for i in range(first, end):
        if entries[i].error == 0 and not entries[i].duplicate:
            return entries[i].base_offset
    return -1


cdef void commit(Log *log, Staged *staged, AppendEntry **entries, int32_t end) noexcept nogil:
    """Writes what is staged of entries[first:end) and makes it part of the log."""
    cdef LogState *state = state_of(log)
    cdef int64_t written = 0
    cdef int64_t started_ns
    cdef int error = 0
    cdef SegmentFile *file
    if staged.parts_count > 0:
        file = segment_file(state, active_segment(state), True, &error)
        if file != NULL:
            reserve_ahead(state, file.fd, staged.position + staged.size_bytes)
            started_ns = monotonic_ns()
            error = write_parts(file.fd, staged, &written)
            directory_took(log.directory, monotonic_ns() - started_ns)
            active_segment(state).written_clock = io_clock_advance(written)
            file_release(file)
        if error == 0 and log.wal != NULL:
            error = to_wal(log, entries, staged.first, end)
        if error != 0:
            if log.wal != NULL:
                written = 0                              # part of it would not be durable
            take_back(log, staged, entries, end, written)
            log_fail(log, error, b"appending to the log")
        publish(log, staged, entries, end)
    elif log.wal != NULL:                                # duplicates alone: as durable as what they repeat
        to_wal(log, entries, staged.first, end)
    staged.first = end
    staged.parts_count = 0
    staged.size_bytes = 0
    staged.position = active_segment(state).size_bytes
    staged.next_offset = log.log_end_offset

# ---------------------------------------------------------------- staging


cdef bint must_roll(Log *log, const BatchInfo *info, int64_t now_ms) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef Segment *segment = active_segment(state)
    return (segment.size_bytes > log.config.segment_bytes - info.size_bytes
            or log_time_to_roll(log, info.max_timestamp, now_ms)
            or indexes_full(state, log.config.segment_index_bytes)
            or info.base_offset + info.last_offset_delta - segment.base_offset > INT32_MAX)


cdef int enter(Log *log, const BatchInfo *info) noexcept nogil:
    """The segment's size, timestamps and indexes as they are with this batch (Kafka's LogSegment.append)."""
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
    """Neighbours in memory become one part."""
    cdef iovec *last = &staged.parts[staged.parts_count - 1]
    if staged.parts_count > 0 and <uint8_t *>last.iov_base + last.iov_len == data:
        last.iov_len += size_bytes
    else:
        staged.parts[staged.parts_count].iov_base = data
        staged.parts[staged.parts_count].iov_len = <size_t>size_bytes
        staged.parts_count += 1
    staged.size_bytes += size_bytes


cdef bint refused(Log *log, AppendEntry *entry, bint is_marker, const Marker *marker) noexcept nogil:
    """Sets the entry's outcome when it does not go into the log: an error, or a duplicate's first offset."""
    cdef LogState *state = state_of(log)
    cdef const RememberedBatch *duplicate = NULL
    if entry.info.size_bytes > log.config.segment_bytes:
        entry.error = RECORD_LIST_TOO_LARGE
    elif state.replaying:
        return False                                     # it was admitted when it came
    elif is_marker:
        entry.error = marker_check(&state.producers, &entry.info, marker)
    elif entry.info.producer_id >= 0:
        entry.error = producer_check(&state.producers, &entry.info, &duplicate)
        if duplicate != NULL:
            entry.duplicate = True
            entry.base_offset = duplicate.last_offset - duplicate.offset_delta
            entry.log_append_time_ms = duplicate.timestamp
    return entry.error != 0 or entry.duplicate


cdef bint follows(const Log *log, const Staged *staged, const AppendEntry *entry) noexcept nogil:
    """Whether a batch that keeps its offsets can come next; compaction leaves gaps, but none this wide."""
    return (entry.info.base_offset >= staged.next_offset
            and entry.info.base_offset + entry.info.last_offset_delta - log.log_end_offset <= INT32_MAX)


cdef void stamp(AppendEntry *entry, int64_t now_ms) noexcept nogil:
    batch_stamp(entry.data, entry.info.size_bytes, now_ms)
    entry.info.max_timestamp = entry.log_append_time_ms = now_ms


cdef bint stage(Log *log, Staged *staged, AppendEntry **entries, int32_t i, int32_t leader_epoch,
                int64_t now_ms) noexcept nogil:
    """Gives entries[i] its place; False when the log has failed and the rest must be refused."""
    cdef LogState *state = state_of(log)
    cdef AppendEntry *entry = entries[i]
    cdef Marker marker
    cdef CompletedTransaction done
    cdef int error
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
        if not log.failed and log_roll(log, now_ms) == 0:
            staged.position = 0
    if log.failed:
        entry.error = KAFKA_STORAGE_ERROR
        return False
    if leader_epoch > epochs_newest(&state.epochs) and epochs_assign(&state.epochs, leader_epoch, entry.base_offset):
        store_i32(&log.leader_epoch, leader_epoch)
    batch_assign(entry.data, entry.base_offset, leader_epoch)
    if is_marker:
        producer_end_transaction(&state.producers, &entry.info, &marker, &done)
    elif entry.info.producer_id >= 0 and not entry.info.attributes & ATTR_CONTROL:
        producer_update(&state.producers, &entry.info)
    push(staged, entry.data, entry.info.size_bytes)
    error = enter(log, &entry.info)
    if error != 0:
        log_fail(log, error, b"writing an index")        # the batch itself may still be written
    staged.next_offset = entry.base_offset + entry.info.last_offset_delta + 1
    if done.first_offset >= 0 and done.aborted:
        commit(log, staged, entries, i + 1)
        error = aborted_append(state, active_segment(state), &done) if entry.error == 0 else 0
        if error != 0:
            log_fail(log, error, b"writing a transaction index")
    return not log.failed


cdef int sync_file(const LogState *state, int64_t base_offset, const char *suffix) noexcept nogil:
    cdef char[4096] path
    cdef int error = sync_path(segment_path(path, state, base_offset, suffix))
    return 0 if error == -ENOENT else error              # not every segment has every file


cdef int sync_segments(LogState *state, int32_t first) noexcept nogil:
    """Batches, the indexes of segments that recovery will not look at, and their names."""
    cdef SegmentFile *file
    cdef int64_t newest = active_segment(state).base_offset
    cdef int32_t i
    cdef int error = epochs_write(state, True)
    for i in range(first if first > 0 else 0, state.segment_count):
        file = segment_file(state, state.segments[i], i == state.segment_count - 1, &error) if error == 0 else NULL
        if file != NULL:
            error = file_ops.sync(file.fd)
            file_release(file)
        if error == 0 and i < state.segment_count - 1:
            error = sync_file(state, state.segments[i].base_offset, b".index")
            if error == 0:
                error = sync_file(state, state.segments[i].base_offset, b".timeindex")
        if error == 0 and state.segments[i].has_aborted:
            error = sync_file(state, state.segments[i].base_offset, b".txnindex")
    if error == 0 and (state.synced_segment < newest or active_segment(state).has_aborted):
        error = sync_file(state, newest, b".snapshot")
        if error == 0:
            error = sync_path(state.directory)
        if error == 0:
            state.synced_segment = newest
    return error


cdef bint flush_by_count(Log *log) noexcept nogil:
    """flush.messages: like Kafka, inside the append. False when what was appended is not on the medium."""
    cdef LogState *state = state_of(log)
    cdef int error
    if log.log_end_offset - state.recovery_point < log.config.flush_messages:
        return True
    error = sync_segments(state, flush_first(state))
    if error != 0:
        log_fail(log, error, b"flushing the log")
        return False
    state.recovery_point = log.log_end_offset
    return True


cdef void begin(Log *log, Staged *staged) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef int error
    if log.wal != NULL and load_i32(&log.wal.failed):
        log_fail(log, -load_i32(&log.wal.failed), b"writing the write-ahead log")
    if not log_out_of_service(log) and not state.closed and not state.activated:
        error = segment_activate(state)
        if error != 0:
            log_fail(log, error, b"opening the active segment")
    staged.first = staged.parts_count = 0
    staged.size_bytes = 0
    staged.position = active_segment(state).size_bytes
    staged.next_offset = log.log_end_offset


cdef int append_replayed(Log *log, uint8_t *data, int64_t size_bytes, int64_t now_ms, Replayed *done) noexcept nogil:
    """Puts back batches that already have their offsets, but for those that are there; a negated errno."""
    cdef LogState *state = state_of(log)
    cdef Staged staged
    cdef AppendEntry entry
    cdef AppendEntry *entries = &entry
    cdef int64_t at = 0, batch_bytes, end_offset
    pthread_mutex_lock(&log.lock)
    begin(log, &staged)
    state.replaying = True
    while at < size_bytes and not log.failed:
        memset(&entry, 0, sizeof(AppendEntry))
        batch_bytes = 0
        if size_bytes - at >= BATCH_HEADER_BYTES:
            batch_bytes = <int64_t>load_be32(data + at + BATCH_LENGTH) + BATCH_LENGTH_PREFIX_BYTES
        if (batch_bytes > size_bytes - at or batch_parse(data + at, batch_bytes, &entry.info) != 0
                or not batch_crc_ok(data + at, batch_bytes)):
            state.replaying = False
            pthread_mutex_unlock(&log.lock)
            return -EBADMSG
        entry.data = data + at
        at += entry.info.size_bytes
        end_offset = entry.info.base_offset + entry.info.last_offset_delta + 1
        if end_offset <= log.log_end_offset:
            done.skipped_batches += 1
            continue
        if entry.info.base_offset > log.log_end_offset and done.gap_from < 0:
            done.gap_from = log.log_end_offset
            done.gap_to = entry.info.base_offset
        staged.next_offset = entry.info.base_offset
        staged.first = 0
        stage(log, &staged, &entries, 0, entry.info.leader_epoch, now_ms)
        commit(log, &staged, &entries, 1)
        done.batches += entry.error == 0
        done.bytes += entry.info.size_bytes if entry.error == 0 else 0
    state.replaying = False
    log_settle_stable(log)
    pthread_mutex_unlock(&log.lock)
    return -state.failed_errno if log.failed else 0


cdef void append_entries(Log *log, AppendEntry **entries, int32_t n, int32_t leader_epoch,
                         int64_t now_ms) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef Staged staged
    cdef int32_t i
    for i in range(n):
        entries[i].error = 0
        entries[i].duplicate = 0
        entries[i].base_offset = -1
        entries[i].log_append_time_ms = -1
        entries[i].wal_frame = 0
    pthread_mutex_lock(&log.lock)
    begin(log, &staged)
    i = 0
    if not log_out_of_service(log) and not (state.closed or state.deleting or state.moved):
        while i < n:
            i += 1
            if not stage(log, &staged, entries, i - 1, leader_epoch, now_ms):
                break
        commit(log, &staged, entries, i)
        log_settle_stable(log)
        if log.config.flush_messages < INT64_MAX and not log.failed and not flush_by_count(log):
            i = 0                                        # they are in the log, but nobody may count on it
    while i < n:
        entries[i].error = KAFKA_STORAGE_ERROR
        i += 1
    pthread_mutex_unlock(&log.lock)
