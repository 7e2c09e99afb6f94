"""Searches by timestamp, see log_search.pxd."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from bowstring._native.batch cimport (
    ATTR_COMPRESSION_MASK, ATTR_LOG_APPEND_TIME, BATCH_HEADER_BYTES, BatchInfo, batch_parse)
from bowstring._native.log_read cimport FoundBatch, batch_by_timestamp, batch_of_max_timestamp
from bowstring._native.log_values cimport check
from bowstring._native.log_values import LogError
from bowstring._native.records cimport Record, record_read

cdef enum:
    CORRUPT_MESSAGE = 2

cdef bint find_record(const uint8_t *at, const uint8_t *end, const BatchInfo *info, int64_t timestamp,
                      int64_t first_offset, int64_t *found_timestamp, int64_t *found_offset) noexcept nogil:
    """First record at or above first_offset whose timestamp is `timestamp` or later."""
    cdef Record record
    cdef int32_t i
    for i in range(info.record_count):
        if not record_read(&at, end, &record):
            return False
        found_offset[0] = info.base_offset + record.offset_delta
        found_timestamp[0] = (info.max_timestamp if info.attributes & ATTR_LOG_APPEND_TIME
                              else info.base_timestamp + record.timestamp_delta)
        if found_offset[0] >= first_offset and found_timestamp[0] >= timestamp:
            return True
    return False


cdef object search_batch(FoundBatch *batch, BatchInfo *info, int64_t timestamp):
    """(timestamp, offset, leader epoch) of the record in this batch, or None."""
    cdef int64_t found_timestamp = 0, found_offset = 0
    cdef bytes records
    cdef const uint8_t *at = batch.data + BATCH_HEADER_BYTES
    cdef const uint8_t *end = batch.data + batch.size_bytes
    cdef bint found
    if batch_parse(batch.data, batch.size_bytes, info) != 0:
        raise LogError(CORRUPT_MESSAGE, "a batch found by timestamp has a bad header")
    if info.attributes & ATTR_COMPRESSION_MASK:
        from bowstring._native.compression import CompressionError, decompress   # loaded only where it is needed

        try:
            records = decompress(info.attributes & ATTR_COMPRESSION_MASK,
                                 PyBytes_FromStringAndSize(<char *>at, end - at))
        except CompressionError as error:
            raise LogError(CORRUPT_MESSAGE, f"the batch at offset {info.base_offset}: {error}") from error
        at = <const uint8_t *>PyBytes_AS_STRING(records)
        end = at + len(records)
    with nogil:
        found = find_record(at, end, info, timestamp, batch.first_offset, &found_timestamp, &found_offset)
    return (found_timestamp, found_offset, info.leader_epoch) if found else None


cdef object search_timestamp(Log *log, int64_t timestamp):
    """Goes on to the next batch when only records below the log start are late enough."""
    cdef FoundBatch batch
    cdef BatchInfo info
    cdef int64_t from_offset = 0
    cdef int error
    while True:
        with nogil:
            error = batch_by_timestamp(log, timestamp, from_offset, &batch)
        try:
            check(log, error)
            if batch.data == NULL:
                return None
            found = search_batch(&batch, &info, timestamp)
        finally:
            free(batch.data)
        if found is not None:
            return found
        from_offset = info.base_offset + info.last_offset_delta + 1


cdef object search_max_timestamp(Log *log):
    cdef FoundBatch batch
    cdef BatchInfo info
    cdef int64_t timestamp = -1
    cdef int error
    with nogil:
        error = batch_of_max_timestamp(log, &timestamp, &batch)
    try:
        check(log, error)
        return search_batch(&batch, &info, timestamp) if batch.data != NULL else None
    finally:
        free(batch.data)
