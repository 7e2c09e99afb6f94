"""Walks a Produce request: its topics, and the partitions of each with their batches.

    produce_reader_begin(&reader, body, version)
    while next_topic(&reader):
        while next_part(&reader):
            ...

Nothing is copied: names and batches lie in the request. The walk ends early where the request is malformed, and
`reader.body.bad` is set then.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from bowstring._native.base.wire cimport (
    Reader, read_bytes, read_count, read_i16, read_i32, read_string, skip_tags, take)
from bowstring._native.server.topic_table cimport topic_by_id, topic_by_name
from bowstring._native.server.partition_types cimport Topic
from bowstring._native.server.plane_types cimport TopicTable

cdef struct ProduceReader:
    Reader body
    bint flexible                   # from version 9 on
    bint by_id                      # topics have ids, from version 13 on
    int16_t acks
    int32_t timeout_ms
    int32_t transactional_id_length # -1: null
    const uint8_t *transactional_id
    int32_t topics_left
    # The topic.
    const uint8_t *id               # 16 bytes
    const uint8_t *name
    int32_t name_length             # 0 where topics have ids
    int32_t part_count
    int32_t parts_left
    # The part.
    int32_t index                   # of the partition
    const uint8_t *batch
    int64_t batch_bytes             # -1: null


cdef inline void produce_reader_begin(ProduceReader *p, Reader body, int16_t version) noexcept nogil:
    p.body = body
    p.flexible = version >= 9
    p.by_id = version >= 13
    p.transactional_id_length = read_string(&p.body, p.flexible, &p.transactional_id)
    p.acks = read_i16(&p.body)
    p.timeout_ms = read_i32(&p.body)
    p.topics_left = read_count(&p.body, p.flexible)
    if p.topics_left < 0:
        p.body.bad = True


cdef inline bint next_topic(ProduceReader *p) noexcept nogil:
    """Reads the beginning of the next topic. The parts of the one before were all read."""
    if p.body.bad:
        return False
    if p.topics_left == 0:
        if p.flexible:
            skip_tags(&p.body)
        return False
    p.topics_left -= 1
    p.name = NULL
    p.name_length = 0
    if p.by_id:
        p.id = take(&p.body, 16)
    else:
        p.name_length = read_string(&p.body, p.flexible, &p.name)
    p.part_count = p.parts_left = read_count(&p.body, p.flexible)
    if p.part_count < 0 or p.name_length < 0:
        p.body.bad = True
    return not p.body.bad


cdef inline bint next_part(ProduceReader *p) noexcept nogil:
    """Reads the next part of the topic."""
    if p.parts_left == 0:
        if p.flexible:
            skip_tags(&p.body)
        return False
    p.parts_left -= 1
    p.index = read_i32(&p.body)
    p.batch_bytes = read_bytes(&p.body, p.flexible, &p.batch)
    if p.flexible:
        skip_tags(&p.body)
    return not p.body.bad


cdef inline Topic *topic_of(const ProduceReader *p, const TopicTable *table) noexcept nogil:
    """Returns the topic, or NULL where this broker has none of its name or id."""
    return topic_by_id(table, p.id) if p.by_id else topic_by_name(table, p.name, p.name_length)
