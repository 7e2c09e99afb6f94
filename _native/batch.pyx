"""Record batches as the broker meets them: header parsed, everything checked, offsets and times written.

Which error each defect gets follows Kafka: the produce request's own check (exactly one batch of magic 2),
then UnifiedLog's (base offset, size, CRC), then LogValidator's (counts, control, sequence, records).
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint8_t, uint32_t
from bowstring._native.bigendian cimport load_be16, load_be32, load_be64, store_be16, store_be32, store_be64
from bowstring._native.crc cimport crc32c_joined, crc32c_update
from bowstring._native.error_codes cimport (
    CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE)
from bowstring._native.records cimport RecordRules, RecordsFound, records_check

cdef enum:
    MAGIC_V2 = 2
    CODEC_ZSTD = 4
    # Smallest length field Kafka's reader of batches takes for anything at all: a magic 0 message.
    LENGTH_MIN_BYTES = 14


cdef int16_t read_header(const uint8_t *data, int64_t size, BatchInfo *info, const char **reason) noexcept nogil:
    cdef int64_t length
    cdef uint8_t magic
    if size < BATCH_LENGTH_PREFIX_BYTES:
        reason[0] = b"There is no record batch; exactly one is needed for each partition."
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
            reason[0] = b"Only record batches of magic 2 are taken."
            return INVALID_RECORD
    if length + BATCH_LENGTH_PREFIX_BYTES != size:
        reason[0] = b"The batch's length field disagrees with the bytes sent; exactly one whole batch is needed."
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
    """What the header says about itself, for a batch that a client sends."""
    if info.last_offset_delta < 0 or info.record_count <= 0:
        reason[0] = b"The batch holds no records."
        return INVALID_RECORD
    if info.record_count - 1 != info.last_offset_delta:
        reason[0] = b"The batch's last offset delta disagrees with its record count."
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
        reason[0] = b"The compression codec is unknown; there are none, gzip, snappy, lz4 and zstd."
        return UNSUPPORTED_COMPRESSION_TYPE
    if info.attributes & ATTR_LOG_APPEND_TIME:
        reason[0] = b"Producers may not set the timestamp type LogAppendTime."
        return INVALID_TIMESTAMP
    return 0


cdef void record_rules(const BatchInfo *info, const BatchRules *rules, int64_t now_ms, RecordRules *out) noexcept nogil:
    """The topic's rules as they bear on each record of this batch; bounds saturate."""
    out.base_timestamp = info.base_timestamp
    out.key_required = rules.key_required
    out.check_timestamps = not rules.log_append_time
    out.earliest_timestamp = INT64_MIN
    out.latest_timestamp = INT64_MAX
    if rules.timestamp_before_max_ms >= 0 and now_ms >= INT64_MIN + rules.timestamp_before_max_ms:
        out.earliest_timestamp = now_ms - rules.timestamp_before_max_ms
    if rules.timestamp_after_max_ms >= 0 and now_ms <= INT64_MAX - rules.timestamp_after_max_ms:
        out.latest_timestamp = now_ms + rules.timestamp_after_max_ms


cdef int16_t check_compressed_times(const BatchInfo *info, const RecordRules *rules, const char **reason) noexcept nogil:
    """Without decompressing, the header's two timestamps stand for all."""
    if not rules.check_timestamps:
        return 0
    if ((info.max_timestamp != -1 and info.max_timestamp > rules.latest_timestamp)
            or (info.base_timestamp != -1 and info.base_timestamp < rules.earliest_timestamp)):
        reason[0] = b"A timestamp lies outside message.timestamp.before.max.ms and .after.max.ms."
        return INVALID_TIMESTAMP
    return 0


cdef int16_t batch_validate(
        const uint8_t *data, int64_t size, const BatchRules *rules, int64_t now_ms,
        BatchInfo *info, const char **reason, int32_t *bad_record) noexcept nogil:
    cdef RecordRules each
    cdef int16_t error
    reason[0] = NULL
    bad_record[0] = -1
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
        record_rules(info, rules, now_ms, &each)
        return check_compressed_times(info, &each, reason)
    return batch_check_records(data + BATCH_HEADER_BYTES, data + size, rules, now_ms, info, reason, bad_record)


cdef int16_t batch_check_records(
        const uint8_t *at, const uint8_t *end, const BatchRules *rules, int64_t now_ms,
        BatchInfo *info, const char **reason, int32_t *bad_record) noexcept nogil:
    cdef RecordRules each
    cdef RecordsFound found
    cdef int16_t error
    record_rules(info, rules, now_ms, &each)
    error = records_check(at, end, info.record_count, &each, &found)
    reason[0] = found.reason
    bad_record[0] = found.bad_record
    if error == 0:
        info.max_timestamp = found.max_timestamp
    return error


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


# ---------------------------------------------------------------- Python's face


def validate(data, *, int64_t now_ms, int32_t max_message_bytes=1048588, bint key_required=False,
             bint log_append_time=False, int64_t timestamp_before_max_ms=INT64_MAX,
             int64_t timestamp_after_max_ms=3600000):
    """batch_validate() on bytes-like `data`: (Kafka error code or 0, reason or None, index of the bad record or -1).

    The defaults are Kafka's for a topic.
    """
    cdef BatchRules rules
    cdef BatchInfo info
    cdef Py_buffer view
    cdef const char *reason
    cdef int32_t bad_record
    cdef int16_t error
    rules.max_message_bytes = max_message_bytes
    rules.key_required = key_required
    rules.log_append_time = log_append_time
    rules.timestamp_before_max_ms = timestamp_before_max_ms
    rules.timestamp_after_max_ms = timestamp_after_max_ms
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        with nogil:
            error = batch_validate(<const uint8_t *>view.buf, view.len, &rules, now_ms, &info, &reason, &bad_record)
    finally:
        PyBuffer_Release(&view)
    return error, None if reason == NULL else reason.decode(), bad_record


cdef bytearray copy_of(data):
    copy = bytearray(data)
    if len(copy) < BATCH_HEADER_BYTES:
        raise ValueError(f"{len(copy)} bytes are not a record batch: its header alone has {BATCH_HEADER_BYTES}")
    return copy


def assigned(data, int64_t base_offset, int32_t leader_epoch):
    """The batch as a leader writes it: with its base offset and leader epoch, which the CRC does not cover."""
    copy = copy_of(data)
    batch_assign(<uint8_t *>PyByteArray_AS_STRING(copy), base_offset, leader_epoch)
    return bytes(copy)


def stamped(data, int64_t append_time_ms):
    """The batch as a topic with LogAppendTime stores it."""
    copy = copy_of(data)
    batch_stamp(<uint8_t *>PyByteArray_AS_STRING(copy), len(copy), append_time_ms)
    return bytes(copy)


def corrected(data, int64_t max_timestamp):
    """The batch with this max timestamp in its header, as the broker puts right what a producer got wrong."""
    cdef BatchInfo info
    copy = copy_of(data)
    info.max_timestamp = max_timestamp
    batch_correct(<uint8_t *>PyByteArray_AS_STRING(copy), len(copy), &info)
    return bytes(copy)
