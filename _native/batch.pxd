"""Record batches (magic 2): checked, encoded and decoded in native loops.

A batch is addressed by a pointer and a length. Nothing here allocates on the produce path and nothing
here owns the caller's bytes.
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

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

cdef struct BatchInfo:
    # The header of one batch, in host byte order.
    int64_t base_offset
    int32_t size_bytes            # the whole batch, its 12-byte prefix included
    int32_t leader_epoch
    int16_t attributes
    int32_t last_offset_delta
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int16_t producer_epoch
    int32_t base_sequence
    int32_t record_count

cdef struct BatchRules:
    # What a topic demands of a produced batch.
    int32_t max_message_bytes
    int8_t key_required           # compacted topic
    int8_t log_append_time        # message.timestamp.type=LogAppendTime: no timestamp range check
    int64_t timestamp_before_max_ms
    int64_t timestamp_after_max_ms

# Reads the header; 0, or the Kafka error code when fewer than BATCH_HEADER_BYTES are there, the length
# field disagrees with `size`, or the magic is not 2. Does not look at the CRC.
cdef int16_t batch_parse(const uint8_t *data, int64_t size, BatchInfo *info) noexcept nogil

# Everything Kafka's LogValidator checks on a produced batch that holds for its bytes alone: header,
# CRC-32C, counts, timestamps, and for uncompressed data the framing of every record. Returns 0 or a
# Kafka error code; *reason is then a static C string for the log and for ProduceResponse.ErrorMessage;
# *bad_record is the index of the record at fault, or -1. info.max_timestamp is then the greatest timestamp of
# the records themselves (uncompressed data): batch_correct writes it where the producer's header says otherwise.
cdef int16_t batch_validate(
    const uint8_t *data, int64_t size, const BatchRules *rules, int64_t now_ms,
    BatchInfo *info, const char **reason, int32_t *bad_record) noexcept nogil

# Writes base offset and leader epoch, which the CRC does not cover.
cdef void batch_assign(uint8_t *data, int64_t base_offset, int32_t leader_epoch) noexcept nogil

# LogAppendTime: sets the attribute bit and max timestamp and recomputes the CRC.
cdef void batch_stamp(uint8_t *data, int64_t size, int64_t append_time_ms) noexcept nogil

# Recomputed CRC-32C equals the stored one.
cdef bint batch_crc_ok(const uint8_t *data, int64_t size) noexcept nogil

# Kafka does not refuse a header whose max timestamp is not that of its records, it corrects it: after
# batch_validate, writes info.max_timestamp and a new CRC when the header differs. Costs a compare otherwise.
cdef void batch_correct(uint8_t *data, int64_t size, const BatchInfo *info) noexcept nogil

# The part of batch_validate that concerns the records, for data that had to be decompressed first: [at, end)
# are the records themselves, `info` the header they came under.
cdef int16_t batch_check_records(
    const uint8_t *at, const uint8_t *end, const BatchRules *rules, int64_t now_ms,
    BatchInfo *info, const char **reason, int32_t *bad_record) noexcept nogil

# Writes the BATCH_HEADER_BYTES at `data` from `info`, magic and CRC included; the rest of the info.size_bytes
# is already there.
cdef void batch_seal(uint8_t *data, const BatchInfo *info) noexcept nogil
# The same where the CRC-32C of the records and their crc32c_factor are known: the records are not read.
cdef void batch_seal_around(
    uint8_t *data, const BatchInfo *info, uint32_t records_crc, uint32_t records_factor) noexcept nogil

# Size of the batch at `data`, for walking batches that lie one after the other: its prefix's length plus 12, or
# 0 when the `size` bytes left do not hold all of it, or -1 when what is there cannot be a batch of magic 2.
cdef int64_t batch_extent(const uint8_t *data, int64_t size) noexcept nogil
