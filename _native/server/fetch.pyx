"""Fetch: parses and evaluates requests, and answers or parks them.

Evaluation finds a range of complete batches for every partition and takes a reference to its file, without reading bytes.
If there are at least min.bytes, the response is a chain of chunks that sendfile sends. Otherwise the references are
released, and the request waits on its partitions until records are appended or max.wait.ms has passed.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
from bowstring._native.base.atomics cimport bump_i64, load_i32, load_i64
from bowstring._native.base.clock cimport monotonic_ns
from bowstring._native.base.error_codes cimport (
    FETCH_SESSION_ID_NOT_FOUND, FETCH_SESSION_TOPIC_ID_ERROR, INVALID_FETCH_SESSION_EPOCH, KAFKA_STORAGE_ERROR,
    OFFSET_OUT_OF_RANGE, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, UNSUPPORTED_COMPRESSION_TYPE)
from bowstring._native.base.wire cimport (
    MAX_TAGS, Reader, read_i32, read_i64, read_i8, read_string, read_uvarint, take)
from bowstring._native.log cimport (
    ABORTED_ALL, ABORTED_COLD, AbortedList, aborted_most, log_aborted, log_end_offset_for_epoch, log_read, read_warm,
    segment_file_release, slice_shorten)
from bowstring._native.record.batch cimport CODEC_ZSTD
from bowstring._native.replica.replica_quota cimport quota_wait_ms
from bowstring._native.replica.rules cimport (
    POSITION_DIVERGES, POSITION_FITS, POSITION_UNKNOWN, Position, fetch_position, fetch_refused)
from bowstring._native.server.client_quotas cimport (
    quota_client_release, quota_most, quota_percent, quota_record, quota_retain, quota_throttled, quota_use,
    quota_use_or_leave)
from bowstring._native.server.connection cimport connection_find, connection_hold, connection_mute
from bowstring._native.server.access cimport follow_allowed, is_controlled, topic_allowed
from bowstring._native.server.access_types cimport ACCESS_READ
from bowstring._native.server.fetch_disk cimport (
    READ_AHEAD_BYTES, READ_MIN_BYTES, cold_follow, cold_take, cold_start)
from bowstring._native.server.fetch_response cimport fetch_answer, release_slices
from bowstring._native.server.fetch_session cimport (
    part_drop_partition, session_changed, session_create, session_find, session_remove, session_used, sessions_leave,
    set_bytes, set_free, set_read_forgotten, set_read_topics)
from bowstring._native.server.id_table cimport id_add, id_find, id_remove
from bowstring._native.server.timers cimport timer_add, timers_sweep
from bowstring._native.server.replica_leader cimport leader_fetched
from bowstring._native.server.replica_selector cimport preferred_read_replica
from bowstring._native.server.topic_table cimport (
    partition_retain, topic_by_id, topic_by_name, topic_partition, waiter_add, waiter_remove)
from bowstring._native.server.connection_limits cimport HELD_MIN_BYTES
from bowstring._native.server.connection_types cimport Connection
from bowstring._native.server.control_types cimport RequestHeader
from bowstring._native.server.subject_types cimport NO_SUBJECT
from bowstring._native.server.fetch_types cimport (
    ZSTD_FETCH_VERSION, FetchPart, FetchRequest, FetchSession, FetchSet, FetchTopic)
from bowstring._native.server.partition_types cimport Partition, Topic
from bowstring._native.server.quota_types cimport QUOTA_FETCH, QUOTA_REQUEST, QuotaClient
from bowstring._native.server.reactor_types cimport Reactor

cdef enum:
    ANSWER_BYTES = 32               # of an answer without partitions, and of each partition without records: about
    ANSWER_PART_BYTES = 48
    SESSION_FINAL_EPOCH = -1        # a full fetch that closes the session
    SESSION_INITIAL_EPOCH = 0       # a full fetch that opens one
    FOLLOWER_FETCH_VERSION = 11     # KIP-392: consumers may read from followers

cdef enum Patience:
    LOOK                            # answer if there are at least min.bytes
    DUE                             # max.wait.ms has passed: answer, unless all records must first be read from the disk
    NOW                             # answer with the available records

# ---------------------------------------------------------------- parsing


cdef bint fetch_receive(Reactor *r, Connection *c, const RequestHeader *header, Reader *body) noexcept nogil:
    """Parses one Fetch request and evaluates it. False when it is malformed: the caller closes the connection."""
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
    request.replica_epoch = -1
    request.fresh = True
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
    if request.session != NULL:
        session_used(request.session, c)
    if not ok or not read_tail(r, request, body):
        if request.session != NULL:
            request.session.waiting = NULL
        set_free(&request.own)
        free(request.rack)
        free(request)
        return False
    c.fetch = request
    if c.quota != NULL and request.replica_id < 0:
        limit_use(request, c.quota)
    if not evaluate(r, request, DUE if request.max_wait_ms <= 0 else LOOK):
        wait(r, request)
    return True


cdef void limit_use(FetchRequest *request, QuotaClient *quota) noexcept nogil:
    """As Kafka, requests no more than the client may have at once."""
    request.quota = quota_retain(quota)
    request.max_bytes = <int64_t>min(<double>request.max_bytes, quota_most(quota, QUOTA_FETCH))
    request.min_bytes = <int32_t>min(<int64_t>request.min_bytes, request.max_bytes)


cdef void answer_session(Reactor *r, FetchSession *session) noexcept nogil:
    """Answers the session's waiting request: a session has one request at a time."""
    if session.waiting != NULL:
        evaluate(r, session.waiting, NOW)


cdef bint read_full(Reactor *r, FetchRequest *request, Reader *body, int32_t session_id, int32_t epoch) noexcept nogil:
    """Handles a full fetch: closes the session it names, and opens a new one if requested and there is room."""
    cdef FetchSession *session = session_find(r, session_id) if session_id != 0 else NULL
    cdef FetchSet nothing
    memset(&nothing, 0, sizeof(FetchSet))
    if not set_read_topics(&request.own, body, request.version):
        return False
    if request.version >= 7 and not set_read_forgotten(&nothing, body, request.version):
        return False
    request.own.by_id = request.version >= 13
    if session != NULL:
        answer_session(r, session)
        session_remove(r, session)
    if epoch == SESSION_INITIAL_EPOCH:
        request.session = session_create(r, &request.own)
        if request.session != NULL:
            request.session_id = request.session.id
            request.session.waiting = request
    return True


cdef bint read_incremental(Reactor *r, FetchRequest *request, Reader *body, int32_t session_id,
                           int32_t epoch) noexcept nogil:
    """Handles an incremental fetch: the session's partitions, with this request's changes."""
    cdef FetchSession *session = session_find(r, session_id)
    cdef FetchSet *contents = &request.own               # receives the changes if there is no session
    if session == NULL:
        request.error = FETCH_SESSION_ID_NOT_FOUND
    elif session.epoch != epoch:
        request.error = INVALID_FETCH_SESSION_EPOCH
    elif session.set.by_id != (request.version >= 13):
        request.error = FETCH_SESSION_TOPIC_ID_ERROR
    else:
        answer_session(r, session)
        contents = &session.set
        session.epoch = epoch + 1 if epoch < 0x7FFFFFFF else 1
        session.last_used_ms = r.now_ms
        session.waiting = request
        request.session = session
        request.session_id = session_id
        request.incremental = True
    if (not set_read_topics(contents, body, request.version)
            or not set_read_forgotten(contents, body, request.version)):
        return False
    if request.error != 0:
        set_free(&request.own)
    elif session.set.part_count == 0:                    # Kafka then ends the session and returns id 0
        request.session = NULL
        request.session_id = 0
        session_remove(r, session)
    elif not session_changed(r, session):                # the client continues with full fetches
        request.error = FETCH_SESSION_ID_NOT_FOUND
        request.session = NULL
        request.session_id = 0
        session_remove(r, session)
    return True


cdef bint keep_rack(FetchRequest *request, const uint8_t *rack, int32_t length) noexcept nogil:
    request.rack = <uint8_t *>malloc(length)
    if request.rack == NULL:
        return False
    memcpy(request.rack, rack, length)
    request.rack_length = length
    return True


cdef bint read_tail(Reactor *r, FetchRequest *request, Reader *body) noexcept nogil:
    """Reads rack id and tagged fields; a follower gives its replica id in one of them from version 15 on."""
    cdef const uint8_t *at
    cdef int32_t length
    cdef uint32_t n, tag, size
    cdef Reader value
    if request.version >= 11:
        length = read_string(body, request.version >= 12, &at)
        if length > 0 and r.plane.replication.rack_aware and not keep_rack(request, at, length):
            return False
    if request.version >= 12:
        n = read_uvarint(body)
        body.bad = body.bad or n > MAX_TAGS
        while n > 0 and not body.bad:
            tag = read_uvarint(body)
            size = read_uvarint(body)
            value.at = take(body, size)
            value.end = body.at
            value.bad = False
            if tag == 1 and request.version >= 15 and not body.bad:
                request.replica_id = read_i32(&value)
                request.replica_epoch = read_i64(&value)
            n -= 1
    return not body.bad

# ---------------------------------------------------------------- evaluating


cdef Partition *resolve(Reactor *r, const FetchSet *s, FetchPart *part) noexcept nogil:
    """Returns the partition with a reference. Looks it up again if it was unknown or has been deleted."""
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


cdef bint denied(Reactor *r, const FetchRequest *request, const FetchSet *s, const FetchPart *part,
                 const Partition *p) noexcept nogil:
    """Whether the sender may not read the partition. An id of no topic is left to its own error, as in Kafka."""
    cdef const FetchTopic *wanted = &s.topics[part.topic]
    cdef const Topic *topic
    if request.replica_id >= 0:
        return not follow_allowed(r, request.subject)
    if p != NULL:
        topic = p.topic
    elif s.by_id:
        topic = topic_by_id(&r.plane.table, wanted.id)
        if topic == NULL:
            return False
    else:
        topic = topic_by_name(&r.plane.table, wanted.name, wanted.name_length)
    return not topic_allowed(r, request.subject, ACCESS_READ, topic, wanted.name, wanted.name_length)


cdef int16_t check_leadership(const FetchRequest *request, const FetchPart *part, const Partition *p) noexcept nogil:
    if p.log == NULL:
        return KAFKA_STORAGE_ERROR
    cdef int16_t error = fetch_refused(request.replica_id >= 0, request.version >= FOLLOWER_FETCH_VERSION, p.is_leader,
                                       p.replicas != NULL, part.current_leader_epoch, p.leader_epoch)
    if error == 0 and p.log.config.compression == CODEC_ZSTD and request.version < ZSTD_FETCH_VERSION:
        return UNSUPPORTED_COMPRESSION_TYPE
    return error


cdef bint diverges(FetchPart *part, Partition *p) noexcept nogil:
    """Whether the reader must truncate first: its last epoch ended in this log before its offset, or is unknown
    (KIP-595)."""
    cdef int32_t epoch = -1
    cdef int64_t end_offset = -1
    cdef Position position
    if part.last_fetched_epoch < 0:
        return False
    log_end_offset_for_epoch(p.log, part.last_fetched_epoch, &epoch, &end_offset)
    position = fetch_position(part.last_fetched_epoch, part.fetch_offset, epoch, end_offset)
    if position == POSITION_UNKNOWN:
        part.error = OFFSET_OUT_OF_RANGE
    elif position == POSITION_DIVERGES:
        part.diverging_epoch = epoch
        part.diverging_end_offset = end_offset
    return position != POSITION_FITS


cdef int16_t find_aborted(FetchPart *part, Partition *p, bint wait) noexcept nogil:
    """Finds the aborted transactions of a slice for its reader. Shortens a slice that overlaps too many of them, and marks
    it cold if the index must first be read from the disk."""
    cdef AbortedList found
    cdef int64_t to_offset = part.slice.next_offset, end_offset
    cdef int status
    if to_offset < 0:
        to_offset = part.last_stable_offset
    status = log_aborted(p.log, part.fetch_offset, to_offset, aborted_most(), wait, &found)
    if status == 0 and found.to_offset < to_offset:
        end_offset = slice_shorten(&part.slice, found.to_offset, &part.cursor)
        if end_offset > found.to_offset:                 # a single batch that overlaps all of them
            free(found.pairs)
            status = log_aborted(p.log, part.fetch_offset, end_offset, ABORTED_ALL, wait, &found)
        elif end_offset < 0:
            status = <int>end_offset
    if status == 0:
        part.aborted = found.pairs
        part.aborted_count = found.count
        return 0
    free(found.pairs)
    segment_file_release(part.slice.file)
    part.slice.file = NULL
    part.slice.size_bytes = 0
    part.slice.cold = status == ABORTED_COLD
    return 0 if part.slice.cold else KAFKA_STORAGE_ERROR


cdef void read(Reactor *r, FetchRequest *request, FetchPart *part, Partition *p, int64_t limit, int64_t budget,
               bint min_one) noexcept nogil:
    """Finds a slice of batches that are in memory and checked. Leaves other batches to a storage thread and sets slice.cold.
    A request does not read more from the disk than fits its response."""
    cdef int64_t size_bytes = budget if budget < part.max_bytes else part.max_bytes
    part.slice.cold = True
    if not cold_take(request, part) or part.error != 0:
        return
    part.followed = part.cursor.offset == part.fetch_offset
    part.error = log_read(p.log, part.fetch_offset, limit, size_bytes, min_one, &part.cursor, &part.slice)
    if part.slice.file != NULL and request.isolation:
        part.error = find_aborted(part, p, part.aborted_read)
        part.aborted_read = False
    if part.error == 0 and part.slice.cold:
        if budget - request.cold_bytes < READ_MIN_BYTES and not (min_one and request.cold_bytes == 0):
            part.slice.cold = False                      # for a later request
        elif not cold_start(r, request, part, min(size_bytes, budget - request.cold_bytes)):
            part.error = read_warm(p.log, part.fetch_offset, limit, size_bytes, min_one, &part.cursor, &part.slice)
            if part.slice.file != NULL and request.isolation:
                part.error = find_aborted(part, p, True)
    elif part.slice.file != NULL and part.cursor.warm.end > 0:
        request.ahead_bytes += part.slice.size_bytes
        cold_follow(r, request, part)


cdef void look(Reactor *r, FetchRequest *request, const FetchSet *s, FetchPart *part, int64_t budget,
               bint min_one) noexcept nogil:
    """Evaluates one partition: error, offsets, and a slice of at most `budget` bytes."""
    cdef Partition *p
    cdef int64_t limit
    part.error = 0
    part.diverging_epoch = part.preferred_replica = -1
    part.high_watermark = part.last_stable_offset = part.log_start_offset = -1
    part.slice.file = NULL
    part.slice.size_bytes = 0
    part.slice.cold = False
    p = resolve(r, s, part)
    if is_controlled(r) and denied(r, request, s, part, p):
        part.error = TOPIC_AUTHORIZATION_FAILED
        return
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
    if request.rack != NULL and request.replica_id < 0 and p.replicas != NULL:
        part.preferred_replica = preferred_read_replica(r.plane, request, part.fetch_offset, p)
        if part.preferred_replica >= 0:
            return
    if not diverges(part, p):
        if request.replica_id >= 0:
            limit = load_i64(&p.log.log_end_offset)      # before its offset moves the high watermark
            if part.log_start_offset <= part.fetch_offset <= limit:
                part.error = leader_fetched(r, request, part, p)
                part.high_watermark = load_i64(&p.log.high_watermark)
                if part.error != 0:
                    bump_i64(&p.failed_fetches, 1)
                    return
                if part.throttled:
                    request.throttled_ms = quota_wait_ms(&r.plane.replication.leader_quota, r.now_ms)
                    return
        if part.fetch_offset >= limit and part.fetch_offset <= load_i64(&p.log.log_end_offset):
            return
        if part.fetch_offset < limit and (budget <= 0 or part.max_bytes <= 0) and not min_one:
            return
        read(r, request, part, p, limit, budget, min_one)
    if part.error != 0:
        bump_i64(&p.failed_fetches, 1)
        if part.error == OFFSET_OUT_OF_RANGE:            # Kafka's response has no other fields with this error
            part.high_watermark = part.last_stable_offset = part.log_start_offset = -1


cdef int32_t sender_of(Reactor *r, const FetchRequest *request) noexcept nogil:
    cdef Connection *c = connection_find(r, request.connection_id)
    return NO_SUBJECT if c == NULL else c.subject


cdef bint evaluate(Reactor *r, FetchRequest *request, Patience patience) noexcept nogil:
    """Evaluates every partition. If there are enough bytes, answers, frees the request and returns True."""
    cdef FetchSet *s = &request.session.set if request.session != NULL else &request.own
    cdef FetchPart *part
    cdef int64_t bytes = 0
    cdef int32_t k, i, n = s.part_count, last = -1
    cdef bint urgent = n == 0 or request.error != 0, cold = False
    cdef int64_t started_ns = monotonic_ns() if request.quota != NULL else 0
    request.subject = sender_of(r, request)
    request.arrived_bytes = request.cold_bytes = request.throttled_ms = 0
    request.ahead_bytes = READ_AHEAD_BYTES               # plus the bytes that the response gets from disk reads
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
        if part.error != 0 or part.diverging_epoch >= 0 or part.preferred_replica >= 0:
            urgent = True
        elif part.slice.size_bytes > 0 and part.cursor.warm.end > 0:
            urgent = True                                # send the bytes from the disk while the next piece is read
        elif request.replica_id >= 0 and request.incremental and part.high_watermark != part.sent_high_watermark:
            urgent = True                                # its consumers wait for it
        cold = cold or part.slice.cold
    if patience == DUE:
        request.overdue = True
    if request.overdue and (bytes > 0 or not cold):      # Kafka waits for the disk as well
        urgent = True
    request.fresh = False
    if not urgent and patience != NOW and (bytes < request.min_bytes or (cold and bytes == 0)):
        request.missing_bytes = 0 if request.overdue else request.min_bytes - bytes
        release_slices(s)
        if started_ns > 0:
            request.spent_ns += monotonic_ns() - started_ns
        return False
    unwait(request)
    # With NOW the caller goes on with the session, which a throttled answer may remove.
    if patience == NOW:
        quota_record(request.quota, QUOTA_FETCH, bytes, r.now_ms)
    elif request.quota != NULL and throttled(r, request, s, bytes, monotonic_ns() - started_ns):
        answer_nothing(r, request, s)
        forget(r, request)
        return True
    fetch_answer(r, request, s)
    if last >= 0:
        s.first = last + 1 if last + 1 < n else 0
    forget(r, request)
    return True

# ---------------------------------------------------------------- quotas


cdef bint throttled(Reactor *r, FetchRequest *request, const FetchSet *s, int64_t bytes, int64_t spent_ns) noexcept nogil:
    """Counts the answer for the client's quotas. Whether the client gets nothing now, and waits; request.throttle_ms says how
    long."""
    cdef int64_t size_bytes = bytes + ANSWER_BYTES + s.part_count * <int64_t>ANSWER_PART_BYTES
    cdef int64_t time_ms, bytes_ms
    time_ms = quota_use(request.quota, QUOTA_REQUEST, quota_percent(request.spent_ns + spent_ns), r.now_ms)
    bytes_ms = quota_use_or_leave(request.quota, QUOTA_FETCH, size_bytes, r.now_ms)
    request.throttle_ms = max(time_ms, bytes_ms)
    if request.throttle_ms == 0:
        return False
    if bytes_ms == 0:
        quota_record(request.quota, QUOTA_FETCH, -size_bytes, r.now_ms)
    quota_throttled(request.quota, QUOTA_FETCH if bytes_ms > time_ms else QUOTA_REQUEST, request.throttle_ms)
    return True


cdef void answer_nothing(Reactor *r, FetchRequest *request, FetchSet *s) noexcept nogil:
    """Answers without partitions, and reads nothing more for the time that the answer names. An incremental session goes on;
    a new one ends, and the client begins it again."""
    cdef FetchSession *session = request.session
    cdef Connection *c = connection_find(r, request.connection_id)
    release_slices(s)
    if session != NULL and not request.incremental:
        request.session = NULL
        request.session_id = 0
        session.waiting = NULL
        session_remove(r, session)
    if c != NULL:
        connection_mute(c, request.throttle_ms)
    fetch_answer(r, request, NULL)

# ---------------------------------------------------------------- waiting


cdef void hold(Reactor *r, FetchRequest *request) noexcept nogil:
    """Counts the memory of a waiting request for its connection. Sessions have their own limit."""
    cdef Connection *c
    cdef int64_t bytes = set_bytes(&request.own)
    if bytes >= HELD_MIN_BYTES:
        c = connection_find(r, request.connection_id)
        if c != NULL:
            connection_hold(c, request.slot, bytes)


cdef void wait(Reactor *r, FetchRequest *request) noexcept nogil:
    cdef FetchSet *s = &request.session.set if request.session != NULL else &request.own
    cdef int32_t i
    cdef FetchPart *part
    cdef int64_t wait_ms = request.max_wait_ms
    if 0 < request.throttled_ms < wait_ms:
        wait_ms = request.throttled_ms
    if request.id <= 0:
        request.id = id_add(&r.fetches, request)
    timers_sweep(r)
    hold(r, request)
    if request.id < 0 or not timer_add(&r.timers, r.now_ms + wait_ms, request.id):
        evaluate(r, request, NOW)
        return
    for i in range(s.part_count):
        part = &s.parts[i]
        part.waiter.reactor = r
        part.waiter.request = request
        part.waiter.fetch_id = request.id
        part.waiter.follower = request.replica_id >= 0
        waiter_add(&part.waiter, part.partition)
    request.waiting = True
    evaluate(r, request, LOOK)                           # another thread may have appended meanwhile


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
    if c != NULL:
        c.fetch = NULL
    if request.session != NULL:
        request.session.waiting = NULL
    quota_client_release(request.quota)
    set_free(&request.own)
    free(request.rack)
    free(request)


cdef void fetch_serve_ready(Reactor *r) noexcept nogil:
    """After the pass's appends: evaluates the fetches that waited for them."""
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
        request.missing_bytes = 0                        # an offset moved or a partition was deleted: evaluate
    if not request.ready:
        request.ready = True
        request.next_ready = r.ready_fetches
        r.ready_fetches = request


cdef void fetch_access_changed(Reactor *r) noexcept nogil:
    """MAIL_ACCESS: answers the waiting fetches that have lost a permission."""
    cdef FetchRequest *request
    cdef FetchSet *s
    cdef Partition *p
    cdef int32_t slot, i
    if not is_controlled(r):
        return
    for slot in range(r.fetches.used):
        request = <FetchRequest *>r.fetches.items[slot]
        if request == NULL or not request.waiting:
            continue
        s = &request.session.set if request.session != NULL else &request.own
        request.subject = sender_of(r, request)
        for i in range(s.part_count):
            p = s.parts[i].partition
            if p != NULL and not load_i32(&p.deleted) and denied(r, request, s, &s.parts[i], p):
                evaluate(r, request, NOW)
                break


cdef void fetch_timed_out(Reactor *r, FetchRequest *request) noexcept nogil:
    evaluate(r, request, DUE)


cdef void fetch_connection_closed(Connection *c) noexcept nogil:
    """Frees the waiting fetch of a connection that closes."""
    if c.fetch != NULL:
        unwait(c.fetch)
        forget(c.reactor, c.fetch)
    if c.large_session:
        sessions_leave(c.reactor, c.id)
