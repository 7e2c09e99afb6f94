"""Answers ListOffsets on a reactor, see list_offsets.pxd.

The answer is written while the request is read, and dropped at the first partition that has none here. The rules are those
of engine/api/list_offsets.py; tests/unit/broker/test_native_list_offsets.py compares the bytes of both. Roles and epochs of
partitions change between passes only, and the high watermark only rises.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from bowstring._native.base.atomics cimport load_i32, load_i64
from bowstring._native.base.clock cimport monotonic_ns
from bowstring._native.base.pthread cimport pthread_mutex_trylock, pthread_mutex_unlock
from bowstring._native.base.wire cimport (
    Writer, patch_i32, put_count, put_i16, put_i32, put_i64, put_string, put_tags, read_count, read_i32, read_i64, read_i8,
    read_string, skip_tags, writer_free)
from bowstring._native.log.leader_epochs cimport epoch_at
from bowstring._native.log.types cimport Log, log_out_of_service, state_of
from bowstring._native.server.access cimport is_controlled
from bowstring._native.server.client_quotas cimport quotas_on
from bowstring._native.server.connection cimport connection_answer_bytes, connection_condemn, connection_open_slot
from bowstring._native.server.counters cimport count_request
from bowstring._native.server.partition_types cimport Partition, Topic
from bowstring._native.server.quota_types cimport QUOTA_REQUEST
from bowstring._native.server.topic_table cimport topic_by_name, topic_partition

cdef enum:
    CONSUMER = -1                   # replica id
    READ_COMMITTED = 1
    LATEST = -1                     # timestamps
    EARLIEST = -2
    EARLIEST_LOCAL = -4
    LOWEST_VERSION = 1
    HIGHEST_VERSION = 11
    THROTTLE_VERSION = 2
    EPOCH_VERSION = 4
    FLEXIBLE_VERSION = 6
    LOCAL_VERSION = 8
    TIMEOUT_VERSION = 10
    PARTITIONS_MAX = 100

cdef struct Question:
    # What the answer for a partition needs of the request.
    int16_t version
    bint committed                  # read_committed
    bint flexible


cdef bint epoch_of(Log *log, int64_t offset, int32_t *epoch) noexcept nogil:
    """Finds the epoch of an offset; False while another thread uses the log."""
    if pthread_mutex_trylock(&log.lock) != 0:
        return False
    epoch[0] = epoch_at(&state_of(log).epochs, offset)
    pthread_mutex_unlock(&log.lock)
    return True


cdef bint position(const Question *q, Partition *p, int64_t timestamp, int64_t *offset, int32_t *epoch) noexcept nogil:
    """Finds an end of a partition; False: the control thread must."""
    cdef int64_t end = load_i64(&p.log.high_watermark)
    cdef int64_t log_end = load_i64(&p.log.log_end_offset)
    # A new leader may not know yet how far the one before has answered (KIP-207).
    if end < log_end and (not epoch_of(p.log, end, epoch) or epoch[0] < p.leader_epoch):
        return False
    if timestamp == LATEST:
        offset[0] = load_i64(&p.log.last_stable_offset) if q.committed else end
        epoch[0] = p.leader_epoch
        return True
    if timestamp != EARLIEST and (timestamp != EARLIEST_LOCAL or q.version < LOCAL_VERSION):
        return False
    offset[0] = load_i64(&p.log.log_start_offset)
    return epoch_of(p.log, offset[0], epoch)


cdef bint is_known(const Partition *p, int32_t epoch) noexcept nogil:
    return (p != NULL and p.log != NULL and not log_out_of_service(p.log) and load_i32(&p.is_leader) != 0
            and (epoch == -1 or epoch == p.leader_epoch))


cdef bint put_topic(Reactor *r, const Question *q, Reader *body, Writer *w, const Partition **seen,
                    int32_t *count) noexcept nogil:
    """Writes the answer for a topic; False: the control thread must."""
    cdef const uint8_t *name
    cdef int32_t length = read_string(body, q.flexible, &name), parts, i, j, index, wanted, epoch = -1
    cdef int64_t timestamp, offset = -1
    cdef const Topic *topic
    cdef Partition *p
    parts = read_count(body, q.flexible)
    if body.bad or length < 0 or parts < 1 or count[0] + parts > PARTITIONS_MAX:
        return False
    topic = topic_by_name(&r.plane.table, name, length)
    if topic == NULL:
        return False
    put_string(w, q.flexible, name, length)
    put_count(w, q.flexible, parts)
    for i in range(parts):
        index = read_i32(body)
        wanted = read_i32(body) if q.version >= EPOCH_VERSION else -1
        timestamp = read_i64(body)
        if q.flexible:
            skip_tags(body)
        if body.bad:
            return False
        p = topic_partition(topic, index)
        if not is_known(p, wanted) or not position(q, p, timestamp, &offset, &epoch):
            return False
        for j in range(count[0]):
            if seen[j] == p:                             # named twice
                return False
        seen[count[0]] = p
        count[0] += 1
        put_i32(w, index)
        put_i16(w, 0)
        put_i64(w, -1)                                   # timestamp
        put_i64(w, offset)
        if q.version >= EPOCH_VERSION:
            put_i32(w, epoch)
        put_tags(w, q.flexible)
    if q.flexible:
        skip_tags(body)
    put_tags(w, q.flexible)
    return not body.bad


cdef bint put_answer(Reactor *r, const RequestHeader *header, Reader body, Writer *w) noexcept nogil:
    """Writes the whole answer, with its length; False: the control thread must."""
    cdef const Partition *seen[PARTITIONS_MAX]
    cdef Question q
    cdef int32_t topics, i, count = 0
    q.version = header.api_version
    q.flexible = q.version >= FLEXIBLE_VERSION
    if read_i32(&body) != CONSUMER:
        return False
    q.committed = q.version >= THROTTLE_VERSION and read_i8(&body) == READ_COMMITTED
    topics = read_count(&body, q.flexible)
    if body.bad or topics < 0 or topics > PARTITIONS_MAX:
        return False
    put_i32(w, 0)                                        # the length
    put_i32(w, header.correlation_id)
    put_tags(w, q.flexible)                              # of the header
    if q.version >= THROTTLE_VERSION:
        put_i32(w, 0)
    put_count(w, q.flexible, topics)
    for i in range(topics):
        if not put_topic(r, &q, &body, w, seen, &count):
            return False
    if q.version >= TIMEOUT_VERSION:
        read_i32(&body)
    if q.flexible:
        skip_tags(&body)
    put_tags(w, q.flexible)
    return not body.bad and not w.failed


cdef bint list_offsets(Reactor *r, Connection *c, const RequestHeader *header, const Reader *body) noexcept nogil:
    cdef int64_t slot, started_ns = monotonic_ns()
    cdef Writer w
    if (is_controlled(r) or quotas_on(&r.plane.quotas, QUOTA_REQUEST)
            or not LOWEST_VERSION <= header.api_version <= HIGHEST_VERSION):
        return False
    w.data = NULL
    w.size = w.capacity = 0
    w.failed = False
    if not put_answer(r, header, body[0], &w):
        writer_free(&w)
        return False
    slot = connection_open_slot(c)
    if slot < 0:
        writer_free(&w)
        connection_condemn(c)
        return True
    patch_i32(w.data, <int32_t>(w.size - <int64_t>sizeof(int32_t)))
    c.alone = True
    count_request(&r.list_offsets, started_ns, 0)
    connection_answer_bytes(c, slot, w.data, w.size)
    writer_free(&w)
    return True
