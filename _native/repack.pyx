"""Compressed batches on their way into a topic: checked record by record, and recompressed where a topic's
compression.type is not the producer's. Off the hot path: most batches are stored as they came."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, INT64_MAX, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy
from bowstring._native.batch cimport (
    ATTR_COMPRESSION_MASK, BATCH_HEADER_BYTES, BatchInfo, BatchRules, batch_check_records, batch_crc_ok, batch_parse,
    batch_seal)
from bowstring._native.error_codes cimport CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE

from bowstring._native.compression import (
    DECOMPRESSED_MAX_BYTES, CompressionError, DecompressedTooLarge, compress, decompress)
from bowstring._native.record_types import CorruptBatch


cdef bytes unpack(const uint8_t *data, const BatchInfo *info, limit):
    return decompress(
        info.attributes & ATTR_COMPRESSION_MASK,
        <bytes>PyBytes_FromStringAndSize(<const char *>data + BATCH_HEADER_BYTES, info.size_bytes - BATCH_HEADER_BYTES),
        limit)


cdef tuple check_records(const uint8_t *data, BatchInfo *info, const BatchRules *rules, int64_t now_ms, limit):
    """(error, reason, bad record, decompressed records)."""
    cdef const char *reason = NULL
    cdef int32_t bad_record = -1
    cdef int16_t error
    cdef bytes records
    cdef const uint8_t *at
    cdef int64_t size
    try:
        records = unpack(data, info, limit)
    except DecompressedTooLarge as too_large:
        return MESSAGE_TOO_LARGE, str(too_large), -1, None
    except CompressionError as corrupt:
        return INVALID_RECORD, str(corrupt), -1, None
    at = <const uint8_t *>PyBytes_AS_STRING(records)
    size = PyBytes_GET_SIZE(records)
    with nogil:
        error = batch_check_records(at, at + size, rules, now_ms, info, &reason, &bad_record)
    return error, None if reason == NULL else reason.decode(), bad_record, records


def validate_compressed(data, *, int64_t now_ms, bint key_required=False, bint log_append_time=False,
                        int64_t timestamp_before_max_ms=INT64_MAX, int64_t timestamp_after_max_ms=3600000,
                        int64_t limit=DECOMPRESSED_MAX_BYTES):
    """What batch.validate() leaves out for compressed data: decompresses one batch and walks its records.

    Returns (Kafka error code or 0, reason or None, index of the bad record or -1). More than `limit` bytes of
    records are MESSAGE_TOO_LARGE, on which producers split the batch.
    """
    cdef BatchRules rules
    cdef BatchInfo info
    cdef Py_buffer view
    rules.max_message_bytes = INT32_MAX
    rules.key_required = key_required
    rules.log_append_time = log_append_time
    rules.timestamp_before_max_ms = timestamp_before_max_ms
    rules.timestamp_after_max_ms = timestamp_after_max_ms
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if batch_parse(<const uint8_t *>view.buf, view.len, &info) != 0:
            return CORRUPT_MESSAGE, "The batch's header is wrong.", -1
        return check_records(<const uint8_t *>view.buf, &info, &rules, now_ms, limit)[:3]
    finally:
        PyBuffer_Release(&view)


def recompress(data, int codec, *, level=None, int64_t limit=DECOMPRESSED_MAX_BYTES):
    """The batch `data` with its records compressed by `codec` (Kafka's number; 0 is not at all).

    Every header field but length, attributes and CRC stays; the max timestamp becomes that of the records.
    A batch that has the codec already is returned as it is. CorruptBatch when it fails its CRC or its records
    are malformed, compression.CompressionError when they cannot be decompressed within `limit` bytes.
    """
    cdef BatchInfo info
    cdef BatchRules rules
    cdef Py_buffer view
    cdef bytes packed, batch
    rules.max_message_bytes = INT32_MAX
    rules.key_required = False
    rules.log_append_time = True
    rules.timestamp_before_max_ms = rules.timestamp_after_max_ms = INT64_MAX
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if batch_parse(<const uint8_t *>view.buf, view.len, &info) != 0 or not batch_crc_ok(<const uint8_t *>view.buf, view.len):
            raise CorruptBatch("the batch to recompress has a wrong header or CRC-32C")
        if info.attributes & ATTR_COMPRESSION_MASK == codec:
            return bytes(data)
        error, reason, _, records = check_records(<const uint8_t *>view.buf, &info, &rules, 0, limit)
    finally:
        PyBuffer_Release(&view)
    if error == MESSAGE_TOO_LARGE:
        raise DecompressedTooLarge("compressed", limit)
    if error != 0:
        raise CorruptBatch(f"the batch to recompress cannot be read: {reason}")
    packed = compress(codec, records, level)
    if PyBytes_GET_SIZE(packed) > INT32_MAX - BATCH_HEADER_BYTES:
        raise ValueError("the records pass the 2 GiB a batch can hold")
    info.size_bytes = <int32_t>(BATCH_HEADER_BYTES + PyBytes_GET_SIZE(packed))
    info.attributes = <int16_t>(info.attributes & ~ATTR_COMPRESSION_MASK | codec)
    batch = PyBytes_FromStringAndSize(NULL, info.size_bytes)
    memcpy(PyBytes_AS_STRING(batch) + BATCH_HEADER_BYTES, PyBytes_AS_STRING(packed), PyBytes_GET_SIZE(packed))
    batch_seal(<uint8_t *>PyBytes_AS_STRING(batch), &info)
    return batch
