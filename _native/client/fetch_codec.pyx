"""Encodes a consumer's Fetch requests and parses the responses, without an object for each field.

The schema-driven codec (protocol/message_codec.pyx) has the same layout, and tests hold this one against it. For every
poll it is too slow: it makes objects of every field, and copies records, which costs more than receiving them.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memset
from bowstring._native.base.wire cimport (
    MAX_TAGS, Reader, Writer, patch_i32, put_count, put_i8, put_i16, put_i32, put_i64, put_raw, put_string, put_tags,
    read_bytes, read_count, read_i16, read_i32, read_i64, read_string, read_uvarint, skip_tags, take, writer_free)
from bowstring._native.client.produce_requests cimport LENGTH_BYTES

from typing import NamedTuple

cdef enum:
    FETCH = 1
    TOPIC_ID_BYTES = 16
    # The first version of Fetch with each of these.
    LOG_START_FROM = 5
    SESSIONS_FROM = 7
    LEADER_EPOCH_FROM = 9
    PREFERRED_REPLICA_FROM = 11
    RACK_FROM = 11
    FLEXIBLE_FROM = 12
    TOPIC_IDS_FROM = 13
    REPLICA_STATE_FROM = 15
    TAG_LEADER = 1                                       # of a partition
    TAG_ENDPOINTS = 0                                    # of the response

# ---------------------------------------------------------------- requests


cdef int put_topic(Writer *w, int version, str name, bytes topic_id) except -1:
    cdef bytes text
    if version >= TOPIC_IDS_FROM:
        if PyBytes_GET_SIZE(topic_id) != TOPIC_ID_BYTES:
            raise ValueError(f"a topic id has {TOPIC_ID_BYTES} bytes, not {PyBytes_GET_SIZE(topic_id)}")
        put_raw(w, PyBytes_AS_STRING(topic_id), TOPIC_ID_BYTES)
    else:
        text = name.encode()
        put_string(w, version >= FLEXIBLE_FROM, PyBytes_AS_STRING(text), <int32_t>PyBytes_GET_SIZE(text))
    return 0


cdef void put_partition(Writer *w, int version, int32_t partition, int64_t offset, int32_t leader_epoch,
                        int32_t max_bytes) noexcept:
    put_i32(w, partition)
    if version >= LEADER_EPOCH_FROM:
        put_i32(w, leader_epoch)
    put_i64(w, offset)
    if version >= FLEXIBLE_FROM:
        put_i32(w, -1)                                   # last fetched epoch: only followers send it
    if version >= LOG_START_FROM:
        put_i64(w, -1)                                   # log start offset: only followers send it
    put_i32(w, max_bytes)
    put_tags(w, version >= FLEXIBLE_FROM)


def fetch_frame(
        int version, int32_t correlation_id, bytes client_id not None, *, int32_t max_wait_ms, int32_t min_bytes,
        int32_t max_bytes, bint read_committed, int32_t session_id, int32_t session_epoch, int32_t partition_max_bytes,
        named, forgotten, bytes rack=b""):
    """The frame of a consumer's Fetch request, its length first.

    Args:
        named: topic name → (topic id, [(partition, fetch offset, leader epoch), ...]).
        forgotten: topic name → (topic id, [partition, ...]); from version 7 on.
        rack: of the consumer; from version 11 on (KIP-392).
    """
    cdef Writer w
    cdef bint flexible = version >= FLEXIBLE_FROM
    memset(&w, 0, sizeof(Writer))
    try:
        put_i32(&w, 0)                                   # the length, patched at the end
        put_i16(&w, FETCH)
        put_i16(&w, <int16_t>version)
        put_i32(&w, correlation_id)
        put_string(&w, False, PyBytes_AS_STRING(client_id), <int32_t>PyBytes_GET_SIZE(client_id))
        put_tags(&w, flexible)
        if version < REPLICA_STATE_FROM:
            put_i32(&w, -1)                              # replica id: a consumer
        put_i32(&w, max_wait_ms)
        put_i32(&w, min_bytes)
        put_i32(&w, max_bytes)
        put_i8(&w, read_committed)
        if version >= SESSIONS_FROM:
            put_i32(&w, session_id)
            put_i32(&w, session_epoch)
        put_count(&w, flexible, <int32_t>len(named))
        for name, (topic_id, parts) in named.items():
            put_topic(&w, version, name, topic_id)
            put_count(&w, flexible, <int32_t>len(parts))
            for partition, offset, leader_epoch in parts:
                put_partition(&w, version, partition, offset, leader_epoch, partition_max_bytes)
            put_tags(&w, flexible)
        if version >= SESSIONS_FROM:
            put_count(&w, flexible, <int32_t>len(forgotten))
            for name, (topic_id, parts) in forgotten.items():
                put_topic(&w, version, name, topic_id)
                put_count(&w, flexible, <int32_t>len(parts))
                for partition in parts:
                    put_i32(&w, partition)
                put_tags(&w, flexible)
        if version >= RACK_FROM:
            put_string(&w, flexible, PyBytes_AS_STRING(rack), <int32_t>PyBytes_GET_SIZE(rack))
        put_tags(&w, flexible)
        if w.failed:
            raise MemoryError("no memory for a request")
        patch_i32(w.data, <int32_t>(w.size - LENGTH_BYTES))
        return PyBytes_FromStringAndSize(<const char *>w.data, w.size)
    finally:
        writer_free(&w)

# ---------------------------------------------------------------- responses


class FetchedPartition(NamedTuple):
    """One partition of a response. `topic` is empty from version 13 on: topics have ids there."""

    topic: str
    topic_id: bytes
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list                 # (producer id, first offset)
    records: object               # memoryview into the frame, None for null
    preferred_replica: int        # the broker to fetch from instead (KIP-392), or -1
    leader: object                # (broker id, leader epoch) where an error names the leader (KIP-951), or None


class FetchAnswer(NamedTuple):
    """A Fetch response."""

    error_code: int
    session_id: int
    partitions: list
    endpoints: list               # (broker id, host, port, rack or None) of the leaders that partitions name
    throttle_time_ms: int = 0     # how long the broker reads no further requests of the connection (KIP-219)


class MalformedAnswer(ValueError):
    """The bytes are not a Fetch response of this version."""


cdef list read_aborted(Reader *r, bint flexible):
    cdef int32_t count = read_count(r, flexible), i
    cdef int64_t producer_id, first_offset
    found = []
    for i in range(count):
        producer_id, first_offset = read_i64(r), read_i64(r)
        if flexible:
            skip_tags(r)
        if r.bad:
            break
        found.append((producer_id, first_offset))
    return found


cdef object read_leader(Reader *r):
    """Reads the tagged fields of a partition; returns CurrentLeader, or None."""
    cdef uint32_t n = read_uvarint(r), tag, size
    cdef Reader value
    leader = None
    r.bad = r.bad or n > MAX_TAGS
    while n > 0 and not r.bad:
        tag, size = read_uvarint(r), read_uvarint(r)
        value.at = take(r, size)
        value.end = r.at
        value.bad = False
        if tag == TAG_LEADER and not r.bad:
            leader = (read_i32(&value), read_i32(&value))
            r.bad = value.bad
        n -= 1
    return leader


cdef str text_of(Reader *r):
    cdef const uint8_t *at = NULL
    cdef int32_t size = read_string(r, True, &at)
    return None if size < 0 else at[:size].decode("utf-8", "replace")


cdef list read_endpoints(Reader *r):
    """Reads the tagged fields of a response; returns NodeEndpoints."""
    cdef uint32_t n = read_uvarint(r), tag, size
    cdef int32_t count, i
    cdef Reader value
    found = []
    r.bad = r.bad or n > MAX_TAGS
    while n > 0 and not r.bad:
        tag, size = read_uvarint(r), read_uvarint(r)
        value.at = take(r, size)
        value.end = r.at
        value.bad = False
        n -= 1
        if tag != TAG_ENDPOINTS or r.bad:
            continue
        count = read_count(&value, True)
        for i in range(count):
            broker, host, port, rack = read_i32(&value), text_of(&value), read_i32(&value), text_of(&value)
            skip_tags(&value)
            if value.bad:
                break
            found.append((broker, host, port, rack))
        r.bad = value.bad
    return found


cdef object read_partition(Reader *r, int version, str topic, bytes topic_id, object frame, const uint8_t *start):
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef const uint8_t *at = NULL
    cdef int64_t size, log_start = -1
    cdef int32_t partition = read_i32(r), preferred = -1
    cdef int16_t error_code = read_i16(r)
    cdef int64_t high_watermark = read_i64(r), last_stable_offset = read_i64(r)
    if version >= LOG_START_FROM:
        log_start = read_i64(r)
    aborted = read_aborted(r, flexible)
    if version >= PREFERRED_REPLICA_FROM:
        preferred = read_i32(r)
    size = read_bytes(r, flexible, &at)
    leader = read_leader(r) if flexible else None
    records = frame[at - start:at - start + size] if size >= 0 else None
    return FetchedPartition(
        topic, topic_id, partition, error_code, high_watermark, last_stable_offset, log_start, aborted, records,
        preferred, leader)


cdef int read_topic(Reader *r, int version, list out, object frame, const uint8_t *start) except -1:
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef const uint8_t *at = NULL
    cdef int32_t size, count, i
    cdef bytes topic_id = bytes(TOPIC_ID_BYTES)
    cdef str topic = ""
    if version >= TOPIC_IDS_FROM:
        at = take(r, TOPIC_ID_BYTES)
        if at != NULL:
            topic_id = PyBytes_FromStringAndSize(<const char *>at, TOPIC_ID_BYTES)
    else:
        size = read_string(r, flexible, &at)
        if size > 0:
            topic = at[:size].decode("utf-8", "replace")
    count = read_count(r, flexible)
    for i in range(count):
        if r.bad:
            break
        out.append(read_partition(r, version, topic, topic_id, frame, start))
    if flexible:
        skip_tags(r)
    return 0


def parse_fetch_answer(frame, int version):
    """The FetchAnswer in a response frame (without its length) of versions 4 to 18.

    Records are views into `frame`, which must not change while they are in use.

    Raises:
        MalformedAnswer: the bytes are not such a response.
    """
    cdef Py_buffer view
    cdef Reader r
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef int16_t error_code = 0
    cdef int32_t session_id = 0, throttle_time_ms, count, i
    partitions, endpoints = [], []
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        r = Reader(<const uint8_t *>view.buf, <const uint8_t *>view.buf + view.len, False)
        read_i32(&r)                                     # correlation id
        if flexible:
            skip_tags(&r)
        throttle_time_ms = read_i32(&r)
        if version >= SESSIONS_FROM:
            error_code = read_i16(&r)
            session_id = read_i32(&r)
        count = read_count(&r, flexible)
        for i in range(count):
            if r.bad:
                break
            read_topic(&r, version, partitions, frame, <const uint8_t *>view.buf)
        if flexible:
            endpoints = read_endpoints(&r)
        if r.bad or r.at != r.end:
            raise MalformedAnswer(
                f"an answer to Fetch {version} of {view.len} bytes makes no sense at byte "
                f"{r.at - <const uint8_t *>view.buf}")
    finally:
        PyBuffer_Release(&view)
    return FetchAnswer(error_code, session_id, partitions, endpoints, throttle_time_ms)
