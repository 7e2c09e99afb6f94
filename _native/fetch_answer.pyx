"""Answers to Fetch as consumers read them: the records stay where they were received.

The schema-driven codec reads the same answers; tests hold this one against it. It copies records, which costs
more than receiving them.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from bowstring._native.wire cimport (
    Reader, read_bytes, read_count, read_i16, read_i32, read_i64, read_string, skip_tags, take)

from typing import NamedTuple


class FetchedPartition(NamedTuple):
    """What an answer says of one partition; `topic` is empty where topics go by id (from version 13 on)."""

    topic: str
    topic_id: bytes
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list                 # (producer id, first offset)
    records: object               # memoryview into the frame, None for null


class FetchAnswer(NamedTuple):
    """An answer to Fetch."""

    error_code: int
    session_id: int
    partitions: list


class MalformedAnswer(ValueError):
    """The bytes are no answer to Fetch of this version."""


cdef enum:
    FLEXIBLE_FROM = 12
    TOPIC_IDS_FROM = 13
    PREFERRED_REPLICA_FROM = 11
    SESSIONS_FROM = 7
    LOG_START_FROM = 5
    NO_TOPIC_ID = 16              # zeros


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


cdef object read_partition(Reader *r, int version, str topic, bytes topic_id, object frame, const uint8_t *start):
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef const uint8_t *at = NULL
    cdef int64_t size, log_start = -1
    cdef int32_t partition = read_i32(r)
    cdef int16_t error_code = read_i16(r)
    cdef int64_t high_watermark = read_i64(r), last_stable_offset = read_i64(r)
    if version >= LOG_START_FROM:
        log_start = read_i64(r)
    aborted = read_aborted(r, flexible)
    if version >= PREFERRED_REPLICA_FROM:
        read_i32(r)
    size = read_bytes(r, flexible, &at)
    if flexible:
        skip_tags(r)
    records = frame[at - start:at - start + size] if size >= 0 else None
    return FetchedPartition(
        topic, topic_id, partition, error_code, high_watermark, last_stable_offset, log_start, aborted, records)


cdef int read_topic(Reader *r, int version, list out, object frame, const uint8_t *start) except -1:
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef const uint8_t *at = NULL
    cdef int32_t size, count, i
    cdef bytes topic_id = bytes(NO_TOPIC_ID)
    cdef str topic = ""
    if version >= TOPIC_IDS_FROM:
        at = take(r, 16)
        if at != NULL:
            topic_id = PyBytes_FromStringAndSize(<const char *>at, 16)
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

    Records are views into `frame`, which must stay as it is while they are kept.

    Raises:
        MalformedAnswer: the bytes are no such answer.
    """
    cdef Py_buffer view
    cdef Reader r
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef int16_t error_code = 0
    cdef int32_t session_id = 0, count, i
    partitions = []
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        r = Reader(<const uint8_t *>view.buf, <const uint8_t *>view.buf + view.len, False)
        read_i32(&r)                                     # correlation id
        if flexible:
            skip_tags(&r)
        read_i32(&r)                                     # throttle time
        if version >= SESSIONS_FROM:
            error_code = read_i16(&r)
            session_id = read_i32(&r)
        count = read_count(&r, flexible)
        for i in range(count):
            if r.bad:
                break
            read_topic(&r, version, partitions, frame, <const uint8_t *>view.buf)
        if flexible:
            skip_tags(&r)
        if r.bad or r.at != r.end:
            raise MalformedAnswer(
                f"an answer to Fetch {version} of {view.len} bytes makes no sense at byte "
                f"{r.at - <const uint8_t *>view.buf}")
    finally:
        PyBuffer_Release(&view)
    return FetchAnswer(error_code, session_id, partitions)
