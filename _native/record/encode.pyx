"""Encodes record batches (magic 2) from columns and from Python values.

A record begins with its length, so each is measured first and then written once. Columns are written straight into the
batch that is returned.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset
from bowstring._native.base.bigendian cimport store_be16, store_be32, store_be64
from bowstring._native.base.crc cimport crc32c_update
from bowstring._native.base.varint cimport put_varint, varint_size
from bowstring._native.base.wire cimport Writer, grow, writer_free
from bowstring._native.record.batch cimport (
    ATTR_COMPRESSION_MASK, ATTR_CONTROL, ATTR_TRANSACTIONAL, BATCH_ATTRIBUTES, BATCH_BASE_SEQUENCE, BATCH_CRC,
    BATCH_HEADER_BYTES, BATCH_PRODUCER_EPOCH, BATCH_PRODUCER_ID, RECORD_FRAMING_MAX_BYTES, BatchInfo, batch_seal)

from bowstring._native.record.compression import compress
from bowstring._native.record.types import CorruptBatch

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size)
    void PyErr_Clear()

# ---------------------------------------------------------------- one record


cdef inline int64_t field_size(int64_t length) noexcept nogil:
    return varint_size(length) + (length if length > 0 else 0)


cdef inline int64_t body_size(
        int64_t timestamp_delta, int32_t offset_delta, int64_t key_length, int64_t value_length,
        int64_t headers_bytes) noexcept nogil:
    return (1 + varint_size(timestamp_delta) + varint_size(offset_delta) + field_size(key_length)
            + field_size(value_length) + headers_bytes)


cdef inline uint8_t *put_field(uint8_t *at, const uint8_t *data, int64_t length) noexcept nogil:
    at = put_varint(at, length)
    if length > 0:
        memcpy(at, data, length)
        at += length
    return at


cdef inline uint8_t *put_record(
        uint8_t *at, int64_t body_bytes, int64_t timestamp_delta, int32_t offset_delta, const uint8_t *key,
        int64_t key_length, const uint8_t *value, int64_t value_length, const uint8_t *headers,
        int64_t headers_bytes) noexcept nogil:
    """Writes a record. `headers` NULL: a header count of zero, one byte."""
    at = put_varint(at, body_bytes)
    at[0] = 0                                            # attributes
    at = put_varint(at + 1, timestamp_delta)
    at = put_varint(at, offset_delta)
    at = put_field(at, key, key_length)
    at = put_field(at, value, value_length)
    if headers == NULL:
        at[0] = 0
    else:
        memcpy(at, headers, headers_bytes)
    return at + headers_bytes


cdef inline int64_t delta(int64_t timestamp, int64_t base) noexcept nogil:
    """Returns the difference, wrapped at 64 bits: readers add it with the same wrapping."""
    return <int64_t>(<uint64_t>timestamp - <uint64_t>base)

# ---------------------------------------------------------------- columns


cdef inline int64_t column_bytes(const BinaryColumn *c, int64_t begin, int64_t end) noexcept nogil:
    if c.offsets == NULL:
        return 0
    if c.kind == COLUMN_OFFSETS_64:
        return (<const int64_t *>c.offsets)[end] - (<const int64_t *>c.offsets)[begin]
    return <int64_t>(<const int32_t *>c.offsets)[end] - (<const int32_t *>c.offsets)[begin]


cdef int64_t columns_row_bytes(const RecordColumns *columns, int64_t row) noexcept nogil:
    cdef const uint8_t *at
    cdef int64_t headers_bytes
    row = columns.rows[row] if columns.rows != NULL else row
    headers_bytes = column_get(&columns.headers, row, &at)
    cdef int64_t body = body_size(0, 0, column_get(&columns.key, row, &at), column_get(&columns.value, row, &at),
                                  1 if headers_bytes <= 0 else headers_bytes)
    return BATCH_HEADER_BYTES + varint_size(body) + body


cdef int64_t columns_bound(const RecordColumns *columns, int64_t begin, int64_t end) noexcept nogil:
    return (BATCH_HEADER_BYTES + (end - begin) * RECORD_FRAMING_MAX_BYTES + column_bytes(&columns.key, begin, end)
            + column_bytes(&columns.value, begin, end) + column_bytes(&columns.headers, begin, end))


cdef void columns_encode(
        const RecordColumns *columns, int64_t begin, int64_t end, uint8_t *out, int64_t capacity,
        RecordSpan *span) noexcept nogil:
    cdef const uint8_t *key
    cdef const uint8_t *value
    cdef const uint8_t *headers
    cdef int64_t key_length, value_length, headers_bytes, body, timestamp_delta = 0, row = begin, at = begin
    cdef int64_t base = columns.timestamp
    cdef int64_t oldest, newest
    cdef int64_t used = BATCH_HEADER_BYTES
    cdef int64_t limit = capacity if capacity < INT32_MAX else INT32_MAX
    if columns.timestamps != NULL:
        base = columns.timestamps[columns.rows[begin] if columns.rows != NULL else begin]
    oldest = newest = base
    while row < end:
        at = columns.rows[row] if columns.rows != NULL else row
        if columns.timestamps != NULL:
            timestamp_delta = delta(columns.timestamps[at], base)
            oldest = columns.timestamps[at] if columns.timestamps[at] < oldest else oldest
            newest = columns.timestamps[at] if columns.timestamps[at] > newest else newest
        key_length = column_get(&columns.key, at, &key)
        value_length = column_get(&columns.value, at, &value)
        headers_bytes = column_get(&columns.headers, at, &headers)
        if headers_bytes <= 0:
            headers = NULL
            headers_bytes = 1
        body = body_size(timestamp_delta, <int32_t>(row - begin), key_length, value_length, headers_bytes)
        if body + varint_size(body) > limit - used:
            break
        if out != NULL:
            put_record(out + used, body, timestamp_delta, <int32_t>(row - begin), key, key_length, value, value_length,
                       headers, headers_bytes)
        used += body + varint_size(body)
        span.min_timestamp = oldest                      # only of rows that fit
        span.max_timestamp = newest
        row += 1
    span.begin = begin
    span.rows = <int32_t>(row - begin)
    span.size_bytes = <int32_t>used
    span.base_timestamp = base

# ---------------------------------------------------------------- record by record


cdef void batch_writer_clear(BatchWriter *w) noexcept nogil:
    w.out.size = 0
    w.out.failed = False
    w.count = 0
    w.base_timestamp = w.min_timestamp = w.max_timestamp = -1


cdef void batch_writer_free(BatchWriter *w) noexcept nogil:
    writer_free(&w.out)
    batch_writer_clear(w)


cdef AppendResult batch_writer_append(
        BatchWriter *w, const uint8_t *key, int64_t key_length, const uint8_t *value, int64_t value_length,
        int64_t timestamp, const uint8_t *headers, int64_t headers_bytes, int64_t max_bytes) noexcept nogil:
    cdef int64_t base = w.base_timestamp if w.count > 0 else timestamp
    cdef int64_t before = w.out.size if w.count > 0 else BATCH_HEADER_BYTES
    cdef int64_t body, total
    cdef uint8_t *at
    if headers == NULL:
        headers_bytes = 1
    body = body_size(delta(timestamp, base), w.count, key_length, value_length, headers_bytes)
    total = before + body + varint_size(body)
    if total > max_bytes and w.count > 0:
        return APPEND_FULL
    if total > INT32_MAX:
        return APPEND_TOO_LARGE if w.count == 0 else APPEND_FULL
    at = grow(&w.out, total - w.out.size)
    if at == NULL:
        w.out.failed = False
        return APPEND_NO_MEMORY
    put_record(w.out.data + before, body, delta(timestamp, base), w.count, key, key_length, value, value_length,
               headers, headers_bytes)
    if w.count == 0:
        w.base_timestamp = w.min_timestamp = w.max_timestamp = timestamp
    elif timestamp > w.max_timestamp:
        w.max_timestamp = timestamp
    elif timestamp < w.min_timestamp:
        w.min_timestamp = timestamp
    w.count += 1
    return APPENDED

# ---------------------------------------------------------------- for Python


cdef struct Lent:
    # The bytes of a Python object; `view` must be released if `held`.
    const uint8_t *at
    int64_t length
    bint held
    Py_buffer view


cdef inline int lend(object data, Lent *out) except -1:
    out.held = False
    if PyBytes_CheckExact(data):
        out.at = <const uint8_t *>PyBytes_AS_STRING(data)
        out.length = PyBytes_GET_SIZE(data)
    elif data is None:
        out.at = NULL
        out.length = -1
    elif isinstance(data, str):
        raise TypeError("keys and values must be bytes: encode text first, for example with .encode()")
    else:
        PyObject_GetBuffer(data, &out.view, PyBUF_SIMPLE)
        out.held = True
        out.at = <const uint8_t *>out.view.buf
        out.length = out.view.len
    return 0


cdef inline void give_back(Lent *lent):
    if lent.held:
        PyBuffer_Release(&lent.view)


cdef int put_lent(Writer *w, object data, bint nullable) except -1:
    """Writes the length and bytes of a header's key (text or bytes) or value."""
    cdef Lent lent
    cdef uint8_t *at
    cdef Py_ssize_t size
    if not nullable and isinstance(data, str):
        lent.held = False
        lent.at = <const uint8_t *>PyUnicode_AsUTF8AndSize(data, &size)
        lent.length = size
        if lent.at == NULL:                              # lone surrogates: see decode.pyx
            PyErr_Clear()
            data = (<str>data).encode("utf-8", "surrogateescape")
            lend(data, &lent)
    else:
        lend(data, &lent)
    try:
        if lent.length < 0 and not nullable:
            raise TypeError("a header's key must not be None")
        at = grow(w, field_size(lent.length))
        if at == NULL:
            raise MemoryError("no memory for the record's headers")
        put_field(at, lent.at, lent.length)
    finally:
        give_back(&lent)
    return 0


cdef int put_headers(Writer *w, object headers) except -1:
    cdef uint8_t *at
    if isinstance(headers, dict):
        headers = headers.items()
    w.size = 0
    w.failed = False
    at = grow(w, varint_size(len(headers)))
    if at == NULL:
        raise MemoryError("no memory for the record's headers")
    put_varint(at, len(headers))
    for key, value in headers:
        put_lent(w, key, False)
        put_lent(w, value, True)
    return 0


def encode_headers(headers):
    """Returns header pairs encoded as in a record, with their count first, for encode_columns().

    Keys are bytes, or text that is encoded as UTF-8. Surrogates that decoding created for other bytes become those bytes
    again.

    Raises:
        UnicodeEncodeError: a key has another lone surrogate.
    """
    cdef Writer w
    memset(&w, 0, sizeof(Writer))
    try:
        put_headers(&w, headers)
        return PyBytes_FromStringAndSize(<char *>w.data, w.size)
    finally:
        writer_free(&w)


cdef void batch_fields(
        BatchInfo *info, int32_t rows, int64_t base_timestamp, int64_t max_timestamp, dict fields) except *:
    """Fills all but size_bytes from the keyword arguments of BatchBuilder.build()."""
    info.base_offset = fields.pop("base_offset", 0)
    info.leader_epoch = fields.pop("leader_epoch", -1)
    info.attributes = 0
    if fields.pop("transactional", False):
        info.attributes |= ATTR_TRANSACTIONAL
    if fields.pop("control", False):
        info.attributes |= ATTR_CONTROL
    info.last_offset_delta = rows - 1
    info.base_timestamp = base_timestamp
    info.max_timestamp = max_timestamp
    info.producer_id = fields.pop("producer_id", -1)
    info.producer_epoch = fields.pop("producer_epoch", -1)
    info.base_sequence = fields.pop("base_sequence", -1)
    info.record_count = rows
    if fields:
        raise TypeError(f"a record batch has no field {', '.join(map(repr, fields))}")


cdef bytes seal_compressed(BatchInfo *info, const uint8_t *records, int64_t size, int codec, level):
    """Compresses the records and returns the batch."""
    cdef bytes packed = compress(codec, <bytes>PyBytes_FromStringAndSize(<const char *>records, size), level)
    cdef bytes batch
    if PyBytes_GET_SIZE(packed) > INT32_MAX - BATCH_HEADER_BYTES:
        raise ValueError("the compressed records exceed the 2 GiB that a batch can hold; split them")
    info.attributes |= codec & ATTR_COMPRESSION_MASK
    info.size_bytes = <int32_t>(BATCH_HEADER_BYTES + PyBytes_GET_SIZE(packed))
    batch = PyBytes_FromStringAndSize(NULL, info.size_bytes)
    memcpy(PyBytes_AS_STRING(batch) + BATCH_HEADER_BYTES, PyBytes_AS_STRING(packed), PyBytes_GET_SIZE(packed))
    batch_seal(<uint8_t *>PyBytes_AS_STRING(batch), info)
    return batch


cdef class BatchBuilder:
    """Builds one record batch. Not thread-safe.

    `max_bytes` limits the uncompressed batch with its header. A larger first record is still accepted: the broker decides
    whether it is too large.

    >>> builder = BatchBuilder()
    >>> builder.append(b"key", b"value", 1700000000000)
    True
    >>> len(builder.build())
    77
    """

    def __cinit__(self, int64_t max_bytes=INT32_MAX):
        memset(&self.writer, 0, sizeof(BatchWriter))
        memset(&self.headers, 0, sizeof(Writer))
        batch_writer_clear(&self.writer)
        self.max_bytes = max_bytes

    def __dealloc__(self):
        batch_writer_free(&self.writer)
        writer_free(&self.headers)

    @property
    def count(self):
        """Number of records so far."""
        return self.writer.count

    @property
    def size_bytes(self):
        """Size of the batch so far in bytes: uncompressed, including the header."""
        return self.writer.out.size if self.writer.count > 0 else BATCH_HEADER_BYTES

    def append(self, key, value, int64_t timestamp, headers=None):
        """Adds a record and returns True; False if the batch has no room for it.

        `key` and `value` are bytes-like or None, `timestamp` is in ms since the epoch, `headers` is a dict or
        a sequence of (key, value) pairs. ValueError when no batch could hold the record (2 GiB).
        """
        cdef Lent k, v
        cdef AppendResult result
        cdef const uint8_t *packed = NULL
        if headers:
            put_headers(&self.headers, headers)
            packed = self.headers.data
        lend(key, &k)
        try:
            lend(value, &v)
        except BaseException:
            give_back(&k)
            raise
        result = batch_writer_append(&self.writer, k.at, k.length, v.at, v.length, timestamp,
                                     packed, self.headers.size, self.max_bytes)
        give_back(&k)
        give_back(&v)
        if result == APPENDED:
            return True
        if result == APPEND_FULL:
            return False
        if result == APPEND_NO_MEMORY:
            raise MemoryError("no memory for the record")
        raise ValueError("the record is larger than the 2 GiB that a batch can hold")

    def build(self, int codec=0, *, level=None, **fields):
        """Returns the batch as bytes; the builder keeps its records until clear().

        `codec` is Kafka's number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; `level` is the codec's own. The
        other fields: producer_id, producer_epoch, base_sequence, base_offset, leader_epoch, transactional,
        control. ValueError when there are no records.
        """
        cdef BatchInfo info
        cdef BatchWriter *w = &self.writer
        if w.count == 0:
            raise ValueError("a record batch needs at least one record: append() first")
        batch_fields(&info, w.count, w.base_timestamp, w.max_timestamp, fields)
        if codec != 0:
            return seal_compressed(&info, w.out.data + BATCH_HEADER_BYTES, w.out.size - BATCH_HEADER_BYTES, codec, level)
        info.size_bytes = <int32_t>w.out.size
        batch_seal(w.out.data, &info)
        return PyBytes_FromStringAndSize(<char *>w.out.data, w.out.size)

    def clear(self):
        """Drops the records and keeps the memory."""
        batch_writer_clear(&self.writer)


def encode_batch(records, int codec=0, *, level=None, **fields):
    """Returns one batch of (key, value, timestamp, headers) tuples; codec and fields are those of BatchBuilder.build()."""
    builder = BatchBuilder()
    for key, value, timestamp, headers in records:
        if not builder.append(key, value, timestamp, headers):
            raise ValueError("the records exceed the 2 GiB that a batch can hold; split them")
    return builder.build(codec, level=level, **fields)


def with_producer(
        bytes batch not None, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence,
        bint transactional=False):
    """Returns a copy of one batch with this producer's identity (KIP-98) and a new CRC-32C. CorruptBatch if it is too
    short."""
    cdef int64_t size = PyBytes_GET_SIZE(batch)
    if size < BATCH_HEADER_BYTES:
        raise CorruptBatch(f"{size} bytes are not a record batch")
    cdef bytes made = PyBytes_FromStringAndSize(PyBytes_AS_STRING(batch), size)
    cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(made)
    store_be64(at + BATCH_PRODUCER_ID, producer_id)
    store_be16(at + BATCH_PRODUCER_EPOCH, producer_epoch)
    store_be32(at + BATCH_BASE_SEQUENCE, base_sequence)
    if transactional:
        at[BATCH_ATTRIBUTES + 1] |= ATTR_TRANSACTIONAL
    with nogil:
        store_be32(at + BATCH_CRC, <int32_t>crc32c_update(0, at + BATCH_ATTRIBUTES, size - BATCH_ATTRIBUTES))
    return made
