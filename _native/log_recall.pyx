"""The batches of producers before each one's newest, see log_recall.pxd.

Kafka forgets them when a broker restarts: a producer with several requests in flight whose answers were lost then
gets OUT_OF_ORDER_SEQUENCE_NUMBER for what is stored, goes on in a new epoch and stores it again (KIP-360).
"""
from libc.errno cimport EBADMSG
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint32_t
from bowstring._native.batch cimport BatchInfo
from bowstring._native.log_files cimport file_release, segment_file
from bowstring._native.log_index cimport offset_index_floor
from bowstring._native.log_producers cimport producer_find
from bowstring._native.log_roll cimport state_of
from bowstring._native.log_segment cimport Walk, active_segment, last_offset_of, walk_peek, walk_start
from bowstring._native.log_types cimport LogState, Producer, Producers, RememberedBatch, Segment, SegmentFile

cdef enum:
    REMEMBERED = 5                  # as many as may be in flight (KIP-98)
    # How far from the end is looked: five batches of the usual largest size, and what others wrote meanwhile.
    RECALL_BYTES = 8388608
    # Who wrote nothing for so long retries nothing: Java's delivery.timeout.ms is two minutes.
    RETRY_MAX_MS = 900000


cdef bint some_may_retry(const Producers *producers, int64_t now_ms) noexcept nogil:
    cdef uint32_t i
    if producers.count == 0:
        return False
    for i in range(producers.mask + 1):
        if producers.table[i] != NULL and now_ms - producers.table[i].last_timestamp < RETRY_MAX_MS:
            return True
    return False


cdef void remember(Producer *producer, const BatchInfo *info) noexcept nogil:
    """Puts the batch in its place among those known, unless all of five are newer."""
    cdef RememberedBatch[REMEMBERED] known
    cdef int n = producer.batch_count, place = 0, i
    cdef int64_t last_offset = last_offset_of(info)
    for i in range(n):
        known[i] = producer.batches[(producer.oldest + i) % REMEMBERED]
        if known[i].last_offset == last_offset:
            return
        if known[i].last_offset < last_offset:
            place = i + 1
    if place == n or (n == REMEMBERED and place == 0):
        return                                           # newer than what is known is not for us to say
    if n == REMEMBERED:
        place -= 1
        for i in range(place):
            known[i] = known[i + 1]
    else:
        for i in range(n, place, -1):
            known[i] = known[i - 1]
        n += 1
    known[place].last_offset = last_offset
    known[place].timestamp = info.max_timestamp
    known[place].last_sequence = <int32_t>((<int64_t>info.base_sequence + info.last_offset_delta) & INT32_MAX)
    known[place].offset_delta = info.last_offset_delta
    for i in range(n):
        producer.batches[i] = known[i]
    producer.oldest = 0
    producer.batch_count = n


cdef int64_t where_to_begin(LogState *state, Segment *segment, int64_t end_offset) noexcept nogil:
    """A batch's position about RECALL_BYTES before the segment's end, or 0."""
    cdef int64_t back = 1024, indexed = -1, position = segment.size_bytes
    while segment.size_bytes - position < RECALL_BYTES and end_offset - back > segment.base_offset:
        position = offset_index_floor(state, segment, end_offset - back, &indexed)
        back *= 4
    return position if segment.size_bytes - position >= RECALL_BYTES else 0


cdef int recall_from(LogState *state, Segment *segment, int64_t now_ms) noexcept nogil:
    cdef Walk walk
    cdef BatchInfo info
    cdef Producer *producer
    cdef int error = 0
    cdef SegmentFile *file = segment_file(state, segment, True, &error)
    if file == NULL:
        return error
    walk_start(&walk, file.fd, where_to_begin(state, segment, state.producers.end_offset), segment.size_bytes)
    walk.segment = segment
    error = walk_peek(&walk, &info)
    while error > 0:
        if info.producer_id >= 0 and info.base_sequence >= 0:
            producer = producer_find(&state.producers, info.producer_id)
            if producer != NULL and producer.epoch == info.producer_epoch and producer.batch_count > 0:
                remember(producer, &info)
        walk.position += info.size_bytes
        error = walk_peek(&walk, &info)
    file_release(file)
    return 0 if error == -EBADMSG else error             # what is damaged is told of elsewhere


cdef int producers_recall(Log *log, int64_t now_ms) noexcept nogil:
    cdef LogState *state = state_of(log)
    cdef Segment *segment = active_segment(state)
    if segment.size_bytes == 0 or not some_may_retry(&state.producers, now_ms):
        return 0
    return recall_from(state, segment, now_ms)
