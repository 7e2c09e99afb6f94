"""Keeps the partitions of a fetch, and incremental fetch sessions (KIP-227).

A session belongs to the reactor that created it; the session id contains the reactor's index. A consumer that reconnects
to another reactor gets FETCH_SESSION_ID_NOT_FOUND and opens a new session, as after a broker restart.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset
from bowstring._native.base.atomics cimport bump_i64, store_i32
from bowstring._native.base.clock cimport monotonic_ns
from bowstring._native.base.wire cimport Reader, read_count, read_i32, read_i64, read_string, skip_tags, take
from bowstring._native.log cimport cursor_forget
from bowstring._native.server.fetch_disk cimport cold_abandon
from bowstring._native.server.topic_table cimport partition_release
from bowstring._native.server.connection_types cimport Connection
from bowstring._native.server.fetch_types cimport (
    FETCH_ENTRIES_MAX, FetchPart, FetchSession, FetchSet, FetchTopic, Places)
from bowstring._native.server.reactor_types cimport SESSION_BUCKETS, Reactor

cdef enum:
    LARGE_SESSION_BYTES = 65536
    SEARCHED_MAX = 32               # up to this many topics or partitions are searched without a hash table
    GONE = -1                       # topic of a partition that the request removes

# ---------------------------------------------------------------- finding topics and partitions
#
# Clients keep the order of their partitions, so the entry after the last one is tried first. Beyond SEARCHED_MAX entries a
# hash table finds the others: a request may name tens of thousands.


cdef uint64_t hash_seed = <uint64_t>monotonic_ns() * <uint64_t>0xD6E8FEB86659FD93   # random, so that clients cannot prepare collisions


cdef uint64_t mix(uint64_t h, uint64_t more) noexcept nogil:
    h = (h ^ more) * <uint64_t>0x9E3779B97F4A7C15
    return h ^ (h >> 29)


cdef uint32_t hash_key(const uint8_t *data, int64_t n) noexcept nogil:
    cdef uint64_t h = mix(hash_seed, <uint64_t>n), word
    while n >= 8:
        memcpy(&word, data, 8)
        h = mix(h, word)
        data += 8
        n -= 8
    word = 0
    memcpy(&word, data, n)
    return <uint32_t>(mix(h, word) >> 16)


cdef uint32_t hash_topic(const FetchTopic *topic) noexcept nogil:
    return hash_key(topic.id, 16) if topic.name == NULL else hash_key(topic.name, topic.name_length)


cdef uint32_t hash_part(int32_t topic, int32_t index) noexcept nogil:
    return <uint32_t>(mix(hash_seed, (<uint64_t>topic << 32) | <uint32_t>index) >> 16)


cdef void place_enter(Places *places, uint32_t hash, int32_t i) noexcept nogil:
    cdef uint32_t at = hash & places.mask
    while places.slots[at] != 0:
        at = (at + 1) & places.mask
    places.slots[at] = i + 1


cdef void places_drop(Places *places) noexcept nogil:
    free(places.slots)
    places.slots = NULL
    places.mask = 0


cdef bint places_renew(Places *places, int32_t count, bint *fresh) noexcept nogil:
    """Makes room for one more than `count` entries, at a load of at most one half. Sets *fresh if all entries must be
    inserted again. False when memory ran out."""
    cdef uint32_t size = 4 * SEARCHED_MAX
    fresh[0] = False
    if count < SEARCHED_MAX or (places.slots != NULL and 2 * (<uint32_t>count + 1) <= places.mask + 1):
        return True
    while size < 4 * (<uint32_t>count + 1):
        size *= 2
    places_drop(places)
    places.slots = <int32_t *>calloc(size, sizeof(int32_t))
    if places.slots == NULL:
        return False
    places.mask = size - 1
    fresh[0] = True
    return True


cdef bint topic_is(const FetchTopic *topic, const uint8_t *name, int32_t length, const uint8_t *id) noexcept nogil:
    if id != NULL:
        return topic.name == NULL and memcmp(topic.id, id, 16) == 0
    return topic.name != NULL and topic.name_length == length and memcmp(topic.name, name, length) == 0


cdef int32_t find_topic(const FetchSet *s, const uint8_t *name, int32_t length, const uint8_t *id,
                        int32_t hint) noexcept nogil:
    cdef int32_t k, i
    cdef uint32_t at
    if hint < s.topic_count and topic_is(&s.topics[hint], name, length, id):
        return hint
    if s.topic_places.slots == NULL:
        for k in range(s.topic_count):
            i = (hint + k) % s.topic_count
            if topic_is(&s.topics[i], name, length, id):
                return i
        return -1
    at = (hash_key(id, 16) if id != NULL else hash_key(name, length)) & s.topic_places.mask
    while s.topic_places.slots[at] != 0:
        if topic_is(&s.topics[s.topic_places.slots[at] - 1], name, length, id):
            return s.topic_places.slots[at] - 1
        at = (at + 1) & s.topic_places.mask
    return -1


cdef int32_t set_find(const FetchSet *s, int32_t topic, int32_t index, int32_t hint) noexcept nogil:
    cdef int32_t k, i
    if hint < s.part_count and s.parts[hint].topic == topic and s.parts[hint].index == index:
        return hint
    if s.part_places.slots != NULL:
        return look_up(s, topic, index)
    for k in range(s.part_count):
        i = (hint + k) % s.part_count
        if s.parts[i].topic == topic and s.parts[i].index == index:
            return i
    return -1


cdef int32_t look_up(const FetchSet *s, int32_t topic, int32_t index) noexcept nogil:
    cdef int32_t i
    cdef uint32_t at = hash_part(topic, index) & s.part_places.mask
    while s.part_places.slots[at] != 0:
        i = s.part_places.slots[at] - 1
        if s.parts[i].topic == topic and s.parts[i].index == index:
            return i
        at = (at + 1) & s.part_places.mask
    return -1

# ---------------------------------------------------------------- the partitions of a fetch


cdef bint topic_fill(FetchTopic *topic, const uint8_t *name, int32_t length, const uint8_t *id) noexcept nogil:
    memset(topic, 0, sizeof(FetchTopic))
    if id != NULL:
        memcpy(topic.id, id, 16)
        return True
    topic.name = <uint8_t *>malloc(length + 1)
    if topic.name == NULL:
        return False
    memcpy(topic.name, name, length)
    topic.name_length = length
    return True


cdef int32_t set_topic(FetchSet *s, const uint8_t *name, int32_t length, const uint8_t *id, int32_t hint,
                       bint add) noexcept nogil:
    """Returns the index of the topic, searched from `hint` on; -1: it is absent, or memory ran out."""
    cdef int32_t i = find_topic(s, name, length, id, hint)
    cdef FetchTopic *grown
    cdef bint fresh
    if i >= 0 or not add:
        return i
    if s.topic_count >= FETCH_ENTRIES_MAX:
        return -1
    if s.topic_count == s.topic_capacity:
        grown = <FetchTopic *>realloc(s.topics, (s.topic_capacity * 2 + 4) * sizeof(FetchTopic))
        if grown == NULL:
            return -1
        s.topics = grown
        s.topic_capacity = s.topic_capacity * 2 + 4
    if not places_renew(&s.topic_places, s.topic_count, &fresh) \
            or not topic_fill(&s.topics[s.topic_count], name, length, id):
        return -1
    s.topic_count += 1
    s.name_bytes += length if id == NULL else 0
    if s.topic_places.slots != NULL:
        for i in range(0 if fresh else s.topic_count - 1, s.topic_count):
            place_enter(&s.topic_places, hash_topic(&s.topics[i]), i)
    return s.topic_count - 1


cdef void enter_parts(FetchSet *s, int32_t first) noexcept nogil:
    cdef int32_t i
    if s.part_places.slots != NULL:
        for i in range(first, s.part_count):
            place_enter(&s.part_places, hash_part(s.parts[i].topic, s.parts[i].index), i)


cdef bint reserve_parts(FetchSet *s, int64_t n) noexcept nogil:
    """Makes room for `n` more partitions. False when memory ran out, or if they are too many."""
    cdef FetchPart *grown
    cdef int64_t capacity = s.part_count + n
    if capacity > FETCH_ENTRIES_MAX:
        return False
    if capacity <= s.part_capacity:
        return True
    if capacity < 2 * s.part_capacity:                   # grow by several at a time
        capacity = 2 * s.part_capacity
    grown = <FetchPart *>realloc(s.parts, <size_t>capacity * sizeof(FetchPart))
    if grown == NULL:
        return False
    s.parts = grown
    s.part_capacity = <int32_t>capacity
    return True


cdef FetchPart *set_add(FetchSet *s, int32_t topic, int32_t index) noexcept nogil:
    cdef FetchPart *part
    cdef bint fresh
    if s.part_count == s.part_capacity and not reserve_parts(s, 1):
        return NULL
    if not places_renew(&s.part_places, s.part_count, &fresh):
        return NULL
    part = &s.parts[s.part_count]
    s.part_count += 1
    memset(part, 0, sizeof(FetchPart))
    part.topic = topic
    part.index = index
    forget_place(part)
    enter_parts(s, 0 if fresh else s.part_count - 1)
    return part


cdef void forget_place(FetchPart *part) noexcept nogil:
    """Clears the reader's position in the log, and the offsets sent to it."""
    cursor_forget(&part.cursor)
    part.sent_high_watermark = part.sent_log_start_offset = -1


cdef void read_part(FetchPart *part, Reader *body, int16_t version) noexcept nogil:
    """Reads the fields after the partition index."""
    part.current_leader_epoch = read_i32(body) if version >= 9 else -1
    part.fetch_offset = read_i64(body)
    part.last_fetched_epoch = read_i32(body) if version >= 12 else -1
    if version >= 5:
        part.follower_start_offset = read_i64(body)
    part.max_bytes = read_i32(body)
    if version >= 12:
        skip_tags(body)


cdef bint set_read_topics(FetchSet *s, Reader *body, int16_t version) noexcept nogil:
    """Reads FetchRequest.Topics into the set: adds partitions or updates existing ones. If a partition is named twice, the
    last row is used, as in Kafka. False: the request is malformed, or has too many partitions."""
    cdef bint flexible = version >= 12
    cdef int32_t topics = read_count(body, flexible), parts, i, j, topic = 0, index, found = -1, length = 0
    cdef const uint8_t *name = NULL
    cdef const uint8_t *id = NULL
    cdef FetchPart *part
    if topics > FETCH_ENTRIES_MAX:
        return False
    for i in range(topics):
        if version >= 13:
            id = take(body, 16)
        else:
            length = read_string(body, flexible, &name)
        if body.bad or (version < 13 and length < 0):
            return False
        topic = set_topic(s, name, length, id, topic, True)
        parts = read_count(body, flexible)
        if topic < 0 or parts < 0 or (parts > s.part_count and not reserve_parts(s, parts - s.part_count)):
            return False
        for j in range(parts):
            index = read_i32(body)
            found = set_find(s, topic, index, found + 1)
            part = &s.parts[found] if found >= 0 else set_add(s, topic, index)
            if part == NULL:
                return False
            read_part(part, body, version)
            if body.bad:
                return False
        if flexible:
            skip_tags(body)
    return not body.bad and topics >= 0


cdef bint set_read_forgotten(FetchSet *s, Reader *body, int16_t version) noexcept nogil:
    """Reads FetchRequest.ForgottenTopicsData and removes its partitions from the set."""
    cdef bint gone = False
    cdef bint ok = mark_forgotten(s, body, version, &gone)
    return (not gone or close_gaps(s)) and ok


cdef bint mark_forgotten(FetchSet *s, Reader *body, int16_t version, bint *gone) noexcept nogil:
    cdef bint flexible = version >= 12
    cdef int32_t topics = read_count(body, flexible), parts, i, j, topic, index, found = -1, length = 0
    cdef int64_t named = 0
    cdef const uint8_t *name = NULL
    cdef const uint8_t *id = NULL
    for i in range(topics):
        if version >= 13:
            id = take(body, 16)
        else:
            length = read_string(body, flexible, &name)
        if body.bad or (version < 13 and length < 0):
            return False
        topic = set_topic(s, name, length, id, 0, False)
        parts = read_count(body, flexible)
        named += 1 + parts
        if named > FETCH_ENTRIES_MAX:
            return False
        for j in range(parts):
            index = read_i32(body)
            found = set_find(s, topic, index, found + 1) if topic >= 0 else -1
            if found >= 0:
                part_drop_partition(&s.parts[found])
                s.parts[found].topic = GONE
                gone[0] = True
        if flexible:
            skip_tags(body)
    return not body.bad


cdef bint close_gaps(FetchSet *s) noexcept nogil:
    """Removes the partitions marked GONE. False when memory ran out."""
    cdef FetchPart *shrunk
    cdef int32_t i, kept = 0
    cdef bint fresh
    for i in range(s.part_count):
        if s.parts[i].topic != GONE:
            if kept < i:
                s.parts[kept] = s.parts[i]
            kept += 1
    s.part_count = kept
    if s.part_capacity > 4 * SEARCHED_MAX and kept < s.part_capacity // 4:
        shrunk = <FetchPart *>realloc(s.parts, 2 * <size_t>(kept + 1) * sizeof(FetchPart))
        if shrunk != NULL:
            s.parts = shrunk
            s.part_capacity = 2 * (kept + 1)
    places_drop(&s.part_places)
    if not places_renew(&s.part_places, kept, &fresh):
        return False
    enter_parts(s, 0)
    return True


cdef void part_drop_partition(FetchPart *part) noexcept nogil:
    cold_abandon(part)
    if part.partition != NULL:
        partition_release(part.partition)
        part.partition = NULL
        forget_place(part)                               # a new partition of this name has another log


cdef int64_t set_bytes(const FetchSet *s) noexcept nogil:
    return (s.part_capacity * <int64_t>sizeof(FetchPart) + s.topic_capacity * <int64_t>sizeof(FetchTopic) + s.name_bytes
            + 4 * (<int64_t>s.topic_places.mask + s.part_places.mask))


cdef void set_free(FetchSet *s) noexcept nogil:
    cdef int32_t i
    for i in range(s.part_count):
        part_drop_partition(&s.parts[i])
    for i in range(s.topic_count):
        free(s.topics[i].name)
    free(s.parts)
    free(s.topics)
    places_drop(&s.topic_places)
    places_drop(&s.part_places)
    memset(s, 0, sizeof(FetchSet))

# ---------------------------------------------------------------- sessions


cdef FetchSession *session_find(Reactor *r, int32_t id) noexcept nogil:
    cdef FetchSession *session
    if r.sessions == NULL:
        return NULL
    session = r.sessions[<uint32_t>id % SESSION_BUCKETS]
    while session != NULL and session.id != id:
        session = session.next
    return session


cdef bint make_room(Reactor *r, int64_t bytes) noexcept nogil:
    """Removes the session that was unused the longest, if it was idle long enough. As in Kafka, except that Kafka prefers
    followers."""
    while r.session_count >= r.plane.session_slots or r.session_bytes + bytes > r.plane.session_bytes_max:
        if not evict_oldest(r):
            return False
    return True


cdef bint evict_oldest(Reactor *r) noexcept nogil:
    cdef FetchSession *oldest = NULL
    cdef FetchSession *session
    cdef int i
    for i in range(SESSION_BUCKETS):
        session = r.sessions[i]
        while session != NULL:
            if session.waiting == NULL and (oldest == NULL or session.last_used_ms < oldest.last_used_ms):
                oldest = session
            session = session.next
    if oldest == NULL or r.now_ms - oldest.last_used_ms < r.plane.session_min_idle_ms:
        return False
    session_remove(r, oldest)
    return True


cdef int32_t fresh_id(Reactor *r) noexcept nogil:
    """Returns a positive id that is not in use; its remainder is this reactor's index."""
    cdef int32_t id = 0
    while id == 0 or session_find(r, id) != NULL:
        r.session_seed = r.session_seed * 1664525u + 1013904223u
        id = <int32_t>((r.session_seed >> 1) // r.plane.reactor_count * r.plane.reactor_count + r.index)
        if id < 0:
            id = 0
    return id


cdef FetchSession *session_create(Reactor *r, FetchSet *contents) noexcept nogil:
    """Creates a session that owns `contents`. NULL, with contents unchanged, when the cache is full of busier sessions, or
    `contents` are too large for one session."""
    cdef FetchSession *session
    cdef FetchSession **bucket
    cdef int64_t bytes = sizeof(FetchSession) + set_bytes(contents)
    if r.sessions == NULL:
        r.sessions = <FetchSession **>calloc(SESSION_BUCKETS, sizeof(FetchSession *))
        if r.sessions == NULL:
            return NULL
    if bytes > r.plane.session_bytes_max // 4 or not make_room(r, bytes):
        return NULL
    session = <FetchSession *>calloc(1, sizeof(FetchSession))
    if session == NULL:
        return NULL
    session.id = fresh_id(r)
    session.epoch = 1
    session.set = contents[0]
    memset(contents, 0, sizeof(FetchSet))
    session.last_used_ms = r.now_ms
    session.bytes = bytes
    bump_i64(&r.session_bytes, bytes)
    bucket = &r.sessions[<uint32_t>session.id % SESSION_BUCKETS]
    session.next = bucket[0]
    bucket[0] = session
    store_i32(&r.session_count, r.session_count + 1)
    return session


cdef void session_remove(Reactor *r, FetchSession *session) noexcept nogil:
    """Frees a session that no request waits on."""
    cdef FetchSession **at = &r.sessions[<uint32_t>session.id % SESSION_BUCKETS]
    while at[0] != session:
        at = &at[0].next
    at[0] = session.next
    store_i32(&r.session_count, r.session_count - 1)
    bump_i64(&r.session_bytes, -session.bytes)
    set_free(&session.set)
    free(session)


cdef bint session_changed(Reactor *r, FetchSession *session) noexcept nogil:
    cdef int64_t bytes = sizeof(FetchSession) + set_bytes(&session.set)
    bump_i64(&r.session_bytes, bytes - session.bytes)
    session.bytes = bytes
    return bytes <= r.plane.session_bytes_max // 4 and r.session_bytes <= r.plane.session_bytes_max


cdef void session_used(FetchSession *session, Connection *c) noexcept nogil:
    session.connection_id = c.id
    if session.bytes >= LARGE_SESSION_BYTES:
        c.large_session = True


cdef void sessions_leave(Reactor *r, int64_t connection_id) noexcept nogil:
    cdef FetchSession *session
    cdef FetchSession *following
    cdef int i
    for i in range(SESSION_BUCKETS):
        session = r.sessions[i]
        while session != NULL:
            following = session.next
            if session.connection_id == connection_id and session.waiting == NULL \
                    and session.bytes >= LARGE_SESSION_BYTES:
                session_remove(r, session)
            session = following
