"""Restores batches from the write-ahead log, see replay.pxd.

A log's files are trusted only below its recovery point. Data above it is written again first, because the page cache may
show bytes that a failed sync never wrote. Where files and write-ahead log differ, the write-ahead log is right: at its
first batch that the files lack or have differently, the log is truncated and continues with the write-ahead log's batches. So a
segment that survived a power loss cannot hide that the end of the segment before it was lost. Compaction also makes
gaps, but only below the recovery point (engine/storage/cleaner.py).
"""
from libc.errno cimport EBADMSG, EIO, ENOMEM
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memset
from bowstring._native.base.bigendian cimport load_be32
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.disk.file_ops cimport read_range, write_range
from bowstring._native.log.append cimport ENTRIES_TOGETHER, Staged, begin, commit, stage
from bowstring._native.log.partition_log cimport PartitionLog
from bowstring._native.log.retention cimport raise_start
from bowstring._native.log.segment cimport active_segment, last_offset_of, segment_floor, segment_locate
from bowstring._native.log.segment_files cimport segment_file, segment_file_release
from bowstring._native.log.state cimport log_fail, log_update_last_stable
from bowstring._native.log.truncate cimport log_truncate_to
from bowstring._native.log.types cimport AppendEntry, Log, LogState, Segment, SegmentFile, state_of
from bowstring._native.record.batch cimport (
    BATCH_HEADER_BYTES, BATCH_LENGTH, BATCH_LENGTH_PREFIX_BYTES, BatchInfo, batch_crc_ok, batch_parse)

cdef enum:
    REWRITE_BYTES = 1 << 20

cdef struct Replaying:
    Log *log
    Replayed *done
    int64_t now_ms
    Staged staged
    AppendEntry[ENTRIES_TOGETHER] entries
    AppendEntry *pointers[ENTRIES_TOGETHER]
    int32_t count                   # of entries that are staged

cdef enum Whereabouts:
    ABSENT                          # the log ends before it
    DURABLE                         # below the recovery point, or deleted since
    PRESENT
    OTHERWISE                       # the log has other data at these offsets, or a gap


cdef void replayed_init(Replayed *done) noexcept nogil:
    memset(done, 0, sizeof(Replayed))
    done.gap_from = done.cut_from = done.next_offset = -1


cdef void replayed_truncate(Replayed *done, int64_t offset) noexcept nogil:
    if done.gap_from >= offset:
        done.gap_from = -1
    if done.cut_from >= offset:
        done.cut_from = -1

# ---------------------------------------------------------------- finding a batch in the log


cdef bint same_header(const LogState *state, Segment *segment, int64_t position, const uint8_t *batch,
                      int *error) noexcept nogil:
    """Compares offsets, epoch, length and CRC; equal headers mean equal records."""
    cdef uint8_t[BATCH_HEADER_BYTES] header
    cdef int64_t n
    cdef SegmentFile *file = segment_file(state, segment, segment == active_segment(state), error)
    if file == NULL:
        return False
    n = read_range(file.fd, header, BATCH_HEADER_BYTES, position)
    segment_file_release(file)
    if n < 0:
        error[0] = <int>n
    return n == BATCH_HEADER_BYTES and memcmp(header, batch, BATCH_HEADER_BYTES) == 0


cdef Segment *expected_place(const Replaying *r, const BatchInfo *info, int64_t *position) noexcept nogil:
    """Returns the segment where the previous batch ended; NULL when this batch does not follow it."""
    cdef LogState *state = state_of(r.log)
    cdef int32_t i
    if r.done.next_offset != info.base_offset or r.done.truncations != r.log.truncations:
        return NULL
    i = segment_floor(state, info.base_offset)
    if i < 0 or state.segments[i].base_offset != r.done.next_segment:
        return NULL
    position[0] = r.done.next_position
    return state.segments[i] if position[0] + info.size_bytes <= state.segments[i].size_bytes else NULL


cdef Segment *find(const Replaying *r, const BatchInfo *info, const uint8_t *batch, int64_t *position,
                   int *error) noexcept nogil:
    """Returns the segment with exactly this batch, and sets *position; NULL when there is none."""
    cdef LogState *state = state_of(r.log)
    cdef Segment *segment = expected_place(r, info, position)
    cdef BatchInfo there
    cdef int found
    cdef int32_t i
    if segment == NULL:
        i = segment_floor(state, info.base_offset)
        if i < 0:
            return NULL
        segment = state.segments[i]
        found = segment_locate(state, segment, info.base_offset, segment.size_bytes, position, &there)
        if found < 0 and found != -EBADMSG:
            error[0] = found
        if found <= 0 or there.base_offset != info.base_offset or there.size_bytes != info.size_bytes:
            return NULL
    return segment if same_header(state, segment, position[0], batch, error) else NULL


cdef Whereabouts whereabouts(Replaying *r, const BatchInfo *info, const uint8_t *batch, Segment **segment,
                             int64_t *position, int *error) noexcept nogil:
    cdef Log *log = r.log
    cdef LogState *state = state_of(log)
    cdef int64_t end_offset = last_offset_of(info) + 1
    cdef int64_t point = state.recovery_point if state.recovery_point < log.log_end_offset else log.log_end_offset
    if end_offset <= point or end_offset <= log.log_start_offset or end_offset <= state.segments[0].base_offset:
        return DURABLE
    if info.base_offset >= log.log_end_offset:
        return ABSENT
    segment[0] = find(r, info, batch, position, error)
    return PRESENT if segment[0] != NULL else OTHERWISE

# ---------------------------------------------------------------- skipping, appending, truncating


cdef void remember(Replaying *r, Segment *segment, int64_t position, const BatchInfo *info) noexcept nogil:
    """Counts a batch that the log already has, and stores where it ends: the next one probably follows."""
    r.done.skipped_batches += 1
    r.done.next_offset = last_offset_of(info) + 1
    r.done.next_position = position + info.size_bytes
    r.done.next_segment = segment.base_offset
    r.done.truncations = r.log.truncations


cdef void append_all(Replaying *r) noexcept nogil:
    """Writes the staged batches."""
    cdef int32_t i
    commit(r.log, &r.staged, r.pointers, r.count)
    for i in range(r.count):
        if r.entries[i].error == 0:
            r.done.batches += 1
            r.done.bytes += r.entries[i].info.size_bytes
    r.count = 0
    r.staged.first = 0


cdef void append(Replaying *r, uint8_t *batch, const BatchInfo *info) noexcept nogil:
    cdef AppendEntry *entry
    if r.count == ENTRIES_TOGETHER or info.base_offset != r.staged.next_offset:
        append_all(r)
    if info.base_offset > r.log.log_end_offset and r.count == 0:
        # What a follower copied of a compacted log has its leader's gaps, also above the recovery point.
        if r.done.gap_from < 0 and not r.log.config.compacted:
            r.done.gap_from = r.log.log_end_offset
            r.done.gap_to = info.base_offset
        r.staged.next_offset = info.base_offset
    entry = &r.entries[r.count]
    memset(entry, 0, sizeof(AppendEntry))
    entry.data = batch
    entry.info = info[0]
    r.pointers[r.count] = entry
    r.count += 1
    stage(r.log, &r.staged, r.pointers, r.count - 1, info.leader_epoch, r.now_ms)


cdef int cut(Replaying *r, int64_t offset) noexcept nogil:
    """Truncates the log to `offset`, because its later data differs from the acknowledged batches. Releases the lock
    meanwhile."""
    cdef Log *log = r.log
    cdef int error
    if r.done.cut_from < 0:
        r.done.cut_from = offset
    state_of(log).replaying = False
    pthread_mutex_unlock(&log.lock)
    error = log_truncate_to(log, offset, r.now_ms)
    pthread_mutex_lock(&log.lock)
    state_of(log).replaying = True
    begin(log, &r.staged)
    return error


cdef int replay_batch(Replaying *r, uint8_t *batch, const BatchInfo *info) noexcept nogil:
    cdef Segment *segment = NULL
    cdef int64_t position = 0
    cdef int error = 0
    cdef Whereabouts place
    if r.count > 0 and info.base_offset >= r.staged.next_offset:
        append(r, batch, info)
        return 0
    append_all(r)
    place = whereabouts(r, info, batch, &segment, &position, &error)
    if error == 0 and place == DURABLE:
        r.done.skipped_batches += 1
    elif error == 0 and place == PRESENT:
        remember(r, segment, position, info)
    elif error == 0:
        if place == OTHERWISE:
            error = cut(r, info.base_offset)
        if error == 0:
            append(r, batch, info)
    return error


# ---------------------------------------------------------------- rewriting data that a failed sync never wrote


cdef int rewrite_segment(LogState *state, Segment *segment, int64_t position, uint8_t *buffer) noexcept nogil:
    cdef int error = 0
    cdef int64_t n = 0
    cdef SegmentFile *file = segment_file(state, segment, segment == active_segment(state), &error)
    if file == NULL:
        return error
    while position < segment.size_bytes and error == 0:
        n = segment.size_bytes - position
        n = read_range(file.fd, buffer, n if n < REWRITE_BYTES else REWRITE_BYTES, position)
        error = <int>n if n < 0 else (-EIO if n == 0 else write_range(file.fd, buffer, n, position))
        position += n
    segment_file_release(file)
    return error


cdef int rewrite_log(Log *log) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef uint8_t *buffer = <uint8_t *>malloc(REWRITE_BYTES)
    cdef Segment *segment
    cdef BatchInfo info
    cdef int64_t position
    cdef int32_t i, first = segment_floor(state, state.recovery_point)
    cdef int error = 0 if buffer != NULL else -ENOMEM
    pthread_mutex_lock(&log.lock)
    for i in range(first if first > 0 else 0, state.segment_count):
        segment = state.segments[i]
        position = 0
        if error == 0 and segment.base_offset < state.recovery_point:
            error = segment_locate(state, segment, state.recovery_point, segment.size_bytes, &position, &info)
            error = 0 if error >= 0 or error == -EBADMSG else error
        if error == 0:
            error = rewrite_segment(state, segment, position, buffer)
    if error != 0:
        log_fail(log, error, b"rewriting batches that were not synced")
    pthread_mutex_unlock(&log.lock)
    free(buffer)
    return error

# ---------------------------------------------------------------- the replay of one log


cdef int log_replay(Log *log, uint8_t *data, int64_t size_bytes, int64_t now_ms, Replayed *done) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef Replaying r
    cdef BatchInfo info
    cdef int64_t at = 0, batch_bytes, log_start
    cdef int error = 0
    r.log = log
    r.done = done
    r.now_ms = now_ms
    r.count = 0
    if not done.rewritten:
        error = rewrite_log(log)
        done.rewritten = True
    pthread_mutex_lock(&log.lock)
    log_start = log.log_start_offset
    state.replaying = True
    begin(log, &r.staged)
    while at < size_bytes and error == 0 and not log.failed:
        batch_bytes = 0
        if size_bytes - at >= BATCH_HEADER_BYTES:
            batch_bytes = <int64_t>load_be32(data + at + BATCH_LENGTH) + BATCH_LENGTH_PREFIX_BYTES
        if (batch_bytes > size_bytes - at or batch_parse(data + at, batch_bytes, &info) != 0
                or not batch_crc_ok(data + at, batch_bytes)):
            error = -EBADMSG
        else:
            error = replay_batch(&r, data + at, &info)
        at += batch_bytes
    append_all(&r)
    state.replaying = False
    if log.log_start_offset < log_start <= log.log_end_offset:
        raise_start(log, log_start)                      # deleted records stay deleted
    log_update_last_stable(log)
    pthread_mutex_unlock(&log.lock)
    return error if error != 0 else (-state.failed_errno if log.failed else 0)


def rewrite_unsynced(list logs not None):
    """Rewrites the data of PartitionLogs above their recovery points, so that the next sync writes it to the medium.

    After a failed sync the page cache shows unwritten data as clean, even to the next process: a second sync would write
    nothing.

    Args:
        logs: Logs that were just opened and are not mapped. A log that cannot be written is out of service afterwards.
    """
    cdef PartitionLog log
    for log in logs:
        if log.log.failed or state_of(log.log).recovery_point >= log.log.log_end_offset:
            continue
        with nogil:
            rewrite_log(log.log)
