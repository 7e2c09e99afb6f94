"""The bytes of a Produce response, see produce_reply.pxd."""
from libc.stdint cimport int16_t, int32_t
from libc.string cimport strlen
from bowstring._native.error_codes cimport MESSAGE_TOO_LARGE
from bowstring._native.log_types cimport RECORD_LIST_TOO_LARGE
from bowstring._native.plane cimport (
    CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR, ProducePart, ProduceRequest, ProduceTopic)
from bowstring._native.wire cimport (
    Writer, patch_i32, put_count, put_i16, put_i32, put_i64, put_raw, put_string, put_tags)


cdef void produce_encode(Writer *w, const ProduceRequest *request) noexcept nogil:
    cdef bint flexible = request.version >= 9
    cdef const ProducePart *part = request.parts
    cdef const ProduceTopic *topic
    cdef int32_t i, j
    put_i32(w, 0)                                        # length, patched below
    put_i32(w, request.correlation_id)
    put_tags(w, flexible)
    put_count(w, flexible, request.topic_count)
    for i in range(request.topic_count):
        topic = &request.topics[i]
        if request.version >= 13:
            put_raw(w, topic.id, 16)
        else:
            put_string(w, flexible, topic.name, topic.name_length)
        put_count(w, flexible, topic.part_count)
        for j in range(topic.part_count):
            encode_part(w, request.version, part)
            part += 1
        put_tags(w, flexible)
    put_i32(w, 0)                                        # throttle time
    put_tags(w, flexible)
    if not w.failed:
        patch_i32(w.data, <int32_t>(w.size - 4))


cdef void encode_part(Writer *w, int16_t version, const ProducePart *part) noexcept nogil:
    cdef bint flexible = version >= 9
    cdef int32_t reason_length = -1
    if part.reason != NULL and part.error != 0:
        reason_length = <int32_t>strlen(part.reason)
    put_i32(w, part.index)
    put_i16(w, part.error)
    put_i64(w, part.entry.base_offset if part.error == 0 else -1)
    put_i64(w, part.entry.log_append_time_ms if part.error == 0 else -1)
    if version >= 5:
        # Like Kafka, told with the errors that are about the batch's content or its producer.
        put_i64(w, -1 if part.error in (CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE)
                else part.log_start_offset)
    if version >= 8:
        if part.error != 0 and part.bad_record >= 0:
            put_count(w, flexible, 1)
            put_i32(w, part.bad_record)
            put_string(w, flexible, part.reason, reason_length)
            put_tags(w, flexible)
        else:
            put_count(w, flexible, 0)
        put_string(w, flexible, part.reason, reason_length)
    put_tags(w, flexible)
