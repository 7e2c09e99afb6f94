"""Parses batch headers, checks produced batches and their records, writes offsets and times.

The error for each defect follows Kafka's order: first the produce request's own check (exactly one batch of magic 2),
then UnifiedLog's (base offset, size, CRC), then LogValidator's (counts, control, sequence, records).
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, int8_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, realloc
from libc.string cimport memset, strlen
from bowstring._native.base.bigendian cimport load_be16, load_be32, load_be64, store_be16, store_be32, store_be64
from bowstring._native.base.crc cimport crc32c_joined, crc32c_update
from bowstring._native.base.error_codes cimport (
    CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE)
from bowstring._native.base.varint cimport get_uvarint
from bowstring._native.record.schema_ids cimport SCHEMA_NONE, schema_ids_have, schema_of
from bowstring._native.record.schema_types cimport SCHEMA_IN_KEY, SCHEMA_IN_VALUE, SchemaIds, SchemaRules

cdef enum:
    MAGIC_V2 = 2
    # The smallest length field that Kafka's reader of batches accepts: that of a magic 0 message.
    LENGTH_MIN_BYTES = 14

cdef struct RecordRules:
    int64_t base_timestamp
    int64_t earliest_timestamp
    int64_t latest_timestamp
    int8_t key_required
    int8_t check_timestamps       # CreateTime: those other than -1 must lie in [earliest, latest]
    const SchemaRules *schemas

cdef struct RecordsFound:
    int64_t max_timestamp         # -1 for no record
    RecordErrors *errors          # the refused records, owned by the caller; NULL: none, or the whole batch is refused
    const char *reason            # set with every error
    int8_t schemas_missing

cdef enum:
    CAPACITY_FIRST = 8
    SUMMARY_ERRORS = 3                  # whose messages are part of the message for all

# ---------------------------------------------------------------- refused records


cdef void record_error_add(RecordErrors **to, int32_t index, int32_t problem, int64_t detail) noexcept nogil:
    cdef RecordErrors *errors = to[0]
    cdef RecordErrors *grown
    cdef int32_t capacity
    if errors == NULL or (errors.count == errors.capacity and errors.capacity < RECORD_ERRORS_NAMED_MAX):
        capacity = CAPACITY_FIRST if errors == NULL else errors.capacity * 2
        grown = <RecordErrors *>realloc(errors, sizeof(RecordErrors) + capacity * sizeof(RecordError))
        if grown != NULL:
            if errors == NULL:
                memset(grown, 0, sizeof(RecordErrors))
            grown.capacity = capacity
            grown.errors = <RecordError *>(grown + 1)
            to[0] = errors = grown
        elif errors == NULL:
            return
    errors.total += 1
    if errors.count < errors.capacity:
        errors.errors[errors.count].index = index
        errors.errors[errors.count].problem = problem
        errors.errors[errors.count].detail = detail
        errors.count += 1


cdef void record_errors_close(RecordErrors **at, int32_t named_max) noexcept nogil:
    cdef RecordErrors *errors = at[0]
    cdef RecordErrors *shrunk
    cdef size_t used
    cdef int32_t i
    if errors.count > named_max:
        errors.count = named_max if named_max > 1 else 1
    if errors.count < errors.capacity // 2:
        shrunk = <RecordErrors *>realloc(errors, sizeof(RecordErrors) + errors.count * sizeof(RecordError))
        if shrunk != NULL:
            shrunk.capacity = shrunk.count
            shrunk.errors = <RecordError *>(shrunk + 1)
            at[0] = errors = shrunk
    snprintf(errors.message, sizeof(errors.message), b"%d record%s refused; the first%s:", errors.total,
             <const char *>(b" was" if errors.total == 1 else b"s were"),
             <const char *>(b"" if errors.total == 1 else b" ones"))
    for i in range(errors.count if errors.count < SUMMARY_ERRORS else SUMMARY_ERRORS):
        used = strlen(errors.message)
        snprintf(errors.message + used, sizeof(errors.message) - used, b" [%d] ", errors.errors[i].index)
        used = strlen(errors.message)
        record_error_tell(errors, i, errors.message + used, sizeof(errors.message) - used)


cdef void record_error_tell(const RecordErrors *errors, int32_t i, char *out, size_t size) noexcept nogil:
    cdef const RecordError *e = &errors.errors[i]
    if e.problem == RECORD_WITHOUT_KEY:
        snprintf(out, size, b"The record has no key, which a compacted topic requires.")
    elif e.problem == RECORD_OUT_OF_TIME:
        snprintf(out, size, b"Timestamp %lld of the record with offset %d is outside %lld to %lld; see "
                 b"message.timestamp.before.max.ms and message.timestamp.after.max.ms.", <long long>e.detail,
                 e.index, <long long>errors.earliest_timestamp, <long long>errors.latest_timestamp)
    elif e.problem == RECORD_STAMPED:
        snprintf(out, size, b"Producers may not set the timestamp type LogAppendTime.")
    elif e.problem >= RECORD_KEY_WITHOUT_SCHEMA:
        tell_schema(e, out, size)
    else:
        snprintf(out, size, b"Offset deltas must count 0, 1, 2 and so on.")


cdef void tell_schema(const RecordError *e, char *out, size_t size) noexcept nogil:
    cdef const char *part = (b"key" if e.problem == RECORD_KEY_WITHOUT_SCHEMA or e.problem == RECORD_KEY_OF_OTHER_SCHEMA
                             else b"value")
    if e.problem == RECORD_KEY_WITHOUT_SCHEMA or e.problem == RECORD_VALUE_WITHOUT_SCHEMA:
        snprintf(out, size, b"The %s of the record with offset %d has no schema id, which the topic requires (confluent.%s."
                 b"schema.validation); use a serializer of a schema registry.", part, e.index, part)
    elif e.detail < 0:
        snprintf(out, size, b"The schema guid in the header __%s_schema_id of the record with offset %d is not registered "
                 b"under the topic's subject for the %s; register the schema first.", part, e.index, part)
    else:
        snprintf(out, size, b"Schema id %lld of the %s of the record with offset %d is not registered under the topic's "
                 b"subject for the %s; register the schema first.", <long long>e.detail, part, e.index, part)

# ---------------------------------------------------------------- batches


cdef int16_t read_header(const uint8_t *data, int64_t size, BatchInfo *info, const char **reason) noexcept nogil:
    cdef int64_t length
    cdef uint8_t magic
    if size < BATCH_LENGTH_PREFIX_BYTES:
        reason[0] = b"The partition has no record batch; send exactly one for each partition."
        return INVALID_RECORD
    length = load_be32(data + BATCH_LENGTH)
    if length < LENGTH_MIN_BYTES:
        reason[0] = b"The batch's length field is too small for any batch."
        return CORRUPT_MESSAGE
    if size > BATCH_MAGIC:
        magic = data[BATCH_MAGIC]
        if magic > MAGIC_V2:
            reason[0] = b"The batch's magic is unknown."
            return CORRUPT_MESSAGE
        if magic < MAGIC_V2:
            reason[0] = b"Only record batches of magic 2 are accepted."
            return INVALID_RECORD
    if length + BATCH_LENGTH_PREFIX_BYTES != size:
        reason[0] = b"The batch's length field does not match the bytes sent; send exactly one complete batch."
        return INVALID_RECORD
    if size < BATCH_HEADER_BYTES or size > INT32_MAX:
        reason[0] = b"The batch is shorter than a batch header, or its length field overflows."
        return CORRUPT_MESSAGE
    info.base_offset = load_be64(data + BATCH_BASE_OFFSET)
    info.size_bytes = <int32_t>size
    info.leader_epoch = load_be32(data + BATCH_LEADER_EPOCH)
    info.attributes = load_be16(data + BATCH_ATTRIBUTES)
    info.last_offset_delta = load_be32(data + BATCH_LAST_OFFSET_DELTA)
    info.base_timestamp = load_be64(data + BATCH_BASE_TIMESTAMP)
    info.max_timestamp = load_be64(data + BATCH_MAX_TIMESTAMP)
    info.producer_id = load_be64(data + BATCH_PRODUCER_ID)
    info.producer_epoch = load_be16(data + BATCH_PRODUCER_EPOCH)
    info.base_sequence = load_be32(data + BATCH_BASE_SEQUENCE)
    info.record_count = load_be32(data + BATCH_RECORD_COUNT)
    info.schemas_missing = False
    return 0


cdef int16_t batch_parse(const uint8_t *data, int64_t size, BatchInfo *info) noexcept nogil:
    cdef const char *reason
    return read_header(data, size, info, &reason)


cdef bint batch_crc_ok(const uint8_t *data, int64_t size) noexcept nogil:
    return (size >= BATCH_HEADER_BYTES
            and crc32c_update(0, data + BATCH_ATTRIBUTES, size - BATCH_ATTRIBUTES)
            == <uint32_t>load_be32(data + BATCH_CRC))


cdef void write_crc(uint8_t *data, int64_t size) noexcept nogil:
    store_be32(data + BATCH_CRC,
               <int32_t>crc32c_update(0, data + BATCH_ATTRIBUTES, size - BATCH_ATTRIBUTES))


cdef int16_t check_fields(const BatchInfo *info, const char **reason) noexcept nogil:
    """Checks the fields of a produced batch's header against each other."""
    if info.last_offset_delta < 0 or info.record_count <= 0:
        reason[0] = b"The batch has no records."
        return INVALID_RECORD
    if info.record_count - 1 != info.last_offset_delta:
        reason[0] = b"The batch's last offset delta does not match its record count."
        return INVALID_RECORD
    if info.attributes & ATTR_CONTROL:
        reason[0] = b"Clients may not write control records."
        return INVALID_RECORD
    if info.producer_id >= 0 and info.base_sequence < 0:
        reason[0] = b"A batch with a producer id needs a sequence number."
        return INVALID_RECORD
    if info.producer_id < 0 and info.attributes & ATTR_TRANSACTIONAL:
        reason[0] = b"A transactional batch needs a producer id."
        return INVALID_RECORD
    if info.attributes & ATTR_COMPRESSION_MASK > CODEC_ZSTD:
        reason[0] = b"The compression codec is unknown; use none, gzip, snappy, lz4 or zstd."
        return UNSUPPORTED_COMPRESSION_TYPE
    return 0


cdef void record_rules(const BatchInfo *info, const BatchRules *rules, int64_t now_ms, RecordRules *out) noexcept nogil:
    """Sets the topic's rules for each record of this batch; time bounds saturate."""
    out.base_timestamp = info.base_timestamp
    out.key_required = rules.key_required
    out.check_timestamps = not rules.log_append_time
    out.schemas = &rules.schemas
    out.earliest_timestamp = INT64_MIN
    out.latest_timestamp = INT64_MAX
    if rules.timestamp_before_max_ms >= 0 and now_ms >= INT64_MIN + rules.timestamp_before_max_ms:
        out.earliest_timestamp = now_ms - rules.timestamp_before_max_ms
    if rules.timestamp_after_max_ms >= 0 and now_ms <= INT64_MAX - rules.timestamp_after_max_ms:
        out.latest_timestamp = now_ms + rules.timestamp_after_max_ms


cdef int16_t batch_validate(
        const uint8_t *data, int64_t size, const BatchRules *rules, int64_t now_ms,
        BatchInfo *info, const char **reason, RecordErrors **errors) noexcept nogil:
    cdef int16_t error
    reason[0] = NULL
    errors[0] = NULL
    error = read_header(data, size, info, reason)
    if error != 0:
        return error
    if info.base_offset != 0:
        reason[0] = b"The base offset of a produced batch must be 0."
        return INVALID_RECORD
    if size > rules.max_message_bytes:
        reason[0] = b"The batch is larger than max.message.bytes."
        return MESSAGE_TOO_LARGE
    if not batch_crc_ok(data, size):
        reason[0] = b"The batch's CRC-32C does not match its bytes."
        return CORRUPT_MESSAGE
    error = check_fields(info, reason)
    if error != 0:
        return error
    if info.attributes & ATTR_COMPRESSION_MASK:
        return 0
    return batch_check_records(data + BATCH_HEADER_BYTES, data + size, rules, now_ms, info, reason, errors)


cdef int16_t batch_check_records(
        const uint8_t *at, const uint8_t *end, const BatchRules *rules, int64_t now_ms,
        BatchInfo *info, const char **reason, RecordErrors **errors) noexcept nogil:
    cdef RecordRules each
    cdef RecordsFound found
    cdef int16_t error
    record_rules(info, rules, now_ms, &each)
    error = records_check(at, end, info.record_count, &each, &found)
    if info.attributes & ATTR_LOG_APPEND_TIME:
        error = refuse_stamped(info.record_count, &found, error)
    reason[0] = found.reason
    info.schemas_missing = found.schemas_missing
    if error == 0:
        info.max_timestamp = found.max_timestamp
    elif found.errors != NULL:
        found.errors.earliest_timestamp = each.earliest_timestamp
        found.errors.latest_timestamp = each.latest_timestamp
        record_errors_close(&found.errors, RECORD_ERRORS_NAMED_MAX)
        errors[0] = found.errors
    return error


cdef int16_t refuse_stamped(int32_t count, RecordsFound *found, int16_t error) noexcept nogil:
    """For a producer that set LogAppendTime: refuses every record that is not already refused for another reason."""
    cdef RecordErrors *before = found.errors
    cdef RecordErrors *errors = NULL
    cdef int32_t i, seen = 0, problem
    cdef int16_t outcome = INVALID_RECORD
    if error != 0 and (before == NULL or before.errors[0].problem == RECORD_OUT_OF_ORDER):
        return error
    for i in range(count):
        problem = RECORD_STAMPED
        if before != NULL and seen < before.count and before.errors[seen].index == i:
            if before.errors[seen].problem == RECORD_WITHOUT_KEY:
                problem = RECORD_WITHOUT_KEY
            seen += 1
        if problem == RECORD_STAMPED:
            outcome = INVALID_TIMESTAMP
        record_error_add(&errors, i, problem, 0)
    free(before)
    found.errors = errors
    found.reason = b"Producers may not set the timestamp type LogAppendTime."
    return outcome


cdef void batch_assign(uint8_t *data, int64_t base_offset, int32_t leader_epoch) noexcept nogil:
    store_be64(data + BATCH_BASE_OFFSET, base_offset)
    store_be32(data + BATCH_LEADER_EPOCH, leader_epoch)


cdef void batch_stamp(uint8_t *data, int64_t size, int64_t append_time_ms) noexcept nogil:
    store_be16(data + BATCH_ATTRIBUTES, load_be16(data + BATCH_ATTRIBUTES) | ATTR_LOG_APPEND_TIME)
    store_be64(data + BATCH_MAX_TIMESTAMP, append_time_ms)
    write_crc(data, size)


cdef void batch_correct(uint8_t *data, int64_t size, const BatchInfo *info) noexcept nogil:
    if load_be64(data + BATCH_MAX_TIMESTAMP) != info.max_timestamp:
        store_be64(data + BATCH_MAX_TIMESTAMP, info.max_timestamp)
        write_crc(data, size)


cdef void store_header(uint8_t *data, const BatchInfo *info) noexcept nogil:
    store_be64(data + BATCH_BASE_OFFSET, info.base_offset)
    store_be32(data + BATCH_LENGTH, info.size_bytes - BATCH_LENGTH_PREFIX_BYTES)
    store_be32(data + BATCH_LEADER_EPOCH, info.leader_epoch)
    data[BATCH_MAGIC] = MAGIC_V2
    store_be16(data + BATCH_ATTRIBUTES, info.attributes)
    store_be32(data + BATCH_LAST_OFFSET_DELTA, info.last_offset_delta)
    store_be64(data + BATCH_BASE_TIMESTAMP, info.base_timestamp)
    store_be64(data + BATCH_MAX_TIMESTAMP, info.max_timestamp)
    store_be64(data + BATCH_PRODUCER_ID, info.producer_id)
    store_be16(data + BATCH_PRODUCER_EPOCH, info.producer_epoch)
    store_be32(data + BATCH_BASE_SEQUENCE, info.base_sequence)
    store_be32(data + BATCH_RECORD_COUNT, info.record_count)


cdef void batch_seal(uint8_t *data, const BatchInfo *info) noexcept nogil:
    store_header(data, info)
    write_crc(data, info.size_bytes)


cdef void batch_seal_around(
        uint8_t *data, const BatchInfo *info, uint32_t records_crc, uint32_t records_factor) noexcept nogil:
    cdef uint32_t crc
    store_header(data, info)
    crc = crc32c_update(0, data + BATCH_ATTRIBUTES, BATCH_HEADER_BYTES - BATCH_ATTRIBUTES)
    store_be32(data + BATCH_CRC, <int32_t>crc32c_joined(crc, records_crc, records_factor))


cdef int64_t batch_extent(const uint8_t *data, int64_t size) noexcept nogil:
    cdef int64_t length
    if size <= BATCH_MAGIC:
        return 0
    length = load_be32(data + BATCH_LENGTH)
    if data[BATCH_MAGIC] != MAGIC_V2 or length < BATCH_HEADER_BYTES - BATCH_LENGTH_PREFIX_BYTES:
        return -1
    length += BATCH_LENGTH_PREFIX_BYTES
    return length if length <= size else 0

# ---------------------------------------------------------------- records


cdef bint record_read(const uint8_t **at, const uint8_t *end, Record *r) noexcept nogil:
    cdef const uint8_t *p = at[0]
    cdef uint32_t doubled
    cdef int64_t n
    if not get_uvarint(&p, end, False, &doubled) or doubled & 1:
        return False
    n = doubled >> 1
    if n == 0 or n > end - p:
        return False
    at[0] = p + n
    return record_body(p, p + n, False, r)


cdef int16_t refuse_whole(RecordsFound *found, const char *reason) noexcept nogil:
    free(found.errors)
    found.errors = NULL
    found.reason = reason
    return INVALID_RECORD


cdef int32_t schema_problem(uint64_t id, const SchemaIds *ids, bint all_known, int32_t without, int8_t *missing) noexcept nogil:
    """Returns what is wrong with the schema of a key or value; 0: nothing, or it is not known yet, which sets *missing."""
    if id == SCHEMA_NONE:
        return without
    if schema_ids_have(ids, id):
        return 0
    if all_known:
        return without + 1
    missing[0] = True
    return 0


cdef bint schemas_fit(const Record *r, const SchemaRules *rules, RecordsFound *found, int32_t index) noexcept nogil:
    """Whether key and value have schemas of the topic, or are null; else lists the record."""
    cdef int32_t problem = 0
    cdef uint64_t id = 0
    if rules.wanted & SCHEMA_IN_KEY and r.key_length >= 0:
        id = schema_of(r, True)
        problem = schema_problem(id, rules.keys, rules.all_known, RECORD_KEY_WITHOUT_SCHEMA, &found.schemas_missing)
    if problem == 0 and rules.wanted & SCHEMA_IN_VALUE and r.value_length >= 0:
        id = schema_of(r, False)
        problem = schema_problem(id, rules.values, rules.all_known, RECORD_VALUE_WITHOUT_SCHEMA, &found.schemas_missing)
    if problem == 0:
        return True
    record_error_add(&found.errors, index, problem, <int64_t>id)
    return False


cdef int16_t records_check(
        const uint8_t *at, const uint8_t *end, int32_t count, const RecordRules *rules,
        RecordsFound *found) noexcept nogil:
    """Checks that [at, end) holds exactly `count` well-formed records with offset deltas 0, 1, 2, … that obey the
    rules. Returns 0, INVALID_RECORD or INVALID_TIMESTAMP.

    As in Kafka, a malformed record refuses the whole batch without naming a record. Otherwise every refused record is
    listed once; a missing key takes precedence over a bad timestamp. One listed for its timestamp makes the error
    INVALID_TIMESTAMP."""
    cdef Record r
    cdef int64_t timestamp, max_timestamp = -1
    cdef int16_t error = 0
    cdef int32_t i
    found.errors = NULL
    found.reason = NULL
    found.schemas_missing = False
    for i in range(count):
        if not record_parse(&at, end, &r):
            return refuse_whole(found, b"A record is malformed: its length fields do not fit the batch.")
        if r.offset_delta != i:
            refuse_whole(found, b"Offset deltas must count 0, 1, 2 and so on.")
            record_error_add(&found.errors, i, RECORD_OUT_OF_ORDER, 0)
            return INVALID_RECORD
        timestamp = <int64_t>(<unsigned long long>rules.base_timestamp + <unsigned long long>r.timestamp_delta)
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        if rules.key_required and r.key_length < 0:
            record_error_add(&found.errors, i, RECORD_WITHOUT_KEY, 0)
            if error == 0:
                error = INVALID_RECORD
                found.reason = b"A record has no key, which a compacted topic requires."
        elif (rules.check_timestamps and timestamp != -1
                and (timestamp < rules.earliest_timestamp or timestamp > rules.latest_timestamp)):
            record_error_add(&found.errors, i, RECORD_OUT_OF_TIME, timestamp)
            error = INVALID_TIMESTAMP
            found.reason = b"A timestamp is outside message.timestamp.before.max.ms and message.timestamp.after.max.ms."
        elif rules.schemas.wanted and not schemas_fit(&r, rules.schemas, found, i) and error == 0:
            error = INVALID_RECORD
            found.reason = b"A record has no schema that is registered for this topic."
    if at != end:
        return refuse_whole(found, b"The batch has extra bytes after its last record.")
    found.max_timestamp = max_timestamp
    return error

# ---------------------------------------------------------------- for Python


def validate(data, *, int64_t now_ms, int32_t max_message_bytes=1048588, bint key_required=False,
             bint log_append_time=False, int64_t timestamp_before_max_ms=INT64_MAX,
             int64_t timestamp_after_max_ms=3600000):
    """Runs batch_validate() on bytes-like `data`. Returns (error code or 0, reason or None, indices of the bad records).

    The defaults are Kafka's for a topic.
    """
    cdef BatchRules rules
    cdef BatchInfo info
    cdef Py_buffer view
    cdef const char *reason
    cdef RecordErrors *errors
    cdef int16_t error
    rules.max_message_bytes = max_message_bytes
    rules.key_required = key_required
    rules.log_append_time = log_append_time
    rules.timestamp_before_max_ms = timestamp_before_max_ms
    rules.timestamp_after_max_ms = timestamp_after_max_ms
    rules.schemas.wanted = 0
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        with nogil:
            error = batch_validate(<const uint8_t *>view.buf, view.len, &rules, now_ms, &info, &reason, &errors)
    finally:
        PyBuffer_Release(&view)
    return error, batch_reason(reason, errors), refused_records(errors)


cdef object batch_reason(const char *reason, const RecordErrors *errors):
    if errors != NULL:
        return (<char *>errors.message).decode()
    return None if reason == NULL else reason.decode()


cdef list refused_records(RecordErrors *errors):
    """Returns the indices of the refused records and frees `errors`."""
    cdef int32_t i
    found = [errors.errors[i].index for i in range(errors.count)] if errors != NULL else []
    free(errors)
    return found


cdef bytearray copy_of(data):
    copy = bytearray(data)
    if len(copy) < BATCH_HEADER_BYTES:
        raise ValueError(f"{len(copy)} bytes are not a record batch: a header alone has {BATCH_HEADER_BYTES} bytes")
    return copy


def assigned(data, int64_t base_offset, int32_t leader_epoch):
    """Returns the batch with a base offset and leader epoch, which the CRC does not cover, as a leader writes it."""
    copy = copy_of(data)
    batch_assign(<uint8_t *>PyByteArray_AS_STRING(copy), base_offset, leader_epoch)
    return bytes(copy)


def stamped(data, int64_t append_time_ms):
    """Returns the batch with the append time, as a topic with LogAppendTime stores it."""
    copy = copy_of(data)
    batch_stamp(<uint8_t *>PyByteArray_AS_STRING(copy), len(copy), append_time_ms)
    return bytes(copy)


def corrected(data, int64_t max_timestamp):
    """Returns the batch with this max timestamp in its header and a new CRC, as the broker corrects wrong headers."""
    cdef BatchInfo info
    copy = copy_of(data)
    info.max_timestamp = max_timestamp
    batch_correct(<uint8_t *>PyByteArray_AS_STRING(copy), len(copy), &info)
    return bytes(copy)
