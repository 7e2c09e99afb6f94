"""Writes the requests of fetchers, see fetcher_requests.pxd."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memmove
from bowstring._native.base.atomics cimport load_i32, load_i64
from bowstring._native.base.bigendian cimport load_be32
from bowstring._native.base.wire cimport (
    Writer, patch_i32, put_count, put_i16, put_i32, put_i64, put_i8, put_raw, put_string, put_tags, put_uvarint)
from bowstring._native.replica.replica_quota cimport quota_wait_ms
from bowstring._native.server.followed_partitions cimport FOLLOW_NEVER, part_free, part_of, part_void
from bowstring._native.server.topic_table cimport topic_by_id, topic_partition
from bowstring._native.server.follow_types cimport (
    ASKS_FETCH, ASKS_LEADER_END, ASKS_LEADER_START, FOLLOW_ASKING, FOLLOW_DELAYED, FOLLOW_FETCHING, FollowPart)
from bowstring._native.server.partition_types cimport Partition
from bowstring._native.server.replication_settings cimport ReplicationSettings

cdef enum:
    KEY_FETCH = 1
    KEY_LIST_OFFSETS = 2
    FETCH_SENT_VERSION = 17         # topic ids, the follower's epoch in a tagged field
    LIST_OFFSETS_SENT_VERSION = 7
    TAG_REPLICA_STATE = 1
    REPLICA_STATE_BYTES = 13
    NAMED_BYTES = 20                # of an entry of Fetcher.forgotten
    TIMESTAMP_LATEST = -1
    SETTLING_MS = 1000              # after a part was added others may follow: changes of the cluster come in slices
    SETTLING_WAIT_MS = 20           # so long a Fetch waits at the leader meanwhile
    TIMESTAMP_EARLIEST = -2


cdef void write_header(Fetcher *f, int16_t api_key, int16_t version) noexcept nogil:
    cdef Writer *w = &f.request
    w.size = 0
    w.failed = False
    f.correlation_id = (f.correlation_id + 1) & 0x7FFFFFFF
    put_i32(w, 0)                                        # length, patched by seal()
    put_i16(w, api_key)
    put_i16(w, version)
    put_i32(w, f.correlation_id)
    put_string(w, False, b"replica", 7)                  # client id
    put_tags(w, True)


cdef void seal(Writer *w) noexcept nogil:
    if not w.failed:
        patch_i32(w.data, <int32_t>(w.size - 4))


cdef void forget_partition(Fetcher *f, const void *topic_id, int index) noexcept nogil:
    put_raw(&f.forgotten, topic_id, 16)
    put_i32(&f.forgotten, index)


cdef void session_begin(Fetcher *f) noexcept nogil:
    cdef int32_t i
    f.session_id = f.session_epoch = 0
    f.forgotten.size = 0
    f.forgotten.failed = False
    for i in range(f.count):
        f.parts[i].in_session = False


cdef void choose_offsets(FollowPart *part) noexcept nogil:
    """Sets the request's values of the partition; `included` if the session does not have them yet."""
    cdef Partition *p = part.partition
    cdef int64_t offset = load_i64(&p.log.log_end_offset), start_offset = load_i64(&p.log.log_start_offset)
    cdef int32_t epoch = load_i32(&p.log.leader_epoch)
    if part.first_offset > offset and offset == start_offset:
        offset = part.first_offset                       # the leader has deleted what is before it
    part.included = (not part.in_session or part.sent_offset != offset or part.sent_start_offset != start_offset
                     or part.sent_fetched_epoch != epoch or part.sent_leader_epoch != part.leader_epoch)
    if part.included:
        part.in_session = True
        part.sent_offset = offset
        part.sent_start_offset = start_offset
        part.sent_fetched_epoch = epoch
        part.sent_leader_epoch = part.leader_epoch


cdef bint throttled(const Partition *p) noexcept nogil:
    """Whether the follower's quota counts: its replica lags behind the leader."""
    cdef int64_t high_watermark = load_i64(&p.leader_high_watermark)
    return p.follower_throttled and (high_watermark < 0 or load_i64(&p.log.log_end_offset) < high_watermark)


cdef void forget_rest(Fetcher *f) noexcept nogil:
    """Removes from the session what this request does not include."""
    cdef FollowPart *part
    cdef int32_t i
    for i in range(f.count):
        part = f.parts[i]
        if part.in_session and not part.fetching:
            forget_partition(f, part.topic_id, part.partition.index)
            part.in_session = False


cdef int choose_parts(Fetcher *f, int64_t now_ms, int64_t *due_ms) noexcept nogil:
    cdef FollowPart *part
    cdef int32_t i, kept = 0
    cdef int fetching = 0
    cdef int64_t wait_ms = quota_wait_ms(&f.reactor.plane.replication.follower_quota, now_ms)
    due_ms[0] = FOLLOW_NEVER
    f.throttled = False
    for i in range(f.count):
        part = f.parts[i]
        if part_void(part):
            if part.in_session:
                forget_partition(f, part.topic_id, part.partition.index)
            part_free(part)
            continue
        f.parts[kept] = part
        kept += 1
        part.included = part.fetching = False
        if part.state == FOLLOW_DELAYED and part.due_ms <= now_ms:
            if load_i32(&part.partition.log.failed):     # nothing can be appended until it is healed
                part.due_ms = now_ms + f.reactor.plane.replication.backoff_ms
            else:
                part.state = FOLLOW_FETCHING
        if part.state == FOLLOW_FETCHING and wait_ms > 0 and throttled(part.partition):
            f.throttled = True
            due_ms[0] = min(due_ms[0], now_ms + wait_ms)
        elif part.state == FOLLOW_FETCHING:
            part.fetching = True
            choose_offsets(part)
            fetching += 1
        elif part.state == FOLLOW_DELAYED and part.due_ms < due_ms[0]:
            due_ms[0] = part.due_ms
    f.count = kept
    if fetching > 0:
        forget_rest(f)
    return fetching


cdef void put_parts(Fetcher *f) noexcept nogil:
    """Writes the included partitions. Adjacent ones of a topic share its entry."""
    cdef Writer *w = &f.request
    cdef const ReplicationSettings *settings = &f.reactor.plane.replication
    cdef const uint8_t *last = NULL
    cdef int32_t i, k, run, runs = 0
    for i in range(f.count):
        if f.parts[i].included:
            if last == NULL or memcmp(last, f.parts[i].topic_id, 16) != 0:
                runs += 1
            last = f.parts[i].topic_id
    put_count(w, True, runs)
    i = 0
    while i < f.count:
        if not f.parts[i].included:
            i += 1
            continue
        k = i
        run = 0
        while k < f.count and (not f.parts[k].included or memcmp(f.parts[i].topic_id, f.parts[k].topic_id, 16) == 0):
            run += f.parts[k].included
            k += 1
        put_raw(w, f.parts[i].topic_id, 16)
        put_count(w, True, run)
        while i < k:
            if f.parts[i].included:
                put_part(w, f.parts[i], settings.part_max_bytes)
            i += 1
        put_tags(w, True)


cdef void put_part(Writer *w, const FollowPart *part, int32_t max_bytes) noexcept nogil:
    put_i32(w, part.partition.index)
    put_i32(w, part.sent_leader_epoch)
    put_i64(w, part.sent_offset)
    put_i32(w, part.sent_fetched_epoch)
    put_i64(w, part.sent_start_offset)
    put_i32(w, max_bytes)
    put_tags(w, True)


cdef void keep_included(Fetcher *f) noexcept nogil:
    """Forgets no partition that is to be in the session: a leader adds first and removes then, and the partition would be
    out of the session. It left since the last request, and came back before this one."""
    cdef FollowPart *part
    cdef const uint8_t *entry
    cdef int64_t at = 0, kept = 0
    cdef int32_t index
    while at < f.forgotten.size:
        entry = f.forgotten.data + at
        index = load_be32(entry + 16)
        part = part_of(f, topic_partition(topic_by_id(&f.reactor.plane.table, entry), index))
        if part == NULL or not part.in_session:
            memmove(f.forgotten.data + kept, entry, NAMED_BYTES)
            kept += NAMED_BYTES
        at += NAMED_BYTES
    f.forgotten.size = kept


cdef void put_forgotten(Fetcher *f) noexcept nogil:
    cdef Writer *w = &f.request
    cdef int64_t at = 0
    put_count(w, True, <int32_t>(f.forgotten.size // NAMED_BYTES))
    while at < f.forgotten.size:
        put_raw(w, f.forgotten.data + at, 16)
        put_count(w, True, 1)
        put_raw(w, f.forgotten.data + at + 16, 4)
        put_tags(w, True)
        at += NAMED_BYTES
    f.forgotten.size = 0


cdef int write_fetch(Fetcher *f, int64_t now_ms, int64_t *due_ms) noexcept nogil:
    cdef const ReplicationSettings *settings = &f.reactor.plane.replication
    cdef Writer *w = &f.request
    cdef int fetching
    if f.session_id == 0:
        session_begin(f)
    fetching = choose_parts(f, now_ms, due_ms)
    if fetching == 0:
        return 0
    if f.session_id == 0:
        f.forgotten.size = 0
    keep_included(f)
    write_header(f, KEY_FETCH, FETCH_SENT_VERSION)
    put_i32(w, min(settings.wait_max_ms, SETTLING_WAIT_MS) if now_ms < f.ordered_ms + SETTLING_MS
            else settings.wait_max_ms)
    put_i32(w, settings.min_bytes)
    put_i32(w, settings.response_max_bytes)
    put_i8(w, 0)                                         # isolation level: of consumers only
    put_i32(w, f.session_id)
    put_i32(w, f.session_epoch)
    put_parts(f)
    put_forgotten(f)
    put_uvarint(w, 1)                                    # rack id: empty
    put_uvarint(w, 1)                                    # one tagged field
    put_uvarint(w, TAG_REPLICA_STATE)
    put_uvarint(w, REPLICA_STATE_BYTES)
    put_i32(w, settings.broker_id)
    put_i64(w, settings.broker_epoch)
    put_tags(w, True)
    seal(w)
    f.asks = ASKS_FETCH
    return fetching


cdef void write_list_offsets(Fetcher *f) noexcept nogil:
    cdef Writer *w = &f.request
    cdef FollowPart *part = NULL
    cdef int32_t i
    for i in range(f.count):
        if f.parts[i].state == FOLLOW_ASKING and not part_void(f.parts[i]):
            part = f.parts[i]
            break
    if part == NULL:                                     # they are over: the next fetch frees them
        f.asking = 0
        return
    f.asked = part.id
    f.asks = ASKS_LEADER_END if part.leader_end_offset < 0 else ASKS_LEADER_START
    write_header(f, KEY_LIST_OFFSETS, LIST_OFFSETS_SENT_VERSION)
    put_i32(w, f.reactor.plane.replication.broker_id)
    put_i8(w, 0)
    put_count(w, True, 1)
    put_string(w, True, part.partition.topic.name, part.partition.topic.name_length)
    put_count(w, True, 1)
    put_i32(w, part.partition.index)
    put_i32(w, part.leader_epoch)
    put_i64(w, TIMESTAMP_LATEST if f.asks == ASKS_LEADER_END else TIMESTAMP_EARLIEST)
    put_tags(w, True)
    put_tags(w, True)
    put_tags(w, True)
    seal(w)
