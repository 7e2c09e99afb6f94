"""Encodes Produce responses, see produce_response.pxd."""
from libc.stdint cimport int16_t, int32_t
from libc.stdlib cimport free
from libc.string cimport strlen
from bowstring._native.base.error_codes cimport (
    CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR, MESSAGE_TOO_LARGE, NOT_LEADER_OR_FOLLOWER, RECORD_LIST_TOO_LARGE)
from bowstring._native.base.wire cimport (
    Writer, patch_i32, put_count, put_i16, put_i32, put_i64, put_raw, put_string, put_tags, put_uvarint)
from bowstring._native.record.batch cimport (
    RECORD_ERRORS_NAMED_MAX, RECORD_ERRORS_TOLD_MAX, RecordError, RecordErrors, record_error_tell,
    record_errors_close)
from bowstring._native.server.connection cimport connection_find, connection_hold
from bowstring._native.server.leader_hints cimport (
    PRODUCE_HINTS_VERSION, hint_wanted, put_current_leader, put_endpoints)
from bowstring._native.server.topic_table cimport topic_by_id, topic_by_name, topic_partition
from bowstring._native.server.connection_types cimport Connection
from bowstring._native.server.partition_types cimport Partition
from bowstring._native.server.plane_types cimport TopicTable
from bowstring._native.server.produce_types cimport ProducePart, ProduceRequest, ProduceTopic
from bowstring._native.server.reactor_types cimport Reactor
from bowstring._native.server.replica_types cimport LeaderHints


cdef void produce_encode(Writer *w, const ProduceRequest *request) noexcept nogil:
    cdef bint flexible = request.version >= 9
    cdef const ProducePart *part = request.parts
    cdef const ProduceTopic *topic
    cdef int32_t i, j
    cdef LeaderHints hints
    hints.count = 0
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
            encode_part(w, request, topic, part, &hints)
            part += 1
        put_tags(w, flexible)
    put_i32(w, <int32_t>request.throttle_ms)
    if hints.count > 0:
        put_endpoints(w, request.reactor.plane, &hints)
    else:
        put_tags(w, flexible)
    if not w.failed:
        patch_i32(w.data, <int32_t>(w.size - 4))


cdef const Partition *led_elsewhere(const ProduceRequest *request, const ProduceTopic *topic,
                                    const ProducePart *part) noexcept nogil:
    """Returns the partition if the answer names its leader, else NULL."""
    cdef const TopicTable *table = &request.reactor.plane.table
    cdef const Partition *p
    if part.error != NOT_LEADER_OR_FOLLOWER or request.version < PRODUCE_HINTS_VERSION:
        return NULL
    p = topic_partition(topic_by_id(table, topic.id) if request.version >= 13
                        else topic_by_name(table, topic.name, topic.name_length), part.index)
    return p if hint_wanted(request.reactor.plane, part.error, p) else NULL


cdef void encode_part(Writer *w, const ProduceRequest *request, const ProduceTopic *topic, const ProducePart *part,
                      LeaderHints *hints) noexcept nogil:
    cdef int16_t version = request.version
    cdef bint flexible = version >= 9
    cdef int32_t reason_length = -1
    cdef const Partition *led = led_elsewhere(request, topic, part)
    if part.reason != NULL and part.error != 0:
        reason_length = <int32_t>strlen(part.reason)
    put_i32(w, part.index)
    put_i16(w, part.error)
    put_i64(w, part.entry.base_offset if part.error == 0 else -1)
    put_i64(w, part.entry.log_append_time_ms if part.error == 0 else -1)
    if version >= 5:
        # As in Kafka, set for errors that concern the batch's content or its producer.
        put_i64(w, -1 if part.error in (CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE)
                else part.log_start_offset)
    if version >= 8:
        if part.error != 0 and part.record_errors != NULL:
            put_record_errors(w, flexible, part.record_errors)
        else:
            put_count(w, flexible, 0)
            put_string(w, flexible, part.reason, reason_length)
    if led != NULL:
        put_uvarint(w, 1)                                # one tagged field: 0, CurrentLeader
        put_current_leader(w, 0, led, hints)
    else:
        put_tags(w, flexible)


cdef void put_record_errors(Writer *w, bint flexible, const RecordErrors *errors) noexcept nogil:
    cdef char message[256]
    cdef int32_t i
    put_count(w, flexible, errors.count)
    for i in range(errors.count):
        put_i32(w, errors.errors[i].index)
        if i < RECORD_ERRORS_TOLD_MAX:
            record_error_tell(errors, i, message, sizeof(message))
            put_string(w, flexible, message, <int32_t>strlen(message))
        else:
            put_string(w, flexible, NULL, -1)            # clients use the message of the batch
        put_tags(w, flexible)
    put_string(w, flexible, errors.message, <int32_t>strlen(errors.message))


cdef void record_errors_hold(Reactor *r, ProducePart *part) noexcept nogil:
    cdef ProduceRequest *request = part.request
    cdef Connection *c
    if part.record_errors == NULL:
        return
    if part.record_errors.count > RECORD_ERRORS_NAMED_MAX - request.records_named:
        record_errors_close(&part.record_errors, RECORD_ERRORS_NAMED_MAX - request.records_named)
    request.records_named += part.record_errors.count
    c = connection_find(r, request.connection_id)
    if c != NULL:
        connection_hold(c, request.slot, sizeof(RecordErrors) + part.record_errors.count * sizeof(RecordError))


cdef void record_errors_free(ProduceRequest *request) noexcept nogil:
    cdef int32_t i
    for i in range(request.part_count):
        free(request.parts[i].record_errors)
        request.parts[i].record_errors = NULL
