"""Record batches (magic 2) into columns and into Python values.

A buffer holds any number of batches one after the other, as a fetch response or a segment file does; a last
one that is cut short is left out. Control batches are decoded and flagged, never dropped.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from bowstring._native.batch cimport (
    ATTR_COMPRESSION_MASK, ATTR_CONTROL, ATTR_LOG_APPEND_TIME, BATCH_CRC, BATCH_HEADER_BYTES, BatchInfo,
    batch_crc_ok, batch_extent, batch_parse)
from bowstring._native.bigendian cimport load_be32
from bowstring._native.records cimport Record, record_parse, record_read
from bowstring._native.varint cimport get_varint

from bowstring._native import record_types
from bowstring._native.compression import DECOMPRESSED_MAX_BYTES, decompress
from bowstring._native.record_types import BatchHeader, BatchRows, CorruptBatch

cdef object new_record = tuple.__new__
cdef object RecordTuple = record_types.Record

# ---------------------------------------------------------------- columns


cdef bint decode_rows(
        const uint8_t *at, const uint8_t *end, const BatchInfo *info, const uint8_t *origin,
        const RowArrays *arrays, int64_t row) noexcept nogil:
    cdef RowArrays out = arrays[0]
    cdef Record r
    cdef bint log_append_time = info.attributes & ATTR_LOG_APPEND_TIME
    cdef int64_t last = row + info.record_count
    if info.record_count < 0:
        return False
    while row < last:
        if not record_parse(&at, end, &r):
            return False
        if out.offsets != NULL:
            out.offsets[row] = info.base_offset + r.offset_delta
        if out.timestamps != NULL:
            out.timestamps[row] = (info.max_timestamp if log_append_time else
                                   <int64_t>(<uint64_t>info.base_timestamp + <uint64_t>r.timestamp_delta))
        if out.key_positions != NULL:
            out.key_positions[row] = r.key - origin
        if out.key_lengths != NULL:
            out.key_lengths[row] = r.key_length
        if out.value_positions != NULL:
            out.value_positions[row] = r.value - origin
        if out.value_lengths != NULL:
            out.value_lengths[row] = r.value_length
        if out.header_positions != NULL:
            out.header_positions[row] = r.headers - origin
        if out.header_counts != NULL:
            out.header_counts[row] = r.header_count
        row += 1
    return at == end

# ---------------------------------------------------------------- batches in a buffer


cdef object header_of(const uint8_t *at, const BatchInfo *info, int64_t position, crc_ok):
    return BatchHeader(
        position, info.size_bytes, info.base_offset, info.leader_epoch, <uint32_t>load_be32(at + BATCH_CRC),
        crc_ok, info.attributes, info.last_offset_delta, info.base_timestamp,
        info.max_timestamp, info.producer_id, info.producer_epoch, info.base_sequence, info.record_count)


cdef bint next_batch(const uint8_t *data, int64_t size, int64_t position, BatchInfo *info) except -1:
    """Reads the header at `position`; False at the end of what is whole."""
    cdef int64_t extent = batch_extent(data + position, size - position)
    if extent == 0:
        return False
    if extent < 0 or batch_parse(data + position, extent, info) != 0:
        raise CorruptBatch(f"no record batch of magic 2 at byte {position}: its length or magic is wrong")
    return True


def batch_headers(data):
    """The BatchHeader of every whole batch in `data`. CorruptBatch where there is something else."""
    cdef Py_buffer view
    cdef BatchInfo info
    cdef const uint8_t *start
    cdef int64_t position = 0
    headers = []
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        start = <const uint8_t *>view.buf
        while next_batch(start, view.len, position, &info):
            headers.append(header_of(start + position, &info, position,
                                     bool(batch_crc_ok(start + position, info.size_bytes))))
            position += info.size_bytes
    finally:
        PyBuffer_Release(&view)
    return headers


cdef int check_crc(const uint8_t *at, const BatchInfo *info, int64_t position) except -1:
    if not batch_crc_ok(at, info.size_bytes):
        raise CorruptBatch(f"the batch at byte {position} (base offset {info.base_offset}) fails its CRC-32C")
    return 0


cdef object records_of(const uint8_t *at, const BatchInfo *info, int64_t limit):
    """The decompressed records of a compressed batch, None when they are plain in the batch itself."""
    if not info.attributes & ATTR_COMPRESSION_MASK:
        return None
    return decompress(
        info.attributes & ATTR_COMPRESSION_MASK,
        <bytes>PyBytes_FromStringAndSize(<const char *>at + BATCH_HEADER_BYTES, info.size_bytes - BATCH_HEADER_BYTES),
        limit)


cdef object malformed(const BatchInfo *info, int64_t position):
    return CorruptBatch(
        f"the batch at byte {position} (base offset {info.base_offset}) does not hold {info.record_count} whole records")

# ---------------------------------------------------------------- Python values


cdef object optional_bytes(const uint8_t *at, int32_t length):
    return None if length < 0 else PyBytes_FromStringAndSize(<const char *>at, length)


cdef tuple headers_of(const Record *r):
    """The headers of a record that record_read has walked, so lengths hold."""
    cdef const uint8_t *p = r.headers
    cdef int32_t n = 0, i
    headers = []
    for i in range(r.header_count):
        get_varint(&p, r.end, False, &n)
        key = p[:n].decode("utf-8", "surrogateescape")
        p += n
        get_varint(&p, r.end, False, &n)
        headers.append((key, optional_bytes(p, n)))
        p += n if n > 0 else 0
    return tuple(headers)


cdef int append_records(
        list out, const uint8_t *at, const uint8_t *end, const BatchInfo *info, int64_t position) except -1:
    cdef Record r
    cdef int64_t timestamp
    cdef int32_t i
    cdef object control = bool(info.attributes & ATTR_CONTROL)
    cdef object timestamp_type = 1 if info.attributes & ATTR_LOG_APPEND_TIME else 0
    for i in range(info.record_count):
        if not record_read(&at, end, &r):
            raise malformed(info, position)
        timestamp = <int64_t>(<uint64_t>info.base_timestamp + <uint64_t>r.timestamp_delta)
        if info.attributes & ATTR_LOG_APPEND_TIME:
            timestamp = info.max_timestamp
        out.append(new_record(RecordTuple, (
            info.base_offset + r.offset_delta, timestamp, timestamp_type, optional_bytes(r.key, r.key_length),
            optional_bytes(r.value, r.value_length), headers_of(&r) if r.header_count > 0 else (), control)))
    if at != end or info.record_count < 0:
        raise malformed(info, position)
    return 0


def decode_batches(data, *, bint verify_crc=True, int64_t limit=DECOMPRESSED_MAX_BYTES):
    """Every Record of the whole batches in `data`, decompressed, in order.

    CorruptBatch names the batch that is malformed or fails its CRC (unless `verify_crc` is off);
    compression.CompressionError for records that do not decompress or pass `limit` bytes in one batch.
    """
    cdef Py_buffer view, plain
    cdef BatchInfo info
    cdef const uint8_t *at
    cdef int64_t position = 0
    records = []
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        while next_batch(<const uint8_t *>view.buf, view.len, position, &info):
            at = <const uint8_t *>view.buf + position
            if verify_crc:
                check_crc(at, &info, position)
            unpacked = records_of(at, &info, limit)
            if unpacked is None:
                append_records(records, at + BATCH_HEADER_BYTES, at + info.size_bytes, &info, position)
            else:
                PyObject_GetBuffer(unpacked, &plain, PyBUF_SIMPLE)
                try:
                    append_records(records, <const uint8_t *>plain.buf, <const uint8_t *>plain.buf + plain.len, &info,
                                   position)
                finally:
                    PyBuffer_Release(&plain)
            position += info.size_bytes
    finally:
        PyBuffer_Release(&view)
    return records

# ---------------------------------------------------------------- columns for Python


cdef class RecordColumns:
    """The records of a buffer as columns, in order.

    offsets, timestamps (ms), key_positions, key_lengths, value_positions, value_lengths, header_positions,
    header_counts: memoryviews of int64 or, for lengths and counts, int32. A position counts from the start of
    the batch's source: sources[0] is the buffer itself, and each compressed batch has its own further one.
    `batches` tells which rows are whose.
    """
    cdef readonly int64_t rows
    cdef readonly list sources
    cdef readonly list batches
    cdef readonly object offsets, timestamps, key_positions, key_lengths, value_positions, value_lengths
    cdef readonly object header_positions, header_counts
    cdef RowArrays arrays

    cdef int allocate(self, int64_t rows) except -1:
        self.rows = rows
        self.offsets = column(rows, "q", 8, <void **>&self.arrays.offsets)
        self.timestamps = column(rows, "q", 8, <void **>&self.arrays.timestamps)
        self.key_positions = column(rows, "q", 8, <void **>&self.arrays.key_positions)
        self.key_lengths = column(rows, "i", 4, <void **>&self.arrays.key_lengths)
        self.value_positions = column(rows, "q", 8, <void **>&self.arrays.value_positions)
        self.value_lengths = column(rows, "i", 4, <void **>&self.arrays.value_lengths)
        self.header_positions = column(rows, "q", 8, <void **>&self.arrays.header_positions)
        self.header_counts = column(rows, "i", 4, <void **>&self.arrays.header_counts)
        return 0

    def source_of(self, int64_t row):
        """The source that the row's positions count from."""
        for batch in self.batches:
            if batch.first_row <= row < batch.first_row + batch.rows:
                return self.sources[batch.source]
        raise IndexError(f"there are {self.rows} rows, and none is number {row}")


cdef object column(int64_t rows, str form, int width, void **start):
    """Memory for a column, as a memoryview that owns it; `start` is where it lies."""
    cdef Py_buffer view
    memory = memoryview(bytearray(rows * width)).cast(form)
    PyObject_GetBuffer(memory, &view, PyBUF_SIMPLE)
    start[0] = view.buf
    PyBuffer_Release(&view)                              # the memoryview keeps the bytearray where it is
    return memory


cdef int list_batches(RecordColumns columns, const uint8_t *data, int64_t size, bint verify_crc, int64_t limit) except -1:
    """Fills `sources` and `batches`; refuses record counts that the bytes cannot hold."""
    cdef BatchInfo info
    cdef int64_t position = 0, rows = 0, plain_bytes
    while next_batch(data, size, position, &info):
        if verify_crc:
            check_crc(data + position, &info, position)
        unpacked = records_of(data + position, &info, limit)
        plain_bytes = info.size_bytes - BATCH_HEADER_BYTES if unpacked is None else len(unpacked)
        if info.record_count < 0 or info.record_count > plain_bytes // RECORD_MIN_BYTES:
            raise malformed(&info, position)
        columns.batches.append(BatchRows(
            header_of(data + position, &info, position, True if verify_crc else None), 0 if unpacked is None else len(columns.sources), rows,
            info.record_count))
        if unpacked is not None:
            columns.sources.append(unpacked)
        rows += info.record_count
        position += info.size_bytes
    columns.allocate(rows)
    return 0


def decode_columns(data, *, bint verify_crc=True, int64_t limit=DECOMPRESSED_MAX_BYTES):
    """The RecordColumns of the whole batches in `data`; errors as decode_batches() has them."""
    cdef RecordColumns columns = RecordColumns()
    cdef Py_buffer view, plain
    cdef BatchInfo info
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef const uint8_t *origin
    cdef int64_t position, row
    cdef bint whole
    columns.sources = [data]
    columns.batches = []
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        list_batches(columns, <const uint8_t *>view.buf, view.len, verify_crc, limit)
        for batch in columns.batches:
            position = batch.header.position
            row = batch.first_row
            next_batch(<const uint8_t *>view.buf, view.len, position, &info)
            PyObject_GetBuffer(columns.sources[batch.source], &plain, PyBUF_SIMPLE)
            try:
                origin = at = <const uint8_t *>plain.buf
                end = at + plain.len
                if batch.source == 0:
                    at += position + BATCH_HEADER_BYTES
                    end = origin + position + info.size_bytes
                with nogil:
                    whole = decode_rows(at, end, &info, origin, &columns.arrays, row)
            finally:
                PyBuffer_Release(&plain)
            if not whole:
                raise malformed(&info, position)
    finally:
        PyBuffer_Release(&view)
    return columns
