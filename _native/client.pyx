"""What the clients do for each record or byte: fetched batches scanned and decoded, keys hashed, batches numbered.

Batches lie one after the other in a buffer, as a fetch response has them; a last one that is cut short is
left out, because brokers stop at a byte limit.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset
from bowstring._native.aborted cimport Aborted
from bowstring._native.batch cimport (
    ATTR_COMPRESSION_MASK, ATTR_CONTROL, ATTR_LOG_APPEND_TIME, BATCH_ATTRIBUTES, BATCH_BASE_SEQUENCE, BATCH_CRC,
    BATCH_HEADER_BYTES, BATCH_PRODUCER_EPOCH, BATCH_PRODUCER_ID, BatchInfo, batch_crc_ok, batch_extent, batch_parse)
from bowstring._native.bigendian cimport store_be16, store_be32, store_be64
from bowstring._native.crc cimport crc32c_update
from bowstring._native.key_hashes cimport murmur2_hash
from bowstring._native.records cimport Record, record_parse, record_read
from bowstring._native.varint cimport get_varint

from bowstring._native.compression import DECOMPRESSED_MAX_BYTES, CompressionError, decompress
from bowstring._native.record_types import CorruptBatch

cdef extern from *:
    """
    #define new_tuple_of(cls, n) ((PyTypeObject *)(cls))->tp_alloc((PyTypeObject *)(cls), (n))
    """
    object new_tuple_of(type cls, Py_ssize_t n)
    void PyObject_GC_UnTrack(PyObject *made)

cdef enum:
    FIELDS = 8                    # of the record class that decode_records() fills


def empty_buffer(Py_ssize_t size):
    """A bytearray of `size` bytes whose contents are undefined: for receiving into, without clearing it first."""
    return PyByteArray_FromStringAndSize(NULL, size)

# ---------------------------------------------------------------- walking batches


cdef bint next_batch(const uint8_t *data, int64_t size, int64_t position, BatchInfo *info) except -1:
    """Reads the header at `position`; False at the end of what is whole."""
    cdef int64_t extent = batch_extent(data + position, size - position)
    if extent == 0:
        return False
    if extent < 0 or batch_parse(data + position, extent, info) != 0:
        raise CorruptBatch(f"no record batch of magic 2 at byte {position}: its length or magic is wrong")
    return True


def scan(data, *, bint verify_crc=True):
    """Size in bytes of the whole batches in `data`, the offset that follows them (-1 without any), and the
    records they hold as their headers say. CorruptBatch for what is no batch or fails its CRC-32C, if that comes
    first; else it ends the scan like a batch that is cut short."""
    cdef Py_buffer view
    cdef BatchInfo info
    cdef const uint8_t *start
    cdef int64_t position = 0, next_offset = -1, records = 0, extent
    cdef bint intact = True
    info.base_offset = -1
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    start = <const uint8_t *>view.buf
    with nogil:
        while True:
            extent = batch_extent(start + position, view.len - position)
            if extent <= 0 or batch_parse(start + position, extent, &info) != 0:
                break
            intact = not verify_crc or batch_crc_ok(start + position, extent)
            if not intact:
                break
            next_offset = info.base_offset + info.last_offset_delta + 1
            records += info.record_count
            position += extent
    PyBuffer_Release(&view)
    if position == 0 and not intact:
        raise CorruptBatch(f"the batch of base offset {info.base_offset} fails its CRC-32C")
    if position == 0 and extent != 0:
        raise CorruptBatch("no record batch of magic 2 at byte 0: its length or magic is wrong")
    return position, next_offset, records


cdef bytes plain_records(const uint8_t *at, const BatchInfo *info, int64_t limit):
    """The records of a compressed batch, decompressed."""
    return decompress(
        info.attributes & ATTR_COMPRESSION_MASK,
        <bytes>PyBytes_FromStringAndSize(<const char *>at + BATCH_HEADER_BYTES, info.size_bytes - BATCH_HEADER_BYTES),
        limit)


cdef object malformed(const BatchInfo *info):
    return CorruptBatch(f"the batch of base offset {info.base_offset} does not hold {info.record_count} whole records")

# ---------------------------------------------------------------- records for Python


cdef object optional_bytes(const uint8_t *at, int32_t length):
    return None if length < 0 else PyBytes_FromStringAndSize(<const char *>at, length)


cdef tuple headers_of(const Record *r):
    """The headers of a record that record_read has walked, so lengths hold."""
    cdef const uint8_t *p = r.headers
    cdef int32_t n = 0, i
    headers = []
    for i in range(r.header_count):
        get_varint(&p, r.end, False, &n)
        key = p[:n].decode("utf-8", "replace")
        p += n
        get_varint(&p, r.end, False, &n)
        headers.append((key, optional_bytes(p, n)))
        p += n if n > 0 else 0
    return tuple(headers)


cdef inline void put(object made, Py_ssize_t index, object value):
    Py_INCREF(value)
    PyTuple_SET_ITEM(made, index, value)


cdef class Reading:
    """What stays the same for the records of one partition."""
    cdef type cls
    cdef object topic, partition
    cdef int64_t from_offset
    cdef list out
    cdef bint untracked           # records without a dict hold no more than text, numbers and bytes: no cycles, and
                                  # the garbage collector, which took half of the time, need not look at them

    cdef int take(self, const uint8_t *at, const uint8_t *end, const BatchInfo *info) except -1:
        cdef Record r
        cdef int64_t timestamp, offset
        cdef int32_t i
        cdef bint stamped = info.attributes & ATTR_LOG_APPEND_TIME
        cdef object timestamp_type = 1 if stamped else 0
        for i in range(info.record_count):
            if not record_read(&at, end, &r):
                raise malformed(info)
            offset = info.base_offset + r.offset_delta
            if offset < self.from_offset:
                continue
            timestamp = <int64_t>(<uint64_t>info.base_timestamp + <uint64_t>r.timestamp_delta)
            if stamped:
                timestamp = info.max_timestamp
            made = new_tuple_of(self.cls, FIELDS)
            put(made, 0, self.topic)
            put(made, 1, self.partition)
            put(made, 2, offset)
            put(made, 3, timestamp)
            put(made, 4, timestamp_type)
            put(made, 5, optional_bytes(r.key, r.key_length))
            put(made, 6, optional_bytes(r.value, r.value_length))
            put(made, 7, headers_of(&r) if r.header_count > 0 else ())
            if self.untracked:
                PyObject_GC_UnTrack(<PyObject *>made)
            self.out.append(made)
        if at != end or info.record_count < 0:
            raise malformed(info)
        return 0


def decode_records(type cls not None, str topic not None, int partition, data, int64_t from_offset=0, *,
                   aborted=(), int64_t limit=DECOMPRESSED_MAX_BYTES):
    """The records in `data` at or after `from_offset`, as a list of `cls`.

    `cls` is a tuple class of eight fields: topic, partition, offset, timestamp (ms), timestamp type (0
    CreateTime, 1 LogAppendTime), key, value, headers. Control batches are left out, and those of the
    `aborted` transactions, which are (producer id, first offset), or an Aborted that has come as far as `data`
    begins. CRCs are not looked at: scan() does.

    CorruptBatch for malformed records; compression.CompressionError for those that do not decompress or pass
    `limit` bytes in one batch.
    """
    cdef Py_buffer view, plain
    cdef BatchInfo info
    cdef const uint8_t *at
    cdef int64_t position = 0
    cdef Reading reading = Reading()
    cdef Aborted gone = aborted if isinstance(aborted, Aborted) else Aborted(aborted) if aborted else None
    if not issubclass(cls, tuple):
        raise TypeError("the record class must be a tuple of eight fields")
    reading.cls, reading.topic, reading.partition, reading.from_offset = cls, topic, partition, from_offset
    reading.out = []
    reading.untracked = cls.__dictoffset__ == 0
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        while next_batch(<const uint8_t *>view.buf, view.len, position, &info):
            at = <const uint8_t *>view.buf + position
            position += info.size_bytes
            if gone is not None and gone.holds(at, &info):
                continue
            if info.attributes & ATTR_CONTROL or info.base_offset + info.last_offset_delta < from_offset:
                continue
            if not info.attributes & ATTR_COMPRESSION_MASK:
                reading.take(at + BATCH_HEADER_BYTES, at + info.size_bytes, &info)
                continue
            PyObject_GetBuffer(plain_records(at, &info, limit), &plain, PyBUF_SIMPLE)
            try:
                reading.take(<const uint8_t *>plain.buf, <const uint8_t *>plain.buf + plain.len, &info)
            finally:
                PyBuffer_Release(&plain)
    finally:
        PyBuffer_Release(&view)
    return reading.out


cdef int64_t payload_of(const uint8_t *at, const uint8_t *end, int32_t count) noexcept nogil:
    """Bytes of all keys and values; -1 when the records are malformed."""
    cdef Record r
    cdef int64_t size = 0
    cdef int32_t i
    for i in range(count):
        if not record_parse(&at, end, &r):
            return -1
        size += (r.key_length if r.key_length > 0 else 0) + (r.value_length if r.value_length > 0 else 0)
    return size if at == end else -1


def payload_bytes(data, *, int64_t limit=DECOMPRESSED_MAX_BYTES):
    """Records and the bytes of their keys and values in `data`, control batches left out; errors as
    decode_records() has them."""
    cdef Py_buffer view, plain
    cdef BatchInfo info
    cdef const uint8_t *at
    cdef int64_t position = 0, records = 0, total = 0, size
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        while next_batch(<const uint8_t *>view.buf, view.len, position, &info):
            at = <const uint8_t *>view.buf + position
            position += info.size_bytes
            if info.attributes & ATTR_CONTROL:
                continue
            if info.attributes & ATTR_COMPRESSION_MASK:
                PyObject_GetBuffer(plain_records(at, &info, limit), &plain, PyBUF_SIMPLE)
                with nogil:
                    size = payload_of(
                        <const uint8_t *>plain.buf, <const uint8_t *>plain.buf + plain.len, info.record_count)
                PyBuffer_Release(&plain)
            else:
                with nogil:
                    size = payload_of(at + BATCH_HEADER_BYTES, at + info.size_bytes, info.record_count)
            if size < 0:
                raise malformed(&info)
            records += info.record_count
            total += size
    finally:
        PyBuffer_Release(&view)
    return records, total

# ---------------------------------------------------------------- producing


def murmur2(bytes data not None):
    """32-bit MurmurHash2 with Kafka's seed, as an unsigned number."""
    return murmur2_hash(<const uint8_t *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


def with_producer(bytes batch not None, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence):
    """A copy of one batch that carries this producer's identity (KIP-98), its CRC-32C renewed."""
    cdef int64_t size = PyBytes_GET_SIZE(batch)
    if size < BATCH_HEADER_BYTES:
        raise CorruptBatch(f"{size} bytes are no record batch")
    cdef bytes made = PyBytes_FromStringAndSize(PyBytes_AS_STRING(batch), size)
    cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(made)
    store_be64(at + BATCH_PRODUCER_ID, producer_id)
    store_be16(at + BATCH_PRODUCER_EPOCH, producer_epoch)
    store_be32(at + BATCH_BASE_SEQUENCE, base_sequence)
    with nogil:
        store_be32(at + BATCH_CRC, <int32_t>crc32c_update(0, at + BATCH_ATTRIBUTES, size - BATCH_ATTRIBUTES))
    return made


def binary_column(list values not None):
    """A list of bytes and Nones as a column in Arrow's large_binary layout: (data, offsets, validity or None)."""
    cdef Py_ssize_t rows = len(values), i
    cdef int64_t size = 0, at = 0
    cdef bint nulls = False
    cdef bytes data, validity
    for value in values:
        if value is None:
            nulls = True
        elif PyBytes_CheckExact(value):
            size += PyBytes_GET_SIZE(value)
        else:
            raise TypeError(f"values are bytes or None, not {type(value).__name__}")
    data = PyBytes_FromStringAndSize(NULL, size)
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, (rows + 1) * 8)
    cdef int64_t *offsets = <int64_t *>PyBytes_AS_STRING(packed)
    validity = PyBytes_FromStringAndSize(NULL, (rows + 7) // 8)
    cdef uint8_t *bits = <uint8_t *>PyBytes_AS_STRING(validity)
    memset(bits, 0, (rows + 7) // 8)
    for i in range(rows):
        offsets[i] = at
        value = values[i]
        if value is not None:
            size = PyBytes_GET_SIZE(value)
            memcpy(PyBytes_AS_STRING(data) + at, PyBytes_AS_STRING(value), size)
            at += size
            bits[i >> 3] |= 1 << (i & 7)
    offsets[rows] = at
    return data, memoryview(packed).cast("q"), validity if nulls else None
