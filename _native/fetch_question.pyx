"""A consumer's Fetch request, written at once: what is sent for every answer may not be made of many objects."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t
from libc.string cimport memset
from bowstring._native.wire cimport (
    Writer, patch_i32, put_count, put_i8, put_i16, put_i32, put_i64, put_raw, put_string, put_tags, writer_free)

cdef enum:
    FETCH = 1
    LENGTH_BYTES = 4
    TOPIC_ID_BYTES = 16
    # Versions of Fetch from which it has something more, or something else.
    LOG_START_FROM = 5
    SESSIONS_FROM = 7
    LEADER_EPOCH_FROM = 9
    RACK_FROM = 11
    FLEXIBLE_FROM = 12
    TOPIC_IDS_FROM = 13
    REPLICA_STATE_FROM = 15


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
        put_i32(w, -1)                                   # epoch of the last fetched record: followers tell it
    if version >= LOG_START_FROM:
        put_i64(w, -1)                                   # and where their logs begin
    put_i32(w, max_bytes)
    put_tags(w, version >= FLEXIBLE_FROM)


def fetch_frame(
        int version, int32_t correlation_id, bytes client_id not None, *, int32_t max_wait_ms, int32_t min_bytes,
        int32_t max_bytes, bint read_committed, int32_t session_id, int32_t session_epoch, int32_t partition_max_bytes,
        named, forgotten):
    """The frame of a consumer's Fetch request, its length in front; the layout is the declared one (tests compare).

    Args:
        named: topic name → (topic id, [(partition, fetch offset, leader epoch), ...]).
        forgotten: topic name → (topic id, [partition, ...]); from version 7 on.
    """
    cdef Writer w
    cdef bint flexible = version >= FLEXIBLE_FROM
    memset(&w, 0, sizeof(Writer))
    try:
        put_i32(&w, 0)                                   # the length, known in the end
        put_i16(&w, FETCH)
        put_i16(&w, <int16_t>version)
        put_i32(&w, correlation_id)
        put_string(&w, False, PyBytes_AS_STRING(client_id), <int32_t>PyBytes_GET_SIZE(client_id))
        put_tags(&w, flexible)
        if version < REPLICA_STATE_FROM:
            put_i32(&w, -1)                              # no replica, but a consumer
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
            put_string(&w, flexible, b"", 0)
        put_tags(&w, flexible)
        if w.failed:
            raise MemoryError("no memory for a request")
        patch_i32(w.data, <int32_t>(w.size - LENGTH_BYTES))
        return PyBytes_FromStringAndSize(<const char *>w.data, w.size)
    finally:
        writer_free(&w)
