"""Reads, checks and patches record batches (magic 2) and the records in them.

A batch is a pointer and a length; its bytes belong to the caller. Nothing here allocates on the produce path.

    Batch:   the header below, then the records; see https://kafka.apache.org/documentation/#recordbatch
    Record:  length varint · attributes int8 · timestamp delta varlong · offset delta varint · key length varint, key ·
             value length varint, value · header count varint, then for each header: key length varint, key, value
             length varint, value. A length of -1 is null. See https://kafka.apache.org/documentation/#record
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t
from bowstring._native.base.varint cimport get_uvarint, get_varint, get_varlong, likely
from bowstring._native.record.schema_types cimport SchemaRules

# ---------------------------------------------------------------- refused records
#
# The records of a produced batch that a topic refuses, by index and reason (KIP-467). Clients fail these records and may
# send the others again, so every refused record should be named. But a batch can hold millions: one response names a
# bounded number and counts the rest. A client that sends the others again gets the next.

cdef enum:
    RECORD_ERRORS_NAMED_MAX = 65536     # of one request: 1 MiB here, 0.4 MiB of its answer
    RECORD_ERRORS_TOLD_MAX = 2000       # of one batch: that many have a message of their own, the others none
    RECORD_ERRORS_MESSAGE_BYTES = 512

cdef enum RecordProblem:
    RECORD_WITHOUT_KEY
    RECORD_OUT_OF_TIME
    RECORD_STAMPED
    RECORD_OUT_OF_ORDER
    RECORD_KEY_WITHOUT_SCHEMA
    RECORD_KEY_OF_OTHER_SCHEMA
    RECORD_VALUE_WITHOUT_SCHEMA
    RECORD_VALUE_OF_OTHER_SCHEMA

cdef struct RecordError:
    int32_t index
    int32_t problem
    int64_t detail                      # the timestamp of RECORD_OUT_OF_TIME; the schema's id, below 0 of a guid

cdef struct RecordErrors:
    # One block, freed with free(): the errors follow the struct.
    int32_t total                       # refused
    int32_t count                       # and named, by ascending index
    int32_t capacity
    int64_t earliest_timestamp          # the range that the topic accepts
    int64_t latest_timestamp
    char message[RECORD_ERRORS_MESSAGE_BYTES]   # for all of them
    RecordError *errors

# Adds a refused record; allocates *to if it is NULL. When memory runs out the record is counted but not listed.
cdef void record_error_add(RecordErrors **to, int32_t index, int32_t problem, int64_t detail) noexcept nogil

# Call it after the last record: drops entries beyond `named_max` (but never all) and writes the message for the batch.
cdef void record_errors_close(RecordErrors **errors, int32_t named_max) noexcept nogil

# Writes the message of errors[i] into `out`, NUL-terminated.
cdef void record_error_tell(const RecordErrors *errors, int32_t i, char *out, size_t size) noexcept nogil

# ---------------------------------------------------------------- batches

# Byte offsets of the batch header, https://kafka.apache.org/documentation/#recordbatch
cdef enum:
    BATCH_BASE_OFFSET = 0
    BATCH_LENGTH = 8
    BATCH_LEADER_EPOCH = 12
    BATCH_MAGIC = 16
    BATCH_CRC = 17
    BATCH_ATTRIBUTES = 21
    BATCH_LAST_OFFSET_DELTA = 23
    BATCH_BASE_TIMESTAMP = 27
    BATCH_MAX_TIMESTAMP = 35
    BATCH_PRODUCER_ID = 43
    BATCH_PRODUCER_EPOCH = 51
    BATCH_BASE_SEQUENCE = 53
    BATCH_RECORD_COUNT = 57
    BATCH_HEADER_BYTES = 61
    BATCH_LENGTH_PREFIX_BYTES = 12

cdef enum:
    ATTR_COMPRESSION_MASK = 0x07
    ATTR_LOG_APPEND_TIME = 0x08
    ATTR_TRANSACTIONAL = 0x10
    ATTR_CONTROL = 0x20
    ATTR_DELETE_HORIZON = 0x40

cdef enum:
    CODEC_ZSTD = 4              # the highest of ATTR_COMPRESSION_MASK

cdef struct BatchInfo:
    # The header of one batch, in host byte order.
    int64_t base_offset
    int32_t size_bytes            # the whole batch, including its 12-byte prefix
    int32_t leader_epoch
    int16_t attributes
    int32_t last_offset_delta
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int16_t producer_epoch
    int32_t base_sequence
    int32_t record_count
    int8_t schemas_missing        # set by checks of records: some have a schema that SchemaRules does not have yet

cdef struct BatchRules:
    # What a topic requires of a produced batch.
    int32_t max_message_bytes
    int8_t key_required           # compacted topic
    int8_t log_append_time        # message.timestamp.type=LogAppendTime: no timestamp range check
    int64_t timestamp_before_max_ms
    int64_t timestamp_after_max_ms
    SchemaRules schemas

# Reads the header, without checking the CRC. Returns 0, or a Kafka error code when there are fewer than
# BATCH_HEADER_BYTES, the length field disagrees with `size`, or the magic is not 2.
cdef int16_t batch_parse(const uint8_t *data, int64_t size, BatchInfo *info) noexcept nogil

# Makes the checks of Kafka's LogValidator that need only the bytes: header, CRC-32C, counts, timestamps, and the framing
# of every record if they are not compressed. Returns 0 or a Kafka error code.
# On an error *reason is a static C string, for the log and for ProduceResponse.ErrorMessage. *errors names the refused
# records and the caller frees it; it is NULL if the whole batch is refused.
# On success info.max_timestamp is the largest timestamp of the records (uncompressed data only). batch_correct() writes
# it into a header with another value.
cdef int16_t batch_validate(
    const uint8_t *data, int64_t size, const BatchRules *rules, int64_t now_ms,
    BatchInfo *info, const char **reason, RecordErrors **errors) noexcept nogil

# Writes base offset and leader epoch, which the CRC does not cover.
cdef void batch_assign(uint8_t *data, int64_t base_offset, int32_t leader_epoch) noexcept nogil

# Applies LogAppendTime: sets the attribute bit and max timestamp and recomputes the CRC.
cdef void batch_stamp(uint8_t *data, int64_t size, int64_t append_time_ms) noexcept nogil

# Returns whether the CRC-32C of the bytes equals the stored one.
cdef bint batch_crc_ok(const uint8_t *data, int64_t size) noexcept nogil

# Call it after batch_validate(): writes info.max_timestamp and a new CRC if the header has another max timestamp. Kafka
# corrects such a header instead of refusing it. Otherwise costs one comparison.
cdef void batch_correct(uint8_t *data, int64_t size, const BatchInfo *info) noexcept nogil

# The part of batch_validate() that checks records, for compressed data: [at, end) are the decompressed records, `info` is
# the batch's header.
cdef int16_t batch_check_records(
    const uint8_t *at, const uint8_t *end, const BatchRules *rules, int64_t now_ms,
    BatchInfo *info, const char **reason, RecordErrors **errors) noexcept nogil

# Writes the header at `data` from `info`, with magic and CRC. The records must already follow it.
cdef void batch_seal(uint8_t *data, const BatchInfo *info) noexcept nogil
# Like batch_seal, without reading the records: takes their CRC-32C and its crc32c_factor.
cdef void batch_seal_around(
    uint8_t *data, const BatchInfo *info, uint32_t records_crc, uint32_t records_factor) noexcept nogil

# Returns the size of the batch at `data`, to step from batch to batch: the length field plus 12. 0 when the `size` bytes do
# not contain the whole batch, -1 when they cannot be a batch of magic 2.
cdef int64_t batch_extent(const uint8_t *data, int64_t size) noexcept nogil

# For Python functions: batch_reason() returns why a batch was refused (None: it was not), refused_records() the indices of
# the refused records. refused_records() frees `errors`.
cdef object batch_reason(const char *reason, const RecordErrors *errors)
cdef list refused_records(RecordErrors *errors)

# ---------------------------------------------------------------- records

cdef enum:
    # The most bytes of a record without headers, not counting its key and value.
    RECORD_FRAMING_MAX_BYTES = 5 + 1 + 10 + 5 + 5 + 5 + 5

cdef struct Record:
    # One record, pointing into the batch. A null key or value has length -1.
    int64_t timestamp_delta
    int32_t offset_delta
    int32_t key_length
    int32_t value_length
    int32_t header_count
    const uint8_t *key
    const uint8_t *value
    const uint8_t *headers        # first header; record_end - headers bytes
    const uint8_t *end

# Reads the record at *at and checks the lengths of its headers. False when it is malformed or passes `end`; else *at is
# the next record.
cdef bint record_read(const uint8_t **at, const uint8_t *end, Record *r) noexcept nogil


cdef inline bint headers_walk(const uint8_t *p, const uint8_t *end, int32_t count) noexcept nogil:
    """True when `count` headers fill [p, end) exactly."""
    cdef int32_t n
    cdef int32_t i
    if count < 0 or p > end or count > end - p:
        return False
    for i in range(count):
        if not get_varint(&p, end, False, &n) or n < 0 or n > end - p:
            return False
        p += n
        if not get_varint(&p, end, False, &n) or n < -1 or n > end - p:
            return False
        if n > 0:
            p += n
    return p == end


cdef inline bint take_field(
        const uint8_t **at, const uint8_t *end, bint roomy, const uint8_t **field, int32_t *length) noexcept nogil:
    """Reads the length and the position of a key or value. In zig-zag encoding lengths are even, and null (-1) is 1."""
    cdef uint32_t doubled
    if not get_uvarint(at, end, roomy, &doubled):
        return False
    field[0] = at[0]
    if doubled & 1:
        length[0] = -1
        return doubled == 1
    length[0] = <int32_t>(doubled >> 1)
    at[0] += doubled >> 1
    return at[0] <= end


cdef inline bint record_body(const uint8_t *p, const uint8_t *end, bint roomy, Record *r) noexcept nogil:
    """Reads a record after its length: [p, end). If `roomy`, a varint may be read beyond the end, and p passes it."""
    cdef uint32_t doubled
    p += 1                                               # attributes: unused, and ignored as in Kafka
    if not get_varlong(&p, end, roomy, &r.timestamp_delta) or not get_varint(&p, end, roomy, &r.offset_delta):
        return False
    if not take_field(&p, end, roomy, &r.key, &r.key_length):
        return False
    if not take_field(&p, end, roomy, &r.value, &r.value_length):
        return False
    if not get_uvarint(&p, end, roomy, &doubled) or doubled & 1:
        return False
    r.header_count = <int32_t>(doubled >> 1)
    r.headers = p
    r.end = end
    if likely(doubled == 0, True):
        return p == end
    return headers_walk(p, end, r.header_count)


cdef inline bint record_parse(const uint8_t **at, const uint8_t *end, Record *r) noexcept nogil:
    """Inline record_read(), for loops over whole batches. Reads a record far from the end of the batch without a bounds
    check for each byte. `r` stays in registers because its address is not taken."""
    cdef const uint8_t *p = at[0]
    cdef Record other
    cdef uint32_t doubled
    cdef int64_t n
    if likely(end - p > RECORD_FRAMING_MAX_BYTES, True):
        if not get_uvarint(&p, end, True, &doubled) or doubled & 1:
            return False
        n = doubled >> 1
        if likely(end - p - n >= RECORD_FRAMING_MAX_BYTES, True):
            at[0] = p + n
            return record_body(p, p + n, True, r)
    p = at[0]
    if not record_read(&p, end, &other):
        return False
    at[0] = p
    r[0] = other
    return True
