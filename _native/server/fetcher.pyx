"""Connections to leaders: requests, answers, pauses after errors. See fetcher.pxd.

Contents: connecting · secured connections · sending · answers · orders.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint8_t, uint32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, strcmp, strerror
from posix.unistd cimport close
from bowstring._native.base.atomics cimport load_i32, load_i64
from bowstring._native.base.bigendian cimport load_be64
from bowstring._native.base.error_codes cimport (
    FETCH_SESSION_ID_NOT_FOUND, FETCH_SESSION_TOPIC_ID_ERROR, INVALID_FETCH_SESSION_EPOCH, NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE)
from bowstring._native.base.wire cimport (
    MAX_TAGS, Reader, read_bytes, read_count, read_i16, read_i32, read_i64, read_string, read_uvarint, skip_tags, take,
    writer_free)
from bowstring._native.disk.descriptors cimport descriptors_lend_last
from bowstring._native.replica.replica_quota cimport quota_record
from bowstring._native.replica.rules cimport answer_follows, may_claim
from bowstring._native.server.connection cimport (
    connection_answer_bytes, connection_condemn, connection_open, connection_open_slot)
from bowstring._native.server.control_queue cimport plane_event
from bowstring._native.server.fetcher_requests cimport (
    forget_partition, session_begin, write_fetch, write_list_offsets)
from bowstring._native.server.followed_partitions cimport (
    FOLLOW_NEVER, order_drop, part_begin, part_diverged, part_fail, part_free, part_of, part_out_of_range, part_void,
    part_truncate, pause_ms)
from bowstring._native.server.follower_append cimport follower_append
from bowstring._native.server.id_table cimport id_find
from bowstring._native.server.replica_events cimport dial_order
from bowstring._native.server.topic_table cimport topic_by_id, topic_partition
from bowstring._native.log cimport Log
from bowstring._native.server.follow_types cimport (
    ASKS_FETCH, ASKS_LEADER_END, ASKS_NOTHING, FOLLOW_ASKING, FOLLOW_FETCHING, Fetcher, FollowLink, FollowPart)
from bowstring._native.server.partition_types cimport Partition

cdef extern from "server/sockets.h":
    int connect_to(const char *host, int port) nogil

cdef enum:
    NO_LISTENER = -1
    DIAL_GRACE_MS = 5000            # beyond the time that the control thread has to connect
    HURRY_MS = 10                   # parts that are added wait so long for the answer to the request in flight

# ---------------------------------------------------------------- connecting


cdef void pause(Fetcher *f, const char *why) noexcept nogil:
    """Waits, in the end for replica.fetch.backoff.ms; logs that once until the leader answers again."""
    cdef char text[500]
    f.retry_ms = f.reactor.now_ms + pause_ms(f.reactor.plane.replication.backoff_ms, f.failures)
    if f.failures == 0:
        snprintf(text, sizeof(text), b"no connection to leader %d at %s:%d (%s); trying again, at least every %lld ms",
                 f.leader_id, f.host, f.port, why, <long long>f.reactor.plane.replication.backoff_ms)
        plane_event(f.reactor.plane, 1, b"replica-fetch-failed", text)
    f.failures += 1


cdef bint open_connection(Fetcher *f) noexcept nogil:
    cdef int fd
    if f.reactor.plane.replication.is_secured:
        if f.link != NULL:
            return take_link(f)
        dial(f)
        return False
    fd = connect_to(f.host, f.port)
    if fd < 0 and descriptors_lend_last(fd):                  # clients must not keep this broker from following
        fd = connect_to(f.host, f.port)
    if fd >= 0:
        f.connection = connection_open(f.reactor, fd, NO_LISTENER)
        fd = -12
    if f.connection == NULL:
        pause(f, strerror(-fd))
        return False
    f.connection.fetcher = f
    session_begin(f)
    return True


cdef void fetcher_disconnected(Connection *c) noexcept nogil:
    cdef Fetcher *f = c.fetcher
    cdef int32_t i
    c.fetcher = NULL
    f.connection = NULL
    f.asks = ASKS_NOTHING
    session_begin(f)
    for i in range(f.count):
        if f.parts[i].state == FOLLOW_ASKING:
            f.parts[i].state = FOLLOW_FETCHING
    f.asking = 0
    f.renew_ms = 0
    if f.hurries:
        f.retry_ms = 0
        f.hurries = False
    elif f.count > 0:
        pause(f, b"it was closed")

# ---------------------------------------------------------------- secured connections


cdef void link_drop(FollowLink *link) noexcept nogil:
    if link == NULL:
        return
    if link.fd >= 0:
        close(link.fd)
    if link.tls != NULL:
        link.tls.calls.free(link.tls)
    free(link)


cdef void dial(Fetcher *f) noexcept nogil:
    """Has the control thread make a connection, unless it does so already."""
    if f.dial != 0 and f.reactor.now_ms < f.dial_due_ms:
        if f.connection == NULL:
            f.retry_ms = f.dial_due_ms
        return
    f.dials += 1
    if dial_order(f.reactor.plane, f.reactor.index, f.leader_id, f.number, f.dials):
        f.dial = f.dials
        f.dial_due_ms = f.reactor.now_ms + f.reactor.plane.replication.socket_timeout_ms + DIAL_GRACE_MS
        if f.connection == NULL:
            f.retry_ms = f.dial_due_ms
    elif f.connection == NULL:
        pause(f, b"no memory")


cdef bint take_link(Fetcher *f) noexcept nogil:
    """Begins to use the connection that the control thread has made."""
    cdef FollowLink *link = f.link
    cdef Connection *c = connection_open(f.reactor, link.fd, NO_LISTENER)
    f.link = NULL
    link.fd = -1
    if c == NULL:
        link_drop(link)
        pause(f, b"no memory")
        return False
    f.renew_ms = link.renew_ms
    c.tls = link.tls
    link.tls = NULL
    link_drop(link)
    f.connection = c
    c.fetcher = f
    session_begin(f)
    return True


cdef void fetcher_linked(Reactor *r, FollowLink *link) noexcept nogil:
    cdef Fetcher *f = r.fetchers
    while f != NULL and (f.leader_id != link.leader_id or f.number != link.number):
        f = f.next
    if f == NULL or f.dial != link.dial:                 # the broker has moved
        link_drop(link)
        return
    f.dial = 0
    if link.fd < 0:
        if f.connection == NULL and f.count > 0:
            pause(f, link.why)
        f.unasked = False                                # they wait for the answer to the request in flight
        if f.renew_ms > 0:
            f.renew_ms = r.now_ms + r.plane.replication.backoff_ms
        link_drop(link)
    elif f.count == 0 or (f.connection != NULL and not f.unasked and not renews(f)):
        link_drop(link)                                  # it was made for parts that are fetched already
    else:
        link_drop(f.link)
        f.link = link
        f.retry_ms = 0
        if f.connection != NULL and f.unasked:
            replace(f)


cdef bint renews(const Fetcher *f) noexcept nogil:
    """Whether the login of the connection ends soon."""
    return f.connection != NULL and 0 < f.renew_ms <= f.reactor.now_ms


cdef void replace(Fetcher *f) noexcept nogil:
    """Closes the connection. The next pass uses another one."""
    f.hurries = True
    connection_condemn(f.connection)

# ---------------------------------------------------------------- sending


cdef bint durable(Fetcher *f) noexcept nogil:
    """Whether all that was appended is on the medium. The fetch offset says so to the leader."""
    cdef const Log *log
    while f.synced < f.count:
        log = f.parts[f.synced].partition.log
        if not part_void(f.parts[f.synced]) and log.wal != NULL and not load_i32(&log.failed) \
                and not load_i32(&log.wal.failed) \
                and not may_claim(True, load_i64(&log.durable_end_offset), load_i64(&log.log_end_offset)):
            return False
        f.synced += 1
    return True


cdef void send(Fetcher *f) noexcept nogil:
    cdef Connection *c = f.connection
    cdef int64_t slot = -1 if f.request.failed else connection_open_slot(c)
    if slot < 0:
        connection_condemn(c)
        return
    f.sent_ms = f.reactor.now_ms
    f.unasked = False
    connection_answer_bytes(c, slot, f.request.data, f.request.size)


cdef void fetcher_run(Fetcher *f) noexcept nogil:
    cdef int64_t due_ms = FOLLOW_NEVER
    if f.asks != ASKS_NOTHING or f.retry_ms > f.reactor.now_ms or not durable(f):
        return
    if f.connection != NULL and f.connection.closing:
        return
    if f.count == 0:
        link_drop(f.link)
        f.link = NULL
    elif f.connection != NULL and f.link != NULL:
        replace(f)
        return
    if f.connection == NULL and f.count > 0 and not open_connection(f):
        return
    if f.asking > 0:
        write_list_offsets(f)
        if f.asks != ASKS_NOTHING:
            send(f)
            return
    if write_fetch(f, f.reactor.now_ms, &due_ms) > 0:
        send(f)
        return
    f.retry_ms = due_ms
    if f.count == 0 and f.connection != NULL:
        connection_condemn(f.connection)


cdef void hurry(Fetcher *f, int64_t *due_ms) noexcept nogil:
    """Fetches parts that were added while a Fetch waits at the leader over another connection: on this one the
    leader would answer the waiting one first. Until then no acks=all of these parts ends."""
    cdef Connection *c = f.connection
    if not f.unasked or f.asks != ASKS_FETCH or c == NULL or c.closing or c.end > c.start:
        return
    if f.reactor.now_ms < f.ordered_ms + HURRY_MS:
        due_ms[0] = min(due_ms[0], f.ordered_ms + HURRY_MS)
        return
    if f.reactor.plane.replication.is_secured:
        dial(f)
        return
    replace(f)


cdef void fetchers_run(Reactor *r) noexcept nogil:
    cdef Fetcher *f = r.fetchers
    cdef int64_t due_ms
    r.follow_due_ms = 0
    while f != NULL:
        if renews(f) and f.link == NULL:
            dial(f)
        fetcher_run(f)
        due_ms = f.retry_ms
        if f.asks != ASKS_NOTHING:
            due_ms = f.sent_ms + r.plane.replication.socket_timeout_ms
            if due_ms <= r.now_ms and f.connection != NULL and not f.connection.closing:
                connection_condemn(f.connection)         # a leader that hangs, or a link that is cut
            hurry(f, &due_ms)
        if f.connection != NULL and f.renew_ms > r.now_ms:
            due_ms = min(due_ms, f.renew_ms)
        if f.hurries:
            due_ms = r.now_ms + 1                        # the next pass connects
        if r.now_ms < due_ms < FOLLOW_NEVER and (r.follow_due_ms == 0 or due_ms < r.follow_due_ms):
            r.follow_due_ms = due_ms
        f = f.next

# ---------------------------------------------------------------- answers


cdef struct Answer:
    # One partition of a Fetch answer.
    int32_t index
    int16_t error
    int64_t high_watermark
    int64_t log_start_offset
    int32_t diverging_epoch         # -1: none
    int64_t diverging_end_offset
    uint8_t *records
    int64_t records_bytes


cdef void read_tags(Reader *body, Answer *answer) noexcept nogil:
    cdef uint32_t n = read_uvarint(body), tag, size
    cdef Reader value
    body.bad = body.bad or n > MAX_TAGS
    while n > 0 and not body.bad:
        tag = read_uvarint(body)
        size = read_uvarint(body)
        value.at = take(body, size)
        value.end = body.at
        value.bad = False
        if tag == 0 and not body.bad:                    # DivergingEpoch
            answer.diverging_epoch = read_i32(&value)
            answer.diverging_end_offset = read_i64(&value)
        n -= 1


cdef void read_answer(Reader *body, Answer *answer) noexcept nogil:
    cdef const uint8_t *at
    cdef int32_t n
    answer.index = read_i32(body)
    answer.error = read_i16(body)
    answer.high_watermark = read_i64(body)
    read_i64(body)                                       # last stable offset: followers have their own
    answer.log_start_offset = read_i64(body)
    n = read_count(body, True)                           # aborted transactions
    while n > 0 and not body.bad:
        take(body, 16)
        skip_tags(body)
        n -= 1
    read_i32(body)                                       # preferred read replica
    answer.records_bytes = read_bytes(body, True, &at)
    answer.records = <uint8_t *>at
    answer.diverging_epoch = -1
    read_tags(body, answer)


cdef bint asked_for_end(const FollowPart *part) noexcept nogil:
    cdef const Log *log = part.partition.log
    cdef int64_t log_end_offset = load_i64(&log.log_end_offset)
    return answer_follows(part.sent_offset, log_end_offset) or (
        part.sent_offset == part.first_offset and log_end_offset == load_i64(&log.log_start_offset))


cdef bint starts_within_batch(const FollowPart *part, const Answer *answer) noexcept nogil:
    """Whether the leader's log starts within a batch, which this empty log cannot take: it must begin where the batch
    does."""
    cdef const Log *log = part.partition.log
    cdef int64_t log_end_offset = load_i64(&log.log_end_offset)
    return (answer.records_bytes >= 8 and log_end_offset == load_i64(&log.log_start_offset)
            and part.sent_offset == log_end_offset and 0 <= load_be64(answer.records) < log_end_offset)


cdef void handle_part(Fetcher *f, FollowPart *part, Answer *answer) noexcept nogil:
    cdef int16_t error = answer.error
    if part.state != FOLLOW_FETCHING or part.sent_leader_epoch != part.leader_epoch:
        return                                           # the answer is for an earlier state
    if error == OFFSET_OUT_OF_RANGE:
        part.first_offset = 0
        part.state = FOLLOW_ASKING
        part.leader_end_offset = -1
        f.asking += 1
    elif error == 0 and answer.diverging_epoch >= 0:
        part_diverged(part, answer.diverging_epoch, answer.diverging_end_offset)
    elif error == 0 and starts_within_batch(part, answer):
        part.first_offset = part.sent_offset
        part_truncate(part, load_be64(answer.records), True)
    elif error == 0 and asked_for_end(part):
        error = follower_append(f.reactor, part, answer.records, answer.records_bytes, answer.high_watermark,
                                answer.log_start_offset)
        if error == 0:
            part.told_error = 0
            part.failures = 0
            if part.partition.follower_throttled:
                quota_record(&f.reactor.plane.replication.follower_quota, answer.records_bytes, f.reactor.now_ms)
    if error != 0 and error != OFFSET_OUT_OF_RANGE:
        part_fail(part, error)


cdef bint handle_fetch(Fetcher *f, Reader *body) noexcept nogil:
    cdef int16_t error
    cdef int32_t i, j, topics, parts, session_id
    cdef const uint8_t *id
    cdef FollowPart *part
    cdef Partition *p
    cdef Answer answer
    read_i32(body)                                       # throttle time
    error = read_i16(body)
    session_id = read_i32(body)
    topics = read_count(body, True)
    if body.bad:
        return False
    if error != 0:
        session_begin(f)
        return error in (FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR)
    if f.session_id == 0:
        f.session_id = session_id                        # stays 0 when the leader has no room for a session
    f.session_epoch = 0 if f.session_id == 0 else (f.session_epoch + 1 if f.session_epoch < 0x7FFFFFFF else 1)
    for i in range(topics):
        id = take(body, 16)
        parts = read_count(body, True)
        for j in range(parts):
            read_answer(body, &answer)
            if body.bad:
                return False
            p = topic_partition(topic_by_id(&f.reactor.plane.table, id), answer.index)
            part = part_of(f, p)
            if part == NULL:
                forget_partition(f, id, answer.index)
            else:
                handle_part(f, part, &answer)
        skip_tags(body)
    return not body.bad


cdef bint handle_list_offsets(Fetcher *f, Reader *body, bint end) noexcept nogil:
    """The request had one partition; the answer names it first."""
    cdef FollowPart *part = <FollowPart *>id_find(&f.reactor.follows, f.asked)
    cdef const uint8_t *at
    cdef int16_t error
    cdef int64_t offset
    read_i32(body)                                       # throttle time
    if read_count(body, True) != 1:
        return False
    read_string(body, True, &at)
    if read_count(body, True) != 1:
        return False
    read_i32(body)                                       # partition
    error = read_i16(body)
    read_i64(body)                                       # timestamp
    offset = read_i64(body)
    if body.bad:
        return False
    if part == NULL or part_void(part) or part.state != FOLLOW_ASKING:
        return True
    if error != 0 or offset < 0:
        part_fail(part, error if error != 0 else NOT_LEADER_OR_FOLLOWER)
    elif end:
        part.leader_end_offset = offset
    else:
        part_out_of_range(part, offset, part.leader_end_offset)
    return True


cdef bint handle(Fetcher *f, uint8_t *frame, int64_t size) noexcept nogil:
    cdef Reader body
    cdef int8_t asked = f.asks
    body.at = frame
    body.end = frame + size
    body.bad = False
    if read_i32(&body) != f.correlation_id or asked == ASKS_NOTHING:
        return False
    skip_tags(&body)
    f.asks = ASKS_NOTHING
    f.failures = 0
    f.synced = 0
    if asked == ASKS_FETCH:
        return handle_fetch(f, &body)
    return handle_list_offsets(f, &body, asked == ASKS_LEADER_END)


cdef void fetcher_received(Reactor *r, Connection *c) noexcept nogil:
    cdef Reader head
    cdef int64_t size
    while c.end - c.start >= 4 and not c.closing:
        head.at = c.buffer + c.start
        head.end = head.at + 4
        head.bad = False
        size = read_i32(&head)
        if size < 5:
            connection_condemn(c)
            return
        if c.end - c.start < 4 + size:
            return
        if not handle(c.fetcher, c.buffer + c.start + 4, size):
            connection_condemn(c)
        c.start += 4 + size

# ---------------------------------------------------------------- orders


cdef Fetcher *fetcher_for(Reactor *r, const FollowOrder *order) noexcept nogil:
    cdef Fetcher *f = r.fetchers
    while f != NULL and (f.leader_id != order.leader_id or f.number != order.number):
        f = f.next
    if f == NULL:
        f = <Fetcher *>calloc(1, sizeof(Fetcher))
        if f == NULL:
            return NULL
        f.reactor = r
        f.leader_id = order.leader_id
        f.number = order.number
        f.next = r.fetchers
        r.fetchers = f
    if f.port != order.port or strcmp(f.host, order.host) != 0:
        memcpy(f.host, order.host, sizeof(f.host))
        f.port = order.port
        if f.connection != NULL:                         # the broker has moved
            connection_condemn(f.connection)
        link_drop(f.link)
        f.link = NULL
        f.dial = 0
        f.failures = 0
    return f


cdef void fetchers_order(Reactor *r, FollowOrder *order) noexcept nogil:
    cdef Fetcher *f
    if order.partition == NULL:
        f = r.fetchers
        while f != NULL:
            if f.retry_ms == FOLLOW_NEVER or f.throttled:
                f.retry_ms = 0
            f = f.next
        order_drop(order)
        return
    f = fetcher_for(r, order)
    if f == NULL:
        order_drop(order)
        return
    part_begin(f, order)
    f.retry_ms = 0
    f.ordered_ms = r.now_ms
    f.unasked = True


cdef void fetchers_free(Reactor *r) noexcept nogil:
    cdef Fetcher *f
    cdef int32_t i
    while r.fetchers != NULL:
        f = r.fetchers
        r.fetchers = f.next
        for i in range(f.count):
            part_free(f.parts[i])
        free(f.parts)
        link_drop(f.link)
        writer_free(&f.request)
        writer_free(&f.forgotten)
        free(f)
    free(r.follows.items)
    free(r.follows.generations)
    free(r.follows.free)
