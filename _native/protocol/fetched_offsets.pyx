"""Decodes OffsetFetch and encodes its answer, without an object for each field.

Only for what clients usually send: everything else, also malformed requests, is left to the schema-driven codec, which has
the same result (tests/unit/protocol/test_fetched_offsets.py compares both).
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t
from bowstring._native.base.wire cimport (
    Reader, Writer, put_i16, put_i32, put_i64, put_i8, put_raw, put_string, put_uvarint, read_count, read_i32, read_i8,
    skip_tags, take, writer_free)
from bowstring._native.protocol.offset_commits cimport UUID_BYTES
from bowstring._native.protocol.texts cimport text_of

cdef extern from "Python.h":
    PyObject *PyTuple_GET_ITEM(object p, Py_ssize_t i)
    Py_ssize_t PyTuple_GET_SIZE(object p)
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef enum:
    LOWEST_VERSION = 8              # earlier ones are of one group, which is named elsewhere
    NEWEST_VERSION = 10
    MEMBER_VERSION = 9
    BY_ID_VERSION = 10
    MOST_PARTITIONS = 500
    OFFSET = 0                      # in a CommittedOffset
    EPOCH = 1
    METADATA = 2
    TOPIC_ID = 5

cdef bytes ZERO_ID = bytes(UUID_BYTES)


cdef class OffsetQuery:
    """The partitions whose offsets a client asks for, of one group."""


cdef list indexes_of(Reader *r, int32_t most):
    cdef int32_t count = read_count(r, True), i
    cdef list indexes = []
    if count < 0 or count > most:
        r.bad = True
        return indexes
    for i in range(count):
        indexes.append(read_i32(r))
    return indexes


def decode_offset_fetch(int version, body):
    """Returns an OffsetQuery; None: the codec must decode it.

    Args:
        body: That of the request, without its header. One that is not bytes is left to the codec.
    """
    cdef Reader r
    cdef OffsetQuery query
    cdef const uint8_t *at
    cdef int32_t count, i, room = MOST_PARTITIONS
    cdef list topics = [], indexes
    if not LOWEST_VERSION <= version <= NEWEST_VERSION or type(body) is not bytes:
        return None
    r.at = <const uint8_t *>PyBytes_AS_STRING(body)
    r.end = r.at + PyBytes_GET_SIZE(body)
    r.bad = False
    if read_count(&r, True) != 1:
        return None
    query = OffsetQuery.__new__(OffsetQuery)
    query.version = version
    query.group_id = text_of(&r, True, False)
    query.member_epoch = -1
    if version >= MEMBER_VERSION:
        query.member_id = text_of(&r, True, True)
        query.member_epoch = read_i32(&r)
    count = read_count(&r, True)
    if r.bad or not 0 <= count <= MOST_PARTITIONS:
        return None
    query.indexes = []
    for i in range(count):
        if version >= BY_ID_VERSION:
            at = take(&r, UUID_BYTES)
            if at == NULL:
                return None
            topics.append(PyBytes_FromStringAndSize(<const char *>at, UUID_BYTES))
        else:
            topics.append(text_of(&r, True, False))
        indexes = indexes_of(&r, room)
        skip_tags(&r)
        if r.bad:
            return None
        room -= <int32_t>len(indexes)
        query.indexes.append(indexes)
    if version >= BY_ID_VERSION:
        query.topic_ids = topics
    else:
        query.names = topics
    skip_tags(&r)
    query.require_stable = read_i8(&r) != 0
    skip_tags(&r)
    return None if r.bad else query


cdef inline object field_of(offset, Py_ssize_t i):
    return <object>PyTuple_GET_ITEM(offset, i)


cdef int put_offset(Writer *w, int32_t index, offset, bytes topic_id) except -1:
    """Writes the answer for a partition: its offset, unless that is of an earlier topic of the name."""
    cdef const char *text = b""
    cdef Py_ssize_t n = 0
    if offset is not None:
        assert isinstance(offset, tuple) and PyTuple_GET_SIZE(offset) > TOPIC_ID, offset
        if topic_id is not None and ZERO_ID not in (topic_id, field_of(offset, TOPIC_ID)) and (
                field_of(offset, TOPIC_ID) != topic_id):
            offset = None
    put_i32(w, index)
    if offset is None:
        put_i64(w, -1)
        put_i32(w, -1)
    else:
        put_i64(w, <int64_t>field_of(offset, OFFSET))
        put_i32(w, <int32_t>field_of(offset, EPOCH))
        text = PyUnicode_AsUTF8AndSize(field_of(offset, METADATA), &n)
    put_string(w, True, text, <int32_t>n)
    put_i16(w, 0)
    put_i8(w, 0)                                         # tags
    return 0


def encode_offsets(OffsetQuery query, int correlation_id, dict found):
    """Returns header and body of an answer without errors; a partition without an offset has -1.

    Args:
        query: One whose topics have names.
        found: The offsets of the group, by topic and partition: tuples as CommittedOffset.

    Raises:
        MemoryError: There is none left.
    """
    cdef Writer w
    cdef const char *text
    cdef Py_ssize_t n, i
    cdef int32_t index
    cdef dict partitions
    cdef list indexes
    cdef bytes topic_id = None
    w.data = NULL
    w.size = w.capacity = 0
    w.failed = False
    try:
        put_i32(&w, correlation_id)
        put_i8(&w, 0)                                    # tags of the header
        put_i32(&w, 0)                                   # throttle time
        put_uvarint(&w, 2)                               # one group
        text = PyUnicode_AsUTF8AndSize(query.group_id, &n)
        put_string(&w, True, text, <int32_t>n)
        put_uvarint(&w, <int32_t>len(query.names) + 1)
        for i in range(len(query.names)):
            if query.topic_ids is not None:
                topic_id = query.topic_ids[i]
                put_raw(&w, PyBytes_AS_STRING(topic_id), UUID_BYTES)
            else:
                text = PyUnicode_AsUTF8AndSize(query.names[i], &n)
                put_string(&w, True, text, <int32_t>n)
            partitions = found.get(query.names[i])
            indexes = query.indexes[i]
            put_uvarint(&w, <int32_t>len(indexes) + 1)
            for index in indexes:
                put_offset(&w, index, None if partitions is None else partitions.get(index), topic_id)
            put_i8(&w, 0)
        put_i16(&w, 0)                                   # error
        put_i8(&w, 0)                                    # tags of group and body
        put_i8(&w, 0)
        if w.failed:
            raise MemoryError
        return PyBytes_FromStringAndSize(<char *>w.data, w.size)
    finally:
        writer_free(&w)
