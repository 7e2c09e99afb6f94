"""The partitions of a fetch, and incremental fetch sessions (KIP-227).

A session belongs to the reactor that made it; its id says which. A consumer that reconnects to another
reactor is told FETCH_SESSION_ID_NOT_FOUND and opens a new one, as after a broker restart.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memmove, memset
from bowstring._native.partition cimport partition_release
from bowstring._native.plane cimport FetchPart, FetchSession, FetchSet, FetchTopic, Reactor
from bowstring._native.wire cimport Reader, read_count, read_i32, read_i64, read_string, skip_tags, take

cdef enum:
    SESSION_BUCKETS = 1024

# ---------------------------------------------------------------- the partitions of a fetch


cdef int32_t set_topic(FetchSet *s, const uint8_t *name, int32_t length, const uint8_t *id, int32_t hint,
                       bint add) noexcept nogil:
    """Index of the topic, looked for from `hint` on (clients keep their order); -1 when absent or out of memory."""
    cdef int32_t k, i
    cdef FetchTopic *topic
    cdef FetchTopic *grown
    for k in range(s.topic_count):
        i = (hint + k) % s.topic_count
        topic = &s.topics[i]
        if id != NULL:
            if memcmp(topic.id, id, 16) == 0:
                return i
        elif topic.name_length == length and memcmp(topic.name, name, length) == 0:
            return i
    if not add:
        return -1
    if s.topic_count == s.topic_capacity:
        grown = <FetchTopic *>realloc(s.topics, (s.topic_capacity * 2 + 4) * sizeof(FetchTopic))
        if grown == NULL:
            return -1
        s.topics = grown
        s.topic_capacity = s.topic_capacity * 2 + 4
    topic = &s.topics[s.topic_count]
    memset(topic, 0, sizeof(FetchTopic))
    if id != NULL:
        memcpy(topic.id, id, 16)
    else:
        topic.name = <uint8_t *>malloc(length + 1)
        if topic.name == NULL:
            return -1
        memcpy(topic.name, name, length)
        topic.name_length = length
    s.topic_count += 1
    return s.topic_count - 1


cdef int32_t set_find(const FetchSet *s, int32_t topic, int32_t index, int32_t hint) noexcept nogil:
    cdef int32_t k, i
    for k in range(s.part_count):
        i = (hint + k) % s.part_count
        if s.parts[i].topic == topic and s.parts[i].index == index:
            return i
    return -1


cdef FetchPart *set_add(FetchSet *s, int32_t topic, int32_t index) noexcept nogil:
    cdef FetchPart *grown
    cdef FetchPart *part
    if s.part_count == s.part_capacity:
        grown = <FetchPart *>realloc(s.parts, (s.part_capacity * 2 + 4) * sizeof(FetchPart))
        if grown == NULL:
            return NULL
        s.parts = grown
        s.part_capacity = s.part_capacity * 2 + 4
    part = &s.parts[s.part_count]
    s.part_count += 1
    memset(part, 0, sizeof(FetchPart))
    part.topic = topic
    part.index = index
    part.cursor.segment_base_offset = part.cursor.offset = part.cursor.position = part.cursor.truncations = -1
    part.sent_high_watermark = part.sent_log_start_offset = -1
    return part


cdef void read_part(FetchPart *part, Reader *body, int16_t version) noexcept nogil:
    """The fields after the partition index."""
    part.current_leader_epoch = read_i32(body) if version >= 9 else -1
    part.fetch_offset = read_i64(body)
    part.last_fetched_epoch = read_i32(body) if version >= 12 else -1
    if version >= 5:
        read_i64(body)                                   # log start offset: followers only
    part.max_bytes = read_i32(body)
    if version >= 12:
        skip_tags(body)


cdef bint set_read_topics(FetchSet *s, Reader *body, int16_t version, bint update) noexcept nogil:
    """Reads FetchRequest.Topics into the set: adds, or with `update` changes those already there."""
    cdef bint flexible = version >= 12
    cdef int32_t topics = read_count(body, flexible), parts, i, j, topic = 0, index, found = -1, length = 0
    cdef const uint8_t *name = NULL
    cdef const uint8_t *id = NULL
    cdef FetchPart *part
    for i in range(topics):
        if version >= 13:
            id = take(body, 16)
        else:
            length = read_string(body, flexible, &name)
        if body.bad or (version < 13 and length < 0):
            return False
        topic = set_topic(s, name, length, id, topic, True)
        parts = read_count(body, flexible)
        if topic < 0 or parts < 0:
            return False
        for j in range(parts):
            index = read_i32(body)
            found = set_find(s, topic, index, found + 1) if update else -1
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
    """Reads FetchRequest.ForgottenTopicsData and takes its partitions out of the set."""
    cdef bint flexible = version >= 12
    cdef int32_t topics = read_count(body, flexible), parts, i, j, topic, index, found, length = 0
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
        for j in range(parts):
            index = read_i32(body)
            found = set_find(s, topic, index, 0) if topic >= 0 else -1
            if found >= 0:
                part_drop_partition(&s.parts[found])
                s.part_count -= 1
                memmove(&s.parts[found], &s.parts[found + 1], (s.part_count - found) * sizeof(FetchPart))
        if flexible:
            skip_tags(body)
    return not body.bad


cdef void part_drop_partition(FetchPart *part) noexcept nogil:
    if part.partition != NULL:
        partition_release(part.partition)
        part.partition = NULL


cdef void set_free(FetchSet *s) noexcept nogil:
    cdef int32_t i
    for i in range(s.part_count):
        part_drop_partition(&s.parts[i])
    for i in range(s.topic_count):
        free(s.topics[i].name)
    free(s.parts)
    free(s.topics)
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


cdef bint make_room(Reactor *r) noexcept nogil:
    """Kafka's rule, without its privileges for followers: the longest unused goes, once idle long enough."""
    cdef FetchSession *oldest = NULL
    cdef FetchSession *session
    cdef int i
    if r.session_count < r.plane.session_slots:
        return True
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
    """A positive id nobody has, that names this reactor in its remainder."""
    cdef int32_t id = 0
    while id == 0 or session_find(r, id) != NULL:
        r.session_seed = r.session_seed * 1664525u + 1013904223u
        id = <int32_t>((r.session_seed >> 1) // r.plane.reactor_count * r.plane.reactor_count + r.index)
        if id < 0:
            id = 0
    return id


cdef FetchSession *session_create(Reactor *r, FetchSet *contents) noexcept nogil:
    """Takes over `contents`; NULL (and contents untouched) when the cache is full of busier sessions."""
    cdef FetchSession *session
    cdef FetchSession **bucket
    if r.sessions == NULL:
        r.sessions = <FetchSession **>calloc(SESSION_BUCKETS, sizeof(FetchSession *))
        if r.sessions == NULL:
            return NULL
    if not make_room(r):
        return NULL
    session = <FetchSession *>calloc(1, sizeof(FetchSession))
    if session == NULL:
        return NULL
    session.id = fresh_id(r)
    session.epoch = 1
    session.set = contents[0]
    memset(contents, 0, sizeof(FetchSet))
    session.last_used_ms = r.now_ms
    bucket = &r.sessions[<uint32_t>session.id % SESSION_BUCKETS]
    session.next = bucket[0]
    bucket[0] = session
    r.session_count += 1
    return session


cdef void session_remove(Reactor *r, FetchSession *session) noexcept nogil:
    """Frees a session nobody waits on."""
    cdef FetchSession **at = &r.sessions[<uint32_t>session.id % SESSION_BUCKETS]
    while at[0] != session:
        at = &at[0].next
    at[0] = session.next
    r.session_count -= 1
    set_free(&session.set)
    free(session)
