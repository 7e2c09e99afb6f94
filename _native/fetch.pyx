"""Fetch: parsed, evaluated, answered or left to wait.

Evaluating finds a range of whole batches for every partition and takes a reference to its file, no bytes
are read. If there is enough, the reply is a list of chunks that sendfile empties; otherwise the references
go back and the request waits on its partitions until something is appended or max.wait.ms is over.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset
from bowstring._native.atomics cimport bump_i64, load_i32, load_i64
from bowstring._native.clock cimport monotonic_ns
from bowstring._native.connection cimport connection_find
from bowstring._native.fetch_cold cimport cold_follow, cold_settle, cold_start
from bowstring._native.fetch_reply cimport fetch_answer, release_slices
from bowstring._native.fetch_session cimport (
    part_drop_partition, session_create, session_find, session_remove, set_free, set_read_forgotten, set_read_topics)
from bowstring._native.idtable cimport id_add, id_find, id_remove
from bowstring._native.log cimport log_end_offset_for_epoch, log_read
from bowstring._native.log_batches cimport read_warm
from bowstring._native.partition cimport (
    partition_retain, topic_by_id, topic_by_name, topic_partition, waiter_add, waiter_remove)
from bowstring._native.plane cimport (
    CODEC_ZSTD, Connection, FENCED_LEADER_EPOCH, FETCH_SESSION_ID_NOT_FOUND, FETCH_SESSION_TOPIC_ID_ERROR, FetchPart, FetchRequest,
    FetchSession, FetchSet, FetchTopic, INVALID_FETCH_SESSION_EPOCH, KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE,
    Partition, Reactor, RequestHeader, Topic, UNKNOWN_LEADER_EPOCH, UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_COMPRESSION_TYPE, ZSTD_FETCH_VERSION)
from bowstring._native.timers cimport timer_add, timers_sweep
from bowstring._native.wire cimport (
    Reader, read_count, read_i8, read_i16, read_i32, read_i64, read_string, read_uvarint, take)

cdef enum:
    SESSION_FINAL_EPOCH = -1        # close the session, answer in full
    SESSION_INITIAL_EPOCH = 0       # open one

cdef enum Patience:
    LOOK                            # answers if there is enough
    DUE                             # its time is over: answers unless all there is has yet to come from the disk
    NOW                             # answers with what there is

# ---------------------------------------------------------------- parsing


cdef bint fetch_receive(Reactor *r, Connection *c, const RequestHeader *header, Reader *body) noexcept nogil:
    """Takes one Fetch request off the wire; False when it is malformed (the caller closes)."""
    cdef int16_t version = header.api_version
    cdef FetchRequest *request = <FetchRequest *>calloc(1, sizeof(FetchRequest))
    cdef int32_t session_id = 0, epoch = SESSION_FINAL_EPOCH
    cdef bint ok
    if request == NULL:
        return False
    request.connection_id = c.id
    request.slot = c.tail_slot - 1
    request.correlation_id = header.correlation_id
    request.version = version
    request.started_ns = monotonic_ns()
    request.replica_id = read_i32(body) if version <= 14 else -1
    request.max_wait_ms = read_i32(body)
    request.min_bytes = read_i32(body)
    request.max_bytes = read_i32(body)
    request.isolation = read_i8(body)
    if version >= 7:
        session_id = read_i32(body)
        epoch = read_i32(body)
    if request.max_bytes > r.plane.fetch_max_bytes:
        request.max_bytes = r.plane.fetch_max_bytes
    if epoch == SESSION_FINAL_EPOCH or epoch == SESSION_INITIAL_EPOCH:
        ok = read_full(r, request, body, session_id, epoch)
    else:
        ok = read_incremental(r, request, body, session_id, epoch)
    if not ok or not read_tail(request, body):
        if request.session != NULL:
            request.session.waiting = NULL
        set_free(&request.own)
        free(request)
        return False
    request.next = c.fetches
    if request.next != NULL:
        request.next.previous = request
    c.fetches = request
    if not evaluate(r, request, DUE if request.max_wait_ms <= 0 else LOOK):
        wait(r, request)
    return True


cdef void settle_session(Reactor *r, FetchSession *session) noexcept nogil:
    """A client that asks again before it was answered gets the earlier answer now: one request a session."""
    if session.waiting != NULL:
        evaluate(r, session.waiting, NOW)


cdef bint read_full(Reactor *r, FetchRequest *request, Reader *body, int32_t session_id, int32_t epoch) noexcept nogil:
    """A full fetch: closes the session named, and opens one when asked to and there is room."""
    cdef FetchSession *session = session_find(r, session_id) if session_id != 0 else NULL
    cdef FetchSet nothing
    memset(&nothing, 0, sizeof(FetchSet))
    if not set_read_topics(&request.own, body, request.version, False):
        return False
    if request.version >= 7 and not set_read_forgotten(&nothing, body, request.version):
        return False
    request.own.by_id = request.version >= 13
    if session != NULL:
        settle_session(r, session)
        session_remove(r, session)
    if epoch == SESSION_INITIAL_EPOCH:
        request.session = session_create(r, &request.own)
        if request.session != NULL:
            request.session_id = request.session.id
            request.session.waiting = request
    return True


cdef bint read_incremental(Reactor *r, FetchRequest *request, Reader *body, int32_t session_id,
                           int32_t epoch) noexcept nogil:
    """A step of a session: its partitions, as this request changes them."""
    cdef FetchSession *session = session_find(r, session_id)
    cdef FetchSet *contents = &request.own               # where the changes go when there is no session
    if session == NULL:
        request.error = FETCH_SESSION_ID_NOT_FOUND
    elif session.epoch != epoch:
        request.error = INVALID_FETCH_SESSION_EPOCH
    elif session.set.by_id != (request.version >= 13):
        request.error = FETCH_SESSION_TOPIC_ID_ERROR
    else:
        settle_session(r, session)
        contents = &session.set
        session.epoch = epoch + 1 if epoch < 0x7FFFFFFF else 1
        session.last_used_ms = r.now_ms
        session.waiting = request
        request.session = session
        request.session_id = session_id
        request.incremental = True
    if (not set_read_topics(contents, body, request.version, True)
            or not set_read_forgotten(contents, body, request.version)):
        return False
    if request.error != 0:
        set_free(&request.own)
    elif session.set.part_count == 0:                    # Kafka ends it then, and says so by id 0
        request.session = NULL
        request.session_id = 0
        session_remove(r, session)
    return True


cdef bint read_tail(FetchRequest *request, Reader *body) noexcept nogil:
    """Rack id and tagged fields; a follower of v15 and later names itself in one of them."""
    cdef const uint8_t *at
    cdef uint32_t n, tag, size
    cdef Reader value
    if request.version >= 11:
        read_string(body, request.version >= 12, &at)
    if request.version >= 12:
        n = read_uvarint(body)
        while n > 0 and not body.bad:
            tag = read_uvarint(body)
            size = read_uvarint(body)
            value.at = take(body, size)
            value.end = body.at
            value.bad = False
            if tag == 1 and request.version >= 15 and not body.bad:
                request.replica_id = read_i32(&value)
            n -= 1
    return not body.bad

# ---------------------------------------------------------------- evaluating


cdef Partition *resolve(Reactor *r, const FetchSet *s, FetchPart *part) noexcept nogil:
    """The partition, held; looked up again when it was unknown or has gone since."""
    cdef const FetchTopic *wanted = &s.topics[part.topic]
    cdef Topic *topic
    if part.partition != NULL:
        if not load_i32(&part.partition.deleted):
            return part.partition
        part_drop_partition(part)
    if s.by_id:
        topic = topic_by_id(&r.plane.table, wanted.id)
    else:
        topic = topic_by_name(&r.plane.table, wanted.name, wanted.name_length)
    part.partition = topic_partition(topic, part.index)
    if part.partition != NULL:
        partition_retain(part.partition)
    elif s.by_id and topic == NULL:
        part.error = UNKNOWN_TOPIC_ID
    else:
        part.error = UNKNOWN_TOPIC_OR_PARTITION
    return part.partition


cdef int16_t check_leadership(const FetchRequest *request, const FetchPart *part, const Partition *p) noexcept nogil:
    if p.log == NULL:
        return KAFKA_STORAGE_ERROR
    if not p.is_leader or request.replica_id >= 0:       # followers come with replication
        return NOT_LEADER_OR_FOLLOWER
    if part.current_leader_epoch >= 0:
        if part.current_leader_epoch < p.leader_epoch:
            return FENCED_LEADER_EPOCH
        if part.current_leader_epoch > p.leader_epoch:
            return UNKNOWN_LEADER_EPOCH
    if p.log.config.compression == CODEC_ZSTD and request.version < ZSTD_FETCH_VERSION:
        return UNSUPPORTED_COMPRESSION_TYPE
    return 0


cdef bint diverges(FetchPart *part, Partition *p) noexcept nogil:
    """The reader's last epoch ended before its offset here (KIP-595), or is not known at all: it must truncate first."""
    cdef int32_t epoch = -1
    cdef int64_t end_offset = -1
    if part.last_fetched_epoch < 0:
        return False
    log_end_offset_for_epoch(p.log, part.last_fetched_epoch, &epoch, &end_offset)
    if epoch < 0 or end_offset < 0:
        part.error = OFFSET_OUT_OF_RANGE
        return True
    if epoch < part.last_fetched_epoch or end_offset < part.fetch_offset:
        part.diverging_epoch = epoch
        part.diverging_end_offset = end_offset
        return True
    return False


cdef void read(Reactor *r, FetchRequest *request, FetchPart *part, Partition *p, int64_t limit, int64_t budget,
               bint min_one) noexcept nogil:
    """A slice of what is in memory and checked; what is not is left to a storage thread, and slice.cold says so."""
    part.slice.cold = True
    if not cold_settle(request, part) or part.error != 0:
        return
    part.error = log_read(p.log, part.fetch_offset, limit, budget, min_one, &part.cursor, &part.slice)
    if part.error == 0 and part.slice.cold and not cold_start(r, request, part):
        part.error = read_warm(p.log, part.fetch_offset, limit, budget, min_one, &part.cursor, &part.slice)
    elif part.slice.file != NULL and part.cursor.warm.end > 0:
        cold_follow(r, part)


cdef void look(Reactor *r, FetchRequest *request, const FetchSet *s, FetchPart *part, int64_t budget,
               bint min_one) noexcept nogil:
    """Evaluates one partition: error, offsets, and a slice of at most `budget` bytes."""
    cdef Partition *p
    cdef int64_t limit
    part.error = 0
    part.diverging_epoch = -1
    part.high_watermark = part.last_stable_offset = part.log_start_offset = -1
    part.slice.file = NULL
    part.slice.size_bytes = 0
    part.slice.cold = False
    p = resolve(r, s, part)
    if p == NULL:
        return
    part.error = check_leadership(request, part, p)
    if part.error != 0:
        bump_i64(&p.failed_fetches, 1)
        return
    part.high_watermark = load_i64(&p.log.high_watermark)
    part.last_stable_offset = load_i64(&p.log.last_stable_offset)
    part.log_start_offset = load_i64(&p.log.log_start_offset)
    limit = part.last_stable_offset if request.isolation else part.high_watermark
    if not diverges(part, p):
        if part.fetch_offset >= limit and part.fetch_offset <= load_i64(&p.log.log_end_offset):
            return
        if budget > part.max_bytes:
            budget = part.max_bytes
        if part.fetch_offset < limit and budget <= 0 and not min_one:
            return
        read(r, request, part, p, limit, budget, min_one)
    if part.error != 0:
        bump_i64(&p.failed_fetches, 1)
        if part.error == OFFSET_OUT_OF_RANGE:            # Kafka tells nothing else with this error
            part.high_watermark = part.last_stable_offset = part.log_start_offset = -1


cdef bint evaluate(Reactor *r, FetchRequest *request, Patience patience) noexcept nogil:
    """Looks at every partition and answers (freeing the request) if there is enough; else False."""
    cdef FetchSet *s = &request.session.set if request.session != NULL else &request.own
    cdef FetchPart *part
    cdef int64_t bytes = 0
    cdef int32_t k, i, n = s.part_count, last = -1
    cdef bint urgent = n == 0 or request.error != 0, cold = False
    request.arrived_bytes = 0
    if s.first >= n:
        s.first = 0
    for k in range(n):
        i = s.first + k
        if i >= n:
            i -= n
        part = &s.parts[i]
        look(r, request, s, part, request.max_bytes - bytes, bytes == 0)
        if part.slice.size_bytes > 0:
            bytes += part.slice.size_bytes
            last = i
        if part.error != 0 or part.diverging_epoch >= 0 or (part.slice.size_bytes > 0 and part.cursor.warm.end > 0):
            urgent = True                                # what came from the disk is sent while the next is read
        cold = cold or part.slice.cold
    if patience == DUE:
        request.overdue = True
    if request.overdue and (bytes > 0 or not cold):      # Kafka waits for the disk, too
        urgent = True
    if not urgent and patience != NOW and (bytes < request.min_bytes or (cold and bytes == 0)):
        request.missing_bytes = 0 if request.overdue else request.min_bytes - bytes
        release_slices(s)
        return False
    unwait(request)
    fetch_answer(r, request, s)
    if last >= 0:
        s.first = last + 1 if last + 1 < n else 0
    forget(r, request)
    return True

# ---------------------------------------------------------------- waiting


cdef void wait(Reactor *r, FetchRequest *request) noexcept nogil:
    cdef FetchSet *s = &request.session.set if request.session != NULL else &request.own
    cdef int32_t i
    cdef FetchPart *part
    if request.id <= 0:
        request.id = id_add(&r.fetches, request)
    timers_sweep(r)
    if request.id < 0 or not timer_add(&r.timers, r.now_ms + request.max_wait_ms, request.id):
        evaluate(r, request, NOW)
        return
    for i in range(s.part_count):
        part = &s.parts[i]
        part.waiter.reactor = r
        part.waiter.request = request
        part.waiter.fetch_id = request.id
        waiter_add(&part.waiter, part.partition)
    request.waiting = True
    evaluate(r, request, LOOK)                           # another thread may have appended in between


cdef void unwait(FetchRequest *request) noexcept nogil:
    cdef FetchSet *s = &request.session.set if request.session != NULL else &request.own
    cdef int32_t i
    if request.waiting:
        for i in range(s.part_count):
            waiter_remove(&s.parts[i].waiter)
        request.waiting = False


cdef void forget(Reactor *r, FetchRequest *request) noexcept nogil:
    """Frees an answered (or abandoned) request that no longer waits."""
    cdef Connection *c = connection_find(r, request.connection_id)
    cdef FetchRequest **at = &r.ready_fetches
    if request.id > 0:
        id_remove(&r.fetches, request.id)
    if request.ready:
        while at[0] != request:
            at = &at[0].next_ready
        at[0] = request.next_ready
    if request.previous != NULL:
        request.previous.next = request.next
    elif c != NULL and c.fetches == request:
        c.fetches = request.next
    if request.next != NULL:
        request.next.previous = request.previous
    if request.session != NULL:
        request.session.waiting = NULL
    set_free(&request.own)
    free(request)


cdef void fetch_serve_ready(Reactor *r) noexcept nogil:
    """After the pass's appends: answers the fetches they were for."""
    cdef FetchRequest *request
    while r.ready_fetches != NULL:
        request = r.ready_fetches
        r.ready_fetches = request.next_ready
        request.ready = False
        if request.arrived_bytes >= request.missing_bytes:
            evaluate(r, request, LOOK)


cdef void fetch_woken(Reactor *r, int64_t fetch_id, int64_t bytes) noexcept nogil:
    """MAIL_WAKE_FETCH from another thread."""
    cdef FetchRequest *request = <FetchRequest *>id_find(&r.fetches, fetch_id)
    if request == NULL:
        return
    request.arrived_bytes += bytes
    if bytes == 0:
        request.missing_bytes = 0                        # an offset moved, or a partition went: look in any case
    if not request.ready:
        request.ready = True
        request.next_ready = r.ready_fetches
        r.ready_fetches = request


cdef void fetch_timed_out(Reactor *r, FetchRequest *request) noexcept nogil:
    evaluate(r, request, DUE)


cdef void fetch_connection_closed(Connection *c) noexcept nogil:
    """Takes the waiting fetches of a connection that is going away off their partitions."""
    while c.fetches != NULL:
        unwait(c.fetches)
        forget(c.reactor, c.fetches)
