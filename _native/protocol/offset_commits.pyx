"""Decodes very many records of committed offsets: a coordinator that loads a million of them has no time for the
schema-driven codec. Takes only what Kafka writes; everything else is left to the codec.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcmp
from bowstring._native.base.bigendian cimport load_be16, load_be32, load_be64

cdef extern from *:
    """
    #define new_tuple_of(cls, n) ((PyTypeObject *)(cls))->tp_alloc((PyTypeObject *)(cls), (n))
    """
    object new_tuple_of(type cls, Py_ssize_t n)

cdef enum:
    EXPIRY_VERSION = 1            # the only one with a time of expiry
    EPOCH_VERSION = 3             # leader epochs
    FLEXIBLE_VERSION = 4          # compact strings, and the topic id in a tagged field

cdef object NO_BYTES = b""
cdef object NO_TOPIC_ID = bytes(UUID_BYTES)

cdef struct Commit:
    # A decoded value; pointers into its bytes. NULL: no topic id.
    int64_t offset
    int32_t leader_epoch
    const uint8_t *metadata
    Py_ssize_t metadata_bytes
    int64_t commit_timestamp
    int64_t expire_timestamp
    const uint8_t *topic_id


cdef bint is_ascii(const uint8_t *at, Py_ssize_t n) noexcept nogil:
    cdef uint8_t all_bits = 0
    cdef Py_ssize_t i
    for i in range(n):
        all_bits |= at[i]
    return all_bits < 0x80


cdef Py_ssize_t group_bytes(const uint8_t *key, Py_ssize_t n) noexcept nogil:
    """Returns the length of the group's name in the key of an offset commit; -1 for other keys."""
    cdef Py_ssize_t group, topic
    if n < 10 or load_be16(key) != RECORD_TYPE:
        return -1
    group = load_be16(key + 2)
    if group < 0 or n < 10 + group:
        return -1
    topic = load_be16(key + 4 + group)
    if topic < 0 or n != 10 + group + topic or not is_ascii(key + 4, group) or not is_ascii(key + 6 + group, topic):
        return -1
    return group


cdef bint read_value(const uint8_t *at, Py_ssize_t n, Commit *out) noexcept nogil:
    """Decodes a value; False: the codec must look at it."""
    cdef const uint8_t *end = at + n
    cdef int16_t version
    if n < 10:
        return False
    version = load_be16(at)
    if not 0 <= version <= FLEXIBLE_VERSION:
        return False
    out.offset = load_be64(at + 2)
    at += 10
    out.leader_epoch = -1
    out.expire_timestamp = -1
    out.topic_id = NULL
    if version >= EPOCH_VERSION:
        if end - at < 4:
            return False
        out.leader_epoch = load_be32(at)
        at += 4
    if end - at < 2:
        return False
    if version >= FLEXIBLE_VERSION:
        out.metadata_bytes = <Py_ssize_t>at[0] - 1       # a length of several bytes is left to the codec
        if at[0] >= 0x80:
            return False
        at += 1
    else:
        out.metadata_bytes = load_be16(at)
        at += 2
    if out.metadata_bytes < 0 or end - at < out.metadata_bytes + 8 or not is_ascii(at, out.metadata_bytes):
        return False
    out.metadata = at
    at += out.metadata_bytes
    out.commit_timestamp = load_be64(at)
    at += 8
    if version == EXPIRY_VERSION:
        if end - at != 8:
            return False
        out.expire_timestamp = load_be64(at)
        return True
    if version < FLEXIBLE_VERSION:
        return at == end
    if end - at == 1:
        return at[0] == 0                                # no tagged field
    if end - at != 3 + UUID_BYTES or at[0] != 1 or at[1] != 0 or at[2] != UUID_BYTES:
        return False
    out.topic_id = at + 3
    return True


cdef inline void put(object made, Py_ssize_t index, object value):
    Py_INCREF(value)
    PyTuple_SET_ITEM(made, index, value)


cdef object row_of(type cls, const Commit *commit, bytes topic_id, record_offset):
    made = new_tuple_of(cls, 7)
    put(made, 0, commit.offset)
    put(made, 1, commit.leader_epoch)
    put(made, 2, commit.metadata[:commit.metadata_bytes].decode("ascii"))
    put(made, 3, commit.commit_timestamp)
    put(made, 4, commit.expire_timestamp)
    put(made, 5, topic_id)
    put(made, 6, record_offset)
    return made


def decode_offset_commits(items, int most, partitions_of, type cls, list others):
    """Decodes up to `most` records of committed offsets and stores each in the dict of its group and topic.

    Args:
        items: Iterator of ``(key, (record offset, value))`` with different keys.
        partitions_of: Called with group, topic and time of a commit; returns the dict by partition that takes it. An offset
            is put into it at once.
        cls: Tuple with the fields offset, leader epoch, metadata, commit timestamp, expire timestamp, topic id, record
            offset.
        others: Gets the items that are no such records, or that the codec must decode.

    Returns:
        How many items were taken: fewer than `most` at the end.
    """
    cdef bytes key, value, prefix, topic_id = NO_TOPIC_ID, last = NO_BYTES
    cdef const uint8_t *at
    cdef Py_ssize_t n, group, last_bytes = -1
    cdef int taken = 0
    cdef Commit commit
    cdef dict partitions = None, found = {}
    for item in items:
        taken += 1
        name, (record_offset, body) = item
        group = -1
        if type(name) is bytes and type(body) is bytes:
            key = name
            value = body
            at = <const uint8_t *>PyBytes_AS_STRING(key)
            n = PyBytes_GET_SIZE(key)
            group = group_bytes(at, n)
        if group < 0 or not read_value(
                <const uint8_t *>PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value), &commit):
            others.append(item)
        else:
            if n != last_bytes or memcmp(at, PyBytes_AS_STRING(last), n - 4) != 0:
                prefix = key[:n - 4]
                partitions = found.get(prefix)
                if partitions is None:
                    partitions = found[prefix] = partitions_of(
                        at[4:4 + group].decode("ascii"), at[6 + group:n - 4].decode("ascii"), commit.commit_timestamp)
                last = key
                last_bytes = n
            if commit.topic_id == NULL:
                topic_id = NO_TOPIC_ID
            elif memcmp(commit.topic_id, PyBytes_AS_STRING(topic_id), UUID_BYTES) != 0:
                topic_id = PyBytes_FromStringAndSize(<const char *>commit.topic_id, UUID_BYTES)
            partitions[load_be32(at + n - 4)] = row_of(cls, &commit, topic_id, record_offset)
        if taken == most:
            break
    return taken
