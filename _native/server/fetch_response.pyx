"""Builds Fetch responses, see fetch_response.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy
from bowstring._native.base.atomics cimport bump_i64
from bowstring._native.base.error_codes cimport TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION
from bowstring._native.base.wire cimport (
    Writer, grow, patch_i32, put_count, put_i16, put_i32, put_i64, put_raw, put_string, put_tags, put_uvarint)
from bowstring._native.disk.file_ops cimport read_range
from bowstring._native.log cimport segment_file_release
from bowstring._native.replica.replica_quota cimport quota_record
from bowstring._native.server.chunks cimport chunk_bytes, chunk_file, chunks_free
from bowstring._native.server.connection cimport connection_answer, connection_fail, connection_find
from bowstring._native.server.counters cimport count_request
from bowstring._native.server.leader_hints cimport (
    FETCH_HINTS_VERSION, hint_wanted, put_current_leader, put_endpoints)
from bowstring._native.server.connection_limits cimport SENDFILE_MIN_BYTES
from bowstring._native.server.connection_types cimport Chunk, Connection
from bowstring._native.server.fetch_types cimport FetchPart, FetchRequest, FetchSet
from bowstring._native.server.reactor_types cimport Reactor
from bowstring._native.server.replica_types cimport LeaderHints


cdef struct Reply:
    # A response being built: finished chunks, and the bytes (in reactor.scratch) that follow them.
    Chunk *head
    Chunk *tail
    Writer *bytes
    Reactor *reactor
    LeaderHints hints
    int64_t size                    # of the finished chunks
    bint failed


cdef void release_slices(FetchSet *s) noexcept nogil:
    cdef int32_t i
    for i in range(s.part_count):
        if s.parts[i].slice.file != NULL:
            segment_file_release(s.parts[i].slice.file)
            s.parts[i].slice.file = NULL
        if s.parts[i].aborted != NULL:
            free(s.parts[i].aborted)
            s.parts[i].aborted = NULL


cdef void link(Reply *reply, Chunk *chunk) noexcept nogil:
    if chunk == NULL:
        reply.failed = True
        return
    if reply.tail == NULL:
        reply.head = chunk
    else:
        reply.tail.next = chunk
    reply.tail = chunk
    reply.size += chunk.end - chunk.position


cdef void close_bytes(Reply *reply) noexcept nogil:
    """Turns the bytes written so far into a chunk."""
    cdef Chunk *chunk
    if reply.bytes.failed:
        reply.failed = True
    if reply.failed or reply.bytes.size == 0:
        return
    chunk = chunk_bytes(reply.bytes.size)
    if chunk != NULL:
        memcpy(chunk.data, reply.bytes.data, reply.bytes.size)
        chunk.end = reply.bytes.size
    link(reply, chunk)
    reply.bytes.size = 0


cdef bint worth_telling(FetchPart *part) noexcept nogil:
    """Whether an incremental reply includes the partition (KIP-227): it has records, an error, or offsets that moved."""
    return (part.slice.size_bytes > 0 or part.error != 0 or part.diverging_epoch >= 0 or part.preferred_replica >= 0
            or part.high_watermark != part.sent_high_watermark
            or part.log_start_offset != part.sent_log_start_offset)


cdef void choose(FetchRequest *request, FetchSet *s) noexcept nogil:
    cdef int32_t i
    cdef FetchPart *part
    for i in range(s.part_count):
        part = &s.parts[i]
        part.included = not request.incremental or worth_telling(part)
        if part.included:
            part.sent_high_watermark = -1 if part.error != 0 else part.high_watermark
            part.sent_log_start_offset = part.log_start_offset


cdef int32_t run_length(FetchSet *s, int32_t k, int32_t *included) noexcept nogil:
    """Returns the number of adjacent partitions from k (counted from s.first) that share a topic; sets `included` to how many
    of them are in the reply."""
    cdef int32_t n = s.part_count, i, topic = s.parts[(s.first + k) % n].topic, length = 0
    included[0] = 0
    while k + length < n:
        i = (s.first + k + length) % n
        if s.parts[i].topic != topic:
            break
        included[0] += s.parts[i].included
        length += 1
    return length


cdef void fetch_answer(Reactor *r, FetchRequest *request, FetchSet *s) noexcept nogil:
    """Encodes and queues the reply, which takes over the slices' references to their files. Without a set it has no
    partitions."""
    cdef Reply reply
    cdef bint flexible = request.version >= 12
    cdef Connection *c = connection_find(r, request.connection_id)
    cdef int64_t size
    reply.head = reply.tail = NULL
    reply.size = 0
    reply.hints.count = 0
    reply.reactor = r
    reply.failed = False
    reply.bytes = &r.scratch
    r.scratch.size = 0
    if s != NULL:
        choose(request, s)
    put_i32(&r.scratch, 0)                               # length, patched below
    put_i32(&r.scratch, request.correlation_id)
    put_tags(&r.scratch, flexible)
    put_i32(&r.scratch, <int32_t>request.throttle_ms)
    if request.version >= 7:
        put_i16(&r.scratch, request.error)
        put_i32(&r.scratch, request.session_id)
    if s != NULL:
        put_topics(&reply, request, s)
    else:
        put_count(&r.scratch, flexible, 0)
    if reply.hints.count > 0 and request.replica_id < 0:  # a follower takes addresses from its image alone
        put_endpoints(&r.scratch, r.plane, &reply.hints)
    else:
        put_tags(&r.scratch, flexible)
    close_bytes(&reply)
    if s != NULL:
        release_slices(s)                                # those that are in no chunk
    r.scratch.failed = False
    count_request(&r.fetch, request.started_ns, request.error != 0)
    size = reply.size - 4
    if reply.failed or c == NULL or size > 0x7FFFFFFF:
        chunks_free(reply.head)
        if c != NULL:
            connection_fail(c, b"fetch-failed",
                            b"a fetch response could not be built: memory ran out, or it exceeded 2 GiB; the client retries")
        return
    patch_i32(reply.head.data, <int32_t>size)
    connection_answer(c, request.slot, reply.head)


cdef void put_topics(Reply *reply, FetchRequest *request, FetchSet *s) noexcept nogil:
    cdef Writer *w = reply.bytes
    cdef bint flexible = request.version >= 12
    cdef int32_t k = 0, j, n = s.part_count, length, included, topics = 0, topic
    while k < n:
        k += run_length(s, k, &included)
        topics += 1 if included > 0 else 0
    put_count(w, flexible, topics)
    k = 0
    while k < n:
        length = run_length(s, k, &included)
        if included > 0:
            topic = s.parts[(s.first + k) % n].topic
            if request.version >= 13:
                put_raw(w, s.topics[topic].id, 16)
            else:
                put_string(w, flexible, s.topics[topic].name, s.topics[topic].name_length)
            put_count(w, flexible, included)
            for j in range(k, k + length):
                if s.parts[(s.first + j) % n].included:
                    put_part(reply, request, &s.parts[(s.first + j) % n])
            put_tags(w, flexible)
        k += length


cdef void put_part(Reply *reply, FetchRequest *request, FetchPart *part) noexcept nogil:
    cdef Writer *w = reply.bytes
    cdef bint flexible = request.version >= 12
    put_i32(w, part.index)
    put_i16(w, part.error)
    put_i64(w, part.high_watermark)
    put_i64(w, part.last_stable_offset)
    if request.version >= 5:
        put_i64(w, part.log_start_offset)
    put_aborted(w, request, part)
    if request.version >= 11:
        put_i32(w, part.preferred_replica)
    if flexible:
        put_uvarint(w, <int32_t>part.slice.size_bytes + 1)
    else:
        put_i32(w, <int32_t>part.slice.size_bytes)
    if part.slice.size_bytes > 0:
        bump_i64(&part.partition.fetched_bytes, part.slice.size_bytes)
        if part.slice.next_offset > part.fetch_offset:
            bump_i64(&part.partition.fetched_records, part.slice.next_offset - part.fetch_offset)
        if part.partition.leader_throttled and request.replica_id >= 0:
            quota_record(&reply.reactor.plane.replication.leader_quota, part.slice.size_bytes, reply.reactor.now_ms)
        put_records(reply, part)
    if request.version >= FETCH_HINTS_VERSION and hint_wanted(reply.reactor.plane, part.error, part.partition):
        put_uvarint(w, 1)                                # one tagged field: 1, CurrentLeader
        put_current_leader(w, 1, part.partition, &reply.hints)
    elif flexible:
        if part.diverging_epoch >= 0:
            put_uvarint(w, 1)                            # one tagged field: 0, DivergingEpoch
            put_uvarint(w, 0)
            put_uvarint(w, 13)
            put_i32(w, part.diverging_epoch)
            put_i64(w, part.diverging_end_offset)
        put_tags(w, flexible)


cdef void put_aborted(Writer *w, FetchRequest *request, FetchPart *part) noexcept nogil:
    """Writes AbortedTransactions: null under read_uncommitted and after a failed read, empty if there are none."""
    cdef bint flexible = request.version >= 12
    cdef int32_t n = part.aborted_count if part.aborted != NULL else 0
    cdef int32_t i
    if part.error in (UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED):
        put_count(w, flexible, 0)
        return
    if not request.isolation or part.error != 0:
        put_count(w, flexible, -1)
        return
    put_count(w, flexible, n)
    for i in range(n):
        put_i64(w, part.aborted[2 * i])
        put_i64(w, part.aborted[2 * i + 1])
        put_tags(w, flexible)


cdef void put_records(Reply *reply, FetchPart *part) noexcept nogil:
    """Queues the records: sendfile sends large ranges; small ranges are copied, which saves a system call."""
    cdef uint8_t *at
    cdef Chunk *chunk
    if part.slice.size_bytes >= SENDFILE_MIN_BYTES:
        close_bytes(reply)
        chunk = chunk_file(part.slice.file, part.slice.position, part.slice.size_bytes)
        if chunk != NULL:
            part.slice.file = NULL                       # the chunk owns the reference now
        link(reply, chunk)
        return
    at = grow(reply.bytes, part.slice.size_bytes)
    if at == NULL:
        reply.failed = True
        return
    if read_range(part.slice.file.fd, at, part.slice.size_bytes, part.slice.position) != part.slice.size_bytes:
        reply.failed = True
