"""Appends to the log of a follower, see follower_append.pxd.

Batches keep the offsets and leader epochs that the leader gave them. Each is checked: its CRC, that it follows the log
end, and that no newer leader wrote it than the one that is followed.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from bowstring._native.base.atomics cimport add_i64, load_i32, load_i64, store_i64
from bowstring._native.base.error_codes cimport CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR
from bowstring._native.log cimport (
    AS_WRITTEN, NOW, AppendEntry, log_advance_high_watermark, log_append, log_delete_records, log_durable_to)
from bowstring._native.record.batch cimport batch_crc_ok, batch_extent, batch_parse
from bowstring._native.server.commit_queue cimport commit_push, commit_queue
from bowstring._native.server.topic_table cimport partition_advanced, partition_retain
from bowstring._native.server.commit_types cimport CommitQueue
from bowstring._native.server.partition_types cimport Partition
from bowstring._native.wal.types cimport Wal

cdef enum:
    APPENDED_TOGETHER = 128


cdef int32_t read_batches(const FollowPart *part, uint8_t **at, uint8_t *end, AppendEntry *entries,
                          int16_t *error) noexcept nogil:
    """Reads up to APPENDED_TOGETHER whole batches and moves *at behind them. An incomplete one at the end is ignored."""
    cdef int32_t n = 0
    cdef int64_t size
    while n < APPENDED_TOGETHER and at[0] < end:
        size = batch_extent(at[0], end - at[0])
        if size == 0:
            at[0] = end
            break
        if size < 0 or batch_parse(at[0], size, &entries[n].info) != 0 or not batch_crc_ok(at[0], size) \
                or entries[n].info.leader_epoch > part.leader_epoch:
            error[0] = CORRUPT_MESSAGE
            break
        entries[n].data = at[0]
        at[0] += size
        n += 1
    return n


cdef int16_t make_durable(Reactor *r, Partition *p, AppendEntry *last, int64_t bytes) noexcept nogil:
    """Commit mode: the durable end moves when the batches are on the medium."""
    cdef Wal *wal = p.log.wal
    cdef CommitQueue *queue
    cdef int64_t end_offset = last.base_offset + last.info.last_offset_delta + 1
    if last.wal_frame == 0:                              # the append synced them
        log_durable_to(p.log, NOW, end_offset, False)
        return 0
    queue = commit_queue(r, wal)
    if queue == NULL or not commit_push(queue, last.wal_frame, p, end_offset, bytes, NULL):
        return KAFKA_STORAGE_ERROR
    partition_retain(p)
    return 0


cdef int16_t append_batches(Reactor *r, FollowPart *part, uint8_t *data, int64_t size) noexcept nogil:
    cdef AppendEntry[APPENDED_TOGETHER] entries
    cdef AppendEntry *pointers[APPENDED_TOGETHER]
    cdef Partition *p = part.partition
    cdef uint8_t *end = data + size
    cdef uint8_t *from_
    cdef int32_t i, n, last
    cdef int16_t error = 0
    for i in range(APPENDED_TOGETHER):
        pointers[i] = &entries[i]
    while data < end and error == 0:
        from_ = data
        n = read_batches(part, &data, end, entries, &error)
        if n == 0:
            break
        log_append(p.log, pointers, n, AS_WRITTEN, r.wall_ms)
        last = -1
        for i in range(n):
            if entries[i].error == 0:
                last = i
            elif error == 0:
                error = entries[i].error
        # What was appended before a batch that failed counts once it is on the medium, as if that had not been sent.
        if last >= 0 and p.log.wal != NULL \
                and make_durable(r, p, &entries[last], entries[last].data + entries[last].info.size_bytes - from_) != 0:
            return KAFKA_STORAGE_ERROR
    return error


cdef int16_t follower_append(Reactor *r, FollowPart *part, uint8_t *data, int64_t size, int64_t high_watermark,
                             int64_t start_offset) noexcept nogil:
    cdef Partition *p = part.partition
    cdef int64_t before = load_i64(&p.log.appended_bytes), bytes
    cdef int16_t error = append_batches(r, part, data, size) if size > 0 else 0
    cdef bint moved
    store_i64(&p.leader_high_watermark, high_watermark)
    moved = (high_watermark > load_i64(&p.log.high_watermark)
             and log_advance_high_watermark(p.log, high_watermark))
    if start_offset > load_i64(&p.log.log_start_offset) and start_offset <= load_i64(&p.log.high_watermark):
        log_delete_records(p.log, start_offset)
    bytes = load_i64(&p.log.appended_bytes) - before
    add_i64(&r.plane.followed_bytes, bytes)
    if moved or load_i32(&p.log.failed):
        partition_advanced(p, 0, r)
    return error
