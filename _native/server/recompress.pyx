"""Checks the records of compressed batches, and recompresses batches to their topic's compression.type.

Not on the hot path: most batches are stored as produced.
"""
from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport INT32_MAX, INT64_MAX, int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport malloc
from libc.string cimport memcpy
from bowstring._native.record.batch cimport (
    ATTR_COMPRESSION_MASK, BATCH_HEADER_BYTES, BatchInfo, BatchRules, RecordErrors, batch_check_records, batch_correct,
    batch_crc_ok, batch_parse, batch_reason, batch_seal, refused_records)
from bowstring._native.record.record_sizes cimport record_beyond
from bowstring._native.record.schema_ids cimport missing_ids
from bowstring._native.server.control_request cimport SlowBatch
from bowstring._native.base.error_codes cimport CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE

from bowstring._native.record.compression import (
    DECOMPRESSED_MAX_BYTES, CompressionError, DecompressedTooLarge, compress, decompress_in_place, decompressing_bytes,
    stated_size)
from bowstring._native.record.types import CorruptBatch

SCHEMAS_MISSING = -1
MISSING_MAX = 200                   # schemas of keys, and of values, that are listed at a time

cdef enum:
    # The first estimate of the decompression ratio, if the batch does not state its size. Most batches stay below it.
    USUAL_RATIO = 16
    USUAL_MIN_BYTES = 1 << 20


cdef bytes payload_of(const uint8_t *data, const BatchInfo *info):
    return PyBytes_FromStringAndSize(<const char *>data + BATCH_HEADER_BYTES, info.size_bytes - BATCH_HEADER_BYTES)


cdef int16_t check_records(records, BatchInfo *info, const BatchRules *rules, int64_t now_ms, const char **reason,
                           RecordErrors **errors) except? -1:
    """Runs batch_check_records() on bytes-like `records`."""
    cdef Py_buffer view
    cdef int16_t error
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    with nogil:
        error = batch_check_records(<const uint8_t *>view.buf, <const uint8_t *>view.buf + view.len, rules, now_ms, info,
                                    reason, errors)
    PyBuffer_Release(&view)
    return error


cdef int64_t larger_record(records, int32_t limit) except -1:
    """Runs record_beyond() on bytes-like `records`."""
    cdef Py_buffer view
    cdef int64_t found
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    with nogil:
        found = record_beyond(<const uint8_t *>view.buf, <const uint8_t *>view.buf + view.len, limit)
    PyBuffer_Release(&view)
    return found


cdef void seal(uint8_t *data, BatchInfo *info, const char *records, int64_t n, int codec) noexcept nogil:
    """Writes the header of `info` for records in another codec."""
    info.size_bytes = <int32_t>(BATCH_HEADER_BYTES + n)
    info.attributes = <int16_t>(info.attributes & ~ATTR_COMPRESSION_MASK | codec)
    memcpy(data + BATCH_HEADER_BYTES, records, n)
    batch_seal(data, info)

# ---------------------------------------------------------------- produced batches


def working_bytes(SlowBatch slow not None, tries: int = 0) -> tuple[int, int]:
    """Returns how many bytes `repack` may decompress a batch to at its first try, second try and so on, and the memory it needs.

    Returns:
        (limit, memory), in bytes. The last limit is DECOMPRESSED_MAX_BYTES.
    """
    cdef int64_t n = slow.size_bytes
    if slow.codec == 0:
        return 0, 2 * n                                  # the compressed records, and their batch
    limit = max(USUAL_RATIO * n, USUAL_MIN_BYTES) << 3 * tries
    if tries == 0 and slow.message != NULL:
        stated = stated_size(slow.codec, payload_of(slow.message.body, &slow.info))
        if stated is not None:
            limit = stated
    limit = min(limit, DECOMPRESSED_MAX_BYTES)
    return limit, n + max(decompressing_bytes(limit), 0 if slow.wanted_codec in (-1, slow.codec) else 2 * limit)


def repack(SlowBatch slow not None, *, int64_t now_ms, level=None, int64_t limit=DECOMPRESSED_MAX_BYTES):
    """Checks the records of a produced batch and recompresses it to its topic's codec. Any thread may call it, but only one
    at a time for a batch.

    `slow` keeps the outcome for DataPlane.finish_batch. Memory is freed early: the produced batch once it is decompressed,
    the records once they are compressed.

    Returns:
        (Kafka error code or 0, reason or None). As in Kafka, a batch that has become larger than max.message.bytes
        gets MESSAGE_TOO_LARGE; so does one with more than DECOMPRESSED_MAX_BYTES of records. One with a record that
        exceeds max.decompressed.message.bytes gets INVALID_RECORD. None: the records exceed `limit` bytes, and `slow`
        is unchanged. SCHEMAS_MISSING in place of an error code: the records have schemas of which it is not known
        whether they are the topic's; they are in `slow.missing_schemas`, and `slow` is unchanged. Call it again
        after `take_schemas`.
    """
    if slow.message == NULL:
        raise ValueError("the memory of this batch was already freed")
    slow.busy = True
    try:
        return repacked(slow, now_ms, level, limit)
    except DecompressedTooLarge as too_large:
        return (MESSAGE_TOO_LARGE, str(too_large)) if limit >= DECOMPRESSED_MAX_BYTES else None
    except CompressionError as corrupt:
        return INVALID_RECORD, str(corrupt)
    finally:
        slow.busy = False


cdef tuple repacked(SlowBatch slow, int64_t now_ms, level, int64_t limit):
    cdef uint8_t *body = slow.message.body
    cdef const char *reason = NULL
    cdef int16_t error
    if slow.codec == 0:
        # The CRC was checked before. The codecs do not keep the view.
        records = PyMemoryView_FromMemory(<char *>body + BATCH_HEADER_BYTES, slow.size_bytes - BATCH_HEADER_BYTES, PyBUF_READ)
        if slow.info.schemas_missing:
            error = check_records(records, &slow.info, &slow.rules, now_ms, &reason, &slow.record_errors)
            if error != 0:
                return error, batch_reason(reason, slow.record_errors)
            if slow.info.schemas_missing:
                return note_missing(slow, records)
            if slow.wanted_codec in (-1, slow.codec):
                return 0, None
    else:
        records = decompress_in_place(slow.codec, payload_of(body, &slow.info), limit)
        larger = larger_record(records, slow.record_max_bytes)
        if larger:
            return INVALID_RECORD, (
                f"A record has {larger} bytes when decompressed, more than max.decompressed.message.bytes="
                f"{slow.record_max_bytes}.")
        error = check_records(records, &slow.info, &slow.rules, now_ms, &reason, &slow.record_errors)
        if error != 0:
            return error, batch_reason(reason, slow.record_errors)
        if slow.info.schemas_missing:
            return note_missing(slow, records)
        if slow.wanted_codec in (-1, slow.codec):
            with nogil:
                batch_correct(body, slow.info.size_bytes, &slow.info)
            return 0, None
        slow.release()
        slow.count_working(min(slow.working_bytes, 3 * len(records)))
    if slow.wanted_codec != 0:
        records = compress(slow.wanted_codec, records, level)
    return store(slow, records)


cdef tuple note_missing(SlowBatch slow, records):
    """Lists the schemas of the records that are not known, at most MISSING_MAX."""
    slow.missing_schemas = missing_ids(
        records, slow.info.record_count, slow.rules.schemas.wanted, slow.rules.schemas.keys, slow.rules.schemas.values,
        MISSING_MAX)
    return SCHEMAS_MISSING, None


cdef tuple store(SlowBatch slow, records):
    """Creates the batch with its records in the topic's codec, if it fits max.message.bytes."""
    cdef Py_buffer view
    cdef uint8_t *result
    cdef int64_t n = BATCH_HEADER_BYTES + <int64_t>len(records)
    if n > slow.rules.max_message_bytes:
        return MESSAGE_TOO_LARGE, (
            f"The batch has {n} bytes after recompression to the topic's compression.type, more than "
            f"max.message.bytes={slow.rules.max_message_bytes}.")
    result = <uint8_t *>malloc(n)
    if result == NULL:
        raise MemoryError
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    with nogil:
        seal(result, &slow.info, <const char *>view.buf, view.len, slow.wanted_codec)
    PyBuffer_Release(&view)
    slow.result = result
    slow.release()
    return 0, None

# ---------------------------------------------------------------- batches as bytes


def validate_compressed(data, *, int64_t now_ms, bint key_required=False, bint log_append_time=False,
                        int64_t timestamp_before_max_ms=INT64_MAX, int64_t timestamp_after_max_ms=3600000,
                        int64_t limit=DECOMPRESSED_MAX_BYTES):
    """Makes the checks that batch.validate() skips for compressed data: decompresses one batch and checks its records.

    Returns (Kafka error code or 0, reason or None, indices of the bad records). More than `limit` bytes of
    records are MESSAGE_TOO_LARGE, after which producers split the batch.
    """
    cdef BatchRules rules
    cdef BatchInfo info
    cdef Py_buffer view
    cdef const char *reason = NULL
    cdef RecordErrors *errors = NULL
    cdef int16_t error
    rules.max_message_bytes = INT32_MAX
    rules.key_required = key_required
    rules.log_append_time = log_append_time
    rules.timestamp_before_max_ms = timestamp_before_max_ms
    rules.timestamp_after_max_ms = timestamp_after_max_ms
    rules.schemas.wanted = 0
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if batch_parse(<const uint8_t *>view.buf, view.len, &info) != 0:
            return CORRUPT_MESSAGE, "The batch's header is invalid.", []
        records = decompress_in_place(info.attributes & ATTR_COMPRESSION_MASK, payload_of(<const uint8_t *>view.buf, &info), limit)
    except DecompressedTooLarge as too_large:
        return MESSAGE_TOO_LARGE, str(too_large), []
    except CompressionError as corrupt:
        return INVALID_RECORD, str(corrupt), []
    finally:
        PyBuffer_Release(&view)
    error = check_records(records, &info, &rules, now_ms, &reason, &errors)
    return error, batch_reason(reason, errors), refused_records(errors)


def recompress(data, int codec, *, level=None, int64_t limit=DECOMPRESSED_MAX_BYTES):
    """Returns the batch `data` with its records compressed by `codec` (Kafka's number; 0 is uncompressed).

    All header fields but length, attributes and CRC stay; the max timestamp becomes that of the records.
    A batch that already has the codec is returned unchanged. CorruptBatch when it fails its CRC or its records
    are malformed, compression.CompressionError when they cannot be decompressed within `limit` bytes.
    """
    cdef BatchInfo info
    cdef BatchRules rules
    cdef Py_buffer view
    cdef const char *reason = NULL
    cdef RecordErrors *errors = NULL
    cdef bytes packed, batch
    rules.max_message_bytes = INT32_MAX
    rules.key_required = False
    rules.log_append_time = True
    rules.timestamp_before_max_ms = rules.timestamp_after_max_ms = INT64_MAX
    rules.schemas.wanted = 0
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if batch_parse(<const uint8_t *>view.buf, view.len, &info) != 0 or not batch_crc_ok(<const uint8_t *>view.buf, view.len):
            raise CorruptBatch("the batch to recompress has an invalid header or fails its CRC-32C")
        if info.attributes & ATTR_COMPRESSION_MASK == codec:
            return bytes(data)
        records = payload_of(<const uint8_t *>view.buf, &info)
    finally:
        PyBuffer_Release(&view)
    try:
        records = decompress_in_place(info.attributes & ATTR_COMPRESSION_MASK, records, limit)
    except DecompressedTooLarge:
        raise DecompressedTooLarge("compressed", limit) from None
    except CompressionError as corrupt:
        raise CorruptBatch(f"the batch to recompress cannot be read: {corrupt}") from None
    if check_records(records, &info, &rules, 0, &reason, &errors) != 0:
        told = batch_reason(reason, errors)
        refused_records(errors)
        raise CorruptBatch(f"the batch to recompress cannot be read: {told}")
    packed = compress(codec, records, level)
    if PyBytes_GET_SIZE(packed) > INT32_MAX - BATCH_HEADER_BYTES:
        raise ValueError("the records exceed the 2 GiB that a batch can hold")
    batch = PyBytes_FromStringAndSize(NULL, BATCH_HEADER_BYTES + PyBytes_GET_SIZE(packed))
    seal(<uint8_t *>PyBytes_AS_STRING(batch), &info, PyBytes_AS_STRING(packed), PyBytes_GET_SIZE(packed), codec)
    return batch
