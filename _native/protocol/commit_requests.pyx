"""Decodes OffsetCommit, and encodes its answer and its records, without an object for each field.

Only for what clients usually send: everything else, also malformed requests, is left to the schema-driven codec, which has
the same result (tests/unit/protocol/test_commit_requests.py compares both).
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy
from bowstring._native.base.bigendian cimport store_be16, store_be32, store_be64
from bowstring._native.base.wire cimport (
    Reader, Writer, put_count, put_i16, put_i32, put_i8, put_raw, put_string, put_tags, read_count, read_i32, read_i64,
    skip_tags, take, writer_free)
from bowstring._native.protocol.offset_commits cimport RECORD_TYPE, UUID_BYTES
from bowstring._native.protocol.texts cimport text_of

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    bint PyUnicode_IS_ASCII(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)

cdef enum:
    LOWEST_VERSION = 5              # earlier ones may have a retention time
    HIGHEST_VERSION = 10
    EPOCH_VERSION = 6
    INSTANCE_VERSION = 7
    FLEXIBLE_VERSION = 8
    TOPIC_ID_VERSION = 10
    MOST_PARTITIONS = 100
    VALUE_VERSION = 4
    RECORD_MOST_BYTES = 96          # of a record beside group, topic and metadata

cdef object EMPTY = ""
cdef bytes ZERO_ID = bytes(UUID_BYTES)


cdef class CommitRequest:
    """The offsets that a client commits for a group."""


cdef class CommittedTopic:
    """The offsets of one topic."""


cdef CommittedTopic topic_of(Reader *r, int version):
    cdef bint flexible = version >= FLEXIBLE_VERSION
    cdef CommittedTopic topic = CommittedTopic.__new__(CommittedTopic)
    cdef int32_t index, epoch, i, count
    cdef int64_t offset
    cdef const uint8_t *at
    cdef str metadata
    cdef Py_ssize_t length
    if version >= TOPIC_ID_VERSION:
        at = take(r, UUID_BYTES)
        if at == NULL:
            return topic
        topic.topic_id = PyBytes_FromStringAndSize(<const char *>at, UUID_BYTES)
    else:
        topic.name = text_of(r, flexible, False)
    count = read_count(r, flexible)
    topic.partitions = []
    if count < 1 or count > MOST_PARTITIONS:
        r.bad = True
        return topic
    for i in range(count):
        index = read_i32(r)
        offset = read_i64(r)
        epoch = read_i32(r) if version >= EPOCH_VERSION else -1
        metadata = text_of(r, flexible, True)
        if flexible:
            skip_tags(r)
        if r.bad:
            return topic
        if metadata is None:
            metadata = EMPTY
        length = PyUnicode_GET_LENGTH(metadata) if PyUnicode_IS_ASCII(metadata) else INT32_MAX
        topic.longest = max(topic.longest, length)
        if index < 0:
            topic.highest = -1
        elif topic.highest >= 0:
            topic.highest = max(topic.highest, index)
        topic.partitions.append((index, offset, epoch, metadata))
    if flexible:
        skip_tags(r)
    return topic


def decode_commit(int version, body):
    """Returns a CommitRequest; None: the codec must decode it.

    Args:
        body: That of the request, without its header. One that is not bytes is left to the codec.
    """
    cdef Reader r
    cdef CommitRequest request
    cdef CommittedTopic topic
    cdef bint flexible = version >= FLEXIBLE_VERSION
    cdef int32_t i, count
    cdef set seen
    if not LOWEST_VERSION <= version <= HIGHEST_VERSION or type(body) is not bytes:
        return None
    r.at = <const uint8_t *>PyBytes_AS_STRING(body)
    r.end = r.at + PyBytes_GET_SIZE(body)
    r.bad = False
    request = CommitRequest.__new__(CommitRequest)
    request.version = version
    request.size_bytes = PyBytes_GET_SIZE(body)
    request.group_id = text_of(&r, flexible, False)
    request.generation = read_i32(&r)
    request.member_id = text_of(&r, flexible, False)
    if version >= INSTANCE_VERSION:
        request.instance_id = text_of(&r, flexible, True)
    count = read_count(&r, flexible)
    if r.bad or not 1 <= count <= MOST_PARTITIONS:
        return None
    request.topics = []
    for i in range(count):
        topic = topic_of(&r, version)
        if r.bad:
            return None
        request.topics.append(topic)
    if flexible:
        skip_tags(&r)
    if r.bad:
        return None
    if count > 1:
        seen = {topic.topic_id if version >= TOPIC_ID_VERSION else topic.name for topic in request.topics}
        if len(seen) != count:
            return None                                  # answers of a topic that is named twice are merged
    return request


def encode_commit_answer(CommitRequest request, int correlation_id, int error_code):
    """Returns header and body of the answer, with the same error for each partition.

    Raises:
        MemoryError: There is none left.
    """
    cdef bint flexible = request.version >= FLEXIBLE_VERSION
    cdef Writer w
    cdef CommittedTopic topic
    cdef const char *text
    cdef Py_ssize_t n
    w.data = NULL
    w.size = w.capacity = 0
    w.failed = False
    try:
        put_i32(&w, correlation_id)
        put_tags(&w, flexible)                           # of the header
        put_i32(&w, 0)                                   # throttle time
        put_count(&w, flexible, <int32_t>len(request.topics))
        for topic in request.topics:
            if request.version >= TOPIC_ID_VERSION:
                put_raw(&w, PyBytes_AS_STRING(topic.topic_id), UUID_BYTES)
            else:
                text = PyUnicode_AsUTF8AndSize(topic.name, &n)
                put_string(&w, flexible, text, <int32_t>n)
            put_count(&w, flexible, <int32_t>len(topic.partitions))
            for part in topic.partitions:
                put_i32(&w, <int32_t>(<tuple>part)[0])
                put_i16(&w, <int16_t>error_code)
                put_tags(&w, flexible)
            put_tags(&w, flexible)
        put_tags(&w, flexible)
        if w.failed:
            raise MemoryError
        return PyBytes_FromStringAndSize(<char *>w.data, w.size)
    finally:
        writer_free(&w)


cdef bytes key_of(str group_id, str topic, int32_t index):
    cdef Py_ssize_t group_bytes, topic_bytes
    cdef const char *group = PyUnicode_AsUTF8AndSize(group_id, &group_bytes)
    cdef const char *name = PyUnicode_AsUTF8AndSize(topic, &topic_bytes)
    cdef bytes key = PyBytes_FromStringAndSize(NULL, 10 + group_bytes + topic_bytes)
    cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(key)
    store_be16(at, RECORD_TYPE)
    store_be16(at + 2, <int16_t>group_bytes)
    memcpy(at + 4, group, group_bytes)
    at += 4 + group_bytes
    store_be16(at, <int16_t>topic_bytes)
    memcpy(at + 2, name, topic_bytes)
    store_be32(at + 2 + topic_bytes, index)
    return key


cdef bytes value_of(int64_t offset, int32_t epoch, str metadata, int64_t now_ms, bytes topic_id):
    cdef Py_ssize_t n
    cdef const char *text = PyUnicode_AsUTF8AndSize(metadata, &n)
    cdef Writer w
    w.data = NULL
    w.size = w.capacity = 0
    w.failed = False
    try:
        put_i16(&w, VALUE_VERSION)
        put_raw(&w, <const char *>&offset, 8)
        store_be64(w.data + 2, offset)
        put_i32(&w, epoch)
        put_string(&w, True, text, <int32_t>n)
        put_raw(&w, <const char *>&now_ms, 8)
        store_be64(w.data + w.size - 8, now_ms)
        if topic_id == ZERO_ID:
            put_i8(&w, 0)
        else:
            put_i8(&w, 1)                                # one tagged field
            put_i8(&w, 0)                                # its tag
            put_i8(&w, UUID_BYTES)
            put_raw(&w, PyBytes_AS_STRING(topic_id), UUID_BYTES)
        if w.failed:
            raise MemoryError
        return PyBytes_FromStringAndSize(<char *>w.data, w.size)
    finally:
        writer_free(&w)


def records_bytes(CommitRequest request):
    """Returns an upper bound of the size of a commit's records in a batch: each has the names of group and topic.

    Args:
        request: One whose topics have names.
    """
    cdef CommittedTopic topic
    cdef Py_ssize_t group_bytes, topic_bytes
    cdef int64_t size = request.size_bytes
    PyUnicode_AsUTF8AndSize(request.group_id, &group_bytes)
    for topic in request.topics:
        PyUnicode_AsUTF8AndSize(topic.name, &topic_bytes)
        size += len(topic.partitions) * (RECORD_MOST_BYTES + group_bytes + topic_bytes)
    return size


def commit_rows(list requests, int64_t now_ms):
    """Returns the records of commits, as rows of encode_batch: key, value, time, no headers.

    Args:
        requests: CommitRequests whose topics have names and ids.
        now_ms: The time of the commits, wall clock.
    """
    cdef CommitRequest request
    cdef CommittedTopic topic
    cdef list rows = []
    for request in requests:
        for topic in request.topics:
            for index, offset, epoch, metadata in topic.partitions:
                rows.append((key_of(request.group_id, topic.name, index),
                             value_of(offset, epoch, metadata, now_ms, topic.topic_id), now_ms, ()))
    return rows


def put_commits(list requests, int64_t now_ms, int64_t base_offset, partitions_of, cls, int64_t no_expiry):
    """Stores the offsets of commits that have been written in one batch.

    Args:
        requests: As for :func:`commit_rows`.
        base_offset: Of the batch.
        partitions_of: Called with group and topic; returns the dict by partition that takes an offset.
        cls: Tuple with the fields offset, leader epoch, metadata, commit timestamp, expire timestamp, topic id, record offset.
    """
    cdef CommitRequest request
    cdef CommittedTopic topic
    cdef int64_t record_offset = base_offset
    cdef dict partitions
    for request in requests:
        for topic in request.topics:
            partitions = partitions_of(request.group_id, topic.name)
            for index, offset, epoch, metadata in topic.partitions:
                partitions[index] = cls(offset, epoch, metadata, now_ms, no_expiry, topic.topic_id, record_offset)
                record_offset += 1
