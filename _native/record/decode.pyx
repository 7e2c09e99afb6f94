"""Decodes record batches (magic 2) into columns and into Python values.

A buffer holds batches one after the other, as a fetch response or a segment file does. A truncated last batch is left
out, because brokers stop at a byte limit.

Header keys: Kafka's protocol says UTF-8, but neither brokers nor all clients check it. A byte that is not
UTF-8 becomes a lone surrogate, U+DC80 to U+DCFF (Python's "surrogateescape", PEP 383), so different keys stay different
and encode_headers() writes the same bytes again. Arrow strings cannot hold surrogates: see arrow/decode.pyx.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from bowstring._native.base.bigendian cimport load_be16, load_be32
from bowstring._native.base.varint cimport get_varint
from bowstring._native.record.batch cimport (
    ATTR_COMPRESSION_MASK, ATTR_CONTROL, ATTR_LOG_APPEND_TIME, ATTR_TRANSACTIONAL, BATCH_CRC, BATCH_HEADER_BYTES,
    BatchInfo, Record, batch_crc_ok, batch_extent, batch_parse, record_parse, record_read)

from bowstring._native.base.object_decoder cimport ObjectDecoder

from bowstring._native.base.object_decoder import Undecodable
from bowstring._native.record import types
from bowstring._native.record.compression import DECOMPRESSED_MAX_BYTES, CompressionError, decompress
from bowstring._native.record.types import BatchHeader, BatchRows, CorruptBatch

cdef extern from *:
    """
    #define new_tuple_of(cls, n) ((PyTypeObject *)(cls))->tp_alloc((PyTypeObject *)(cls), (n))
    """
    object new_tuple_of(type cls, Py_ssize_t n)
    void PyObject_GC_UnTrack(PyObject *made)
    Py_ssize_t PY_SSIZE_T_MAX

cdef enum:
    CONTROL_ABORT = 0             # type of an end-of-transaction marker, the second int16 of its key
    CONTROL_KEY_BYTES = 4

# ---------------------------------------------------------------- aborted transactions


cdef bint is_abort(const uint8_t *at, const uint8_t *end):
    """Whether a control batch ends a transaction by aborting it."""
    cdef Record r
    return record_read(&at, end, &r) and r.key_length >= CONTROL_KEY_BYTES and load_be16(r.key + 2) == CONTROL_ABORT


cdef class Aborted:
    """Decides which batches belong to aborted transactions; batches are passed in offset order (KIP-98).

    Takes (producer id, first offset) of each aborted transaction, as a fetch response lists them.
    """

    def __init__(self, transactions):
        self.coming = sorted(((first, producer) for producer, first in transactions), reverse=True)
        self.open = set()

    cdef bint holds(self, const uint8_t *at, const BatchInfo *info):
        cdef Py_ssize_t last = len(self.coming) - 1
        while last >= 0 and self.coming[last][0] <= info.base_offset + info.last_offset_delta:
            self.open.add(self.coming.pop()[1])
            last -= 1
        if info.attributes & ATTR_CONTROL:
            if info.producer_id in self.open and is_abort(at + BATCH_HEADER_BYTES, at + info.size_bytes):
                self.open.discard(info.producer_id)
            return False
        return info.attributes & ATTR_TRANSACTIONAL and info.producer_id in self.open

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
    """Reads the header at `position`; False if no complete batch follows."""
    cdef int64_t extent = batch_extent(data + position, size - position)
    if extent == 0:
        return False
    if extent < 0 or batch_parse(data + position, extent, info) != 0:
        raise CorruptBatch(f"there is no record batch of magic 2 at byte {position}: the length or magic is wrong")
    return True


def batch_headers(data):
    """Returns the BatchHeader of every complete batch in `data`. CorruptBatch if bytes are not a batch of magic 2."""
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


def scan(data, *, bint verify_crc=True):
    """Counts the complete batches at the start of `data`, from their headers.

    A batch that is malformed, truncated or fails its CRC-32C ends the scan.

    Returns:
        The bytes of the complete batches, the offset after them (-1: there are none), and the number of their records.

    Raises:
        CorruptBatch: the first batch is malformed or fails its CRC-32C.
    """
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
            next_offset = <int64_t>(<uint64_t>info.base_offset + info.last_offset_delta + 1)
            records += info.record_count
            position += extent
    PyBuffer_Release(&view)
    if position == 0 and not intact:
        raise CorruptBatch(f"the batch with base offset {info.base_offset} fails its CRC-32C")
    if position == 0 and extent != 0:
        raise CorruptBatch("there is no record batch of magic 2 at byte 0: the length or magic is wrong")
    return position, next_offset, records


cdef int check_crc(const uint8_t *at, const BatchInfo *info, int64_t position) except -1:
    if not batch_crc_ok(at, info.size_bytes):
        raise CorruptBatch(f"the batch at byte {position} (base offset {info.base_offset}) fails its CRC-32C")
    return 0


cdef object records_of(const uint8_t *at, const BatchInfo *info, int64_t limit):
    """Returns the decompressed records of a batch; None if it is not compressed."""
    if not info.attributes & ATTR_COMPRESSION_MASK:
        return None
    try:
        return decompress(
            info.attributes & ATTR_COMPRESSION_MASK,
            <bytes>PyBytes_FromStringAndSize(<const char *>at + BATCH_HEADER_BYTES, info.size_bytes - BATCH_HEADER_BYTES),
            limit)
    except CompressionError as error:
        error.args = (f"the batch at offset {info.base_offset}: {error}",)
        raise


cdef object malformed(const BatchInfo *info, int64_t position):
    return CorruptBatch(
        f"the batch at byte {position} (base offset {info.base_offset}) does not contain {info.record_count} complete "
        "records")

# ---------------------------------------------------------------- Python values


cdef object optional_bytes(const uint8_t *at, int32_t length):
    return None if length < 0 else PyBytes_FromStringAndSize(<const char *>at, length)


cdef tuple headers_of(const Record *r):
    """Returns the headers of a record whose lengths record_read() has checked. For undecodable keys see the module."""
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


cdef inline void put(object made, Py_ssize_t index, object value):
    Py_INCREF(value)
    PyTuple_SET_ITEM(made, index, value)


cdef class RecordReader:
    """Creates a tuple for each record. The members are the values that all records share.

    Fields: [topic, partition,] offset, timestamp, timestamp type, key, value, headers [, control].
    """
    cdef type cls
    cdef object topic, partition  # the first two fields; topic None: the tuples begin with the offset
    cdef bint control             # control batches are read as well, and a last field marks them
    cdef int64_t from_offset
    cdef list out
    cdef int64_t position         # of the next batch
    cdef int64_t next_offset      # after the batches that were read
    cdef Py_ssize_t fields
    cdef Py_ssize_t most          # records of one read(); a batch that is not compressed can be left in its middle
    cdef bint left                # it was
    cdef ObjectDecoder keys, values   # make objects of these fields; None: they stay bytes
    cdef list bad                 # (index in `out`, "key" or "value", reason) of those that do not decode
    cdef int64_t low, high        # smallest and largest timestamp in `out`
    cdef bint untracked           # Tuples without a __dict__ have only text, numbers and bytes, so they are in no
                                  # cycle. Untracking them saves half of the decoding time, spent in the collector.

    def __cinit__(self, type cls not None, str topic, partition, int64_t from_offset, bint control):
        self.cls, self.topic, self.partition = cls, topic, partition
        self.from_offset, self.control = from_offset, control
        self.position, self.next_offset = 0, from_offset
        self.out, self.bad = [], []
        self.low, self.high = INT64_MAX, INT64_MIN
        self.fields = 6 + (2 if topic is not None else 0) + (1 if control else 0)
        self.untracked = cls.__dictoffset__ == 0
        self.most, self.left = PY_SSIZE_T_MAX, False

    cdef object decoded(self, ObjectDecoder decoder, str field, const Record *r, const uint8_t *at, int32_t length):
        """Returns the object of a key or value; its bytes if it does not decode."""
        if decoder is None:
            return optional_bytes(at, length)
        if length < 0:
            return None
        if r.header_count > 0:
            made = decoder.decode_with_headers(at, length, r.headers, r.end, r.header_count)
        else:
            made = decoder.decode(at, length)
        if type(made) is not Undecodable:
            return made
        self.bad.append((len(self.out), field, made.reason))
        return PyBytes_FromStringAndSize(<const char *>at, length)

    cdef int take(self, const uint8_t *at, const uint8_t *end, const BatchInfo *info, int64_t position,
                  Py_ssize_t most) except -1:
        """Adds the records in [at, end), which belong to the batch at `position`, until there are `most`."""
        cdef Record r
        cdef int64_t timestamp, offset = self.from_offset - 1, low = self.low, high = self.high
        cdef int32_t i
        cdef Py_ssize_t field, bad
        cdef bint stamped = info.attributes & ATTR_LOG_APPEND_TIME
        cdef object timestamp_type = 1 if stamped else 0
        cdef object control = bool(info.attributes & ATTR_CONTROL)
        for i in range(info.record_count):
            if len(self.out) >= most:
                self.left, self.next_offset = True, offset + 1
                break
            if not record_read(&at, end, &r):
                raise malformed(info, position)
            offset = info.base_offset + r.offset_delta
            if offset < self.from_offset:
                continue
            timestamp = <int64_t>(<uint64_t>info.base_timestamp + <uint64_t>r.timestamp_delta)
            if stamped:
                timestamp = info.max_timestamp
            low = timestamp if timestamp < low else low
            high = timestamp if timestamp > high else high
            made = new_tuple_of(self.cls, self.fields)
            field = 0
            if self.topic is not None:
                put(made, 0, self.topic)
                put(made, 1, self.partition)
                field = 2
            put(made, field, offset)
            put(made, field + 1, timestamp)
            put(made, field + 2, timestamp_type)
            if self.keys is None and self.values is None:
                key, value = optional_bytes(r.key, r.key_length), optional_bytes(r.value, r.value_length)
            else:
                bad = len(self.bad)
                key = self.decoded(self.keys, "key", &r, r.key, r.key_length)
                value = self.decoded(self.values, "value", &r, r.value, r.value_length)
                if len(self.bad) > bad:     # both as they are, for a dead-letter topic
                    key, value = optional_bytes(r.key, r.key_length), optional_bytes(r.value, r.value_length)
            put(made, field + 3, key)
            put(made, field + 4, value)
            put(made, field + 5, headers_of(&r) if r.header_count > 0 else ())
            if self.control:
                put(made, field + 6, control)
            if self.untracked:
                PyObject_GC_UnTrack(<PyObject *>made)
            self.out.append(made)
        if not self.left and (at != end or info.record_count < 0):
            raise malformed(info, position)
        self.low, self.high = low, high
        return 0

    cdef bint passes_over(self, const BatchInfo *info):
        """Whether the reader skips a batch: it has control records, or only offsets below the first wanted one."""
        if info.attributes & ATTR_CONTROL and not self.control:
            return True
        return <int64_t>(<uint64_t>info.base_offset + <uint64_t>info.last_offset_delta) < self.from_offset

    cdef bint read_batch(
            self, const uint8_t *data, int64_t size, bint verify_crc, Aborted aborted, int64_t limit) except -1:
        """Adds the records of the batch at `position` and moves behind it; False if no complete batch follows, or
        if the batch was left in its middle."""
        cdef Py_buffer plain
        cdef BatchInfo info
        cdef const uint8_t *at = data + self.position
        if not next_batch(data, size, self.position, &info):
            return False
        if verify_crc:
            check_crc(at, &info, self.position)
        if not (aborted is not None and aborted.holds(at, &info)) and not self.passes_over(&info):
            unpacked = records_of(at, &info, limit)
            if unpacked is None:
                self.take(at + BATCH_HEADER_BYTES, at + info.size_bytes, &info, self.position, self.most)
                if self.left:
                    return False
            else:
                PyObject_GetBuffer(unpacked, &plain, PyBUF_SIMPLE)
                try:
                    self.take(<const uint8_t *>plain.buf, <const uint8_t *>plain.buf + plain.len, &info, self.position,
                              PY_SSIZE_T_MAX)
                finally:
                    PyBuffer_Release(&plain)
        self.position += info.size_bytes
        self.next_offset = max(self.next_offset, <int64_t>(<uint64_t>info.base_offset + info.last_offset_delta + 1))
        return True

    cdef list read(self, data, bint verify_crc, Aborted aborted, int64_t limit):
        """Returns the records of all complete batches in `data`."""
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            while self.read_batch(<const uint8_t *>view.buf, view.len, verify_crc, aborted, limit):
                pass
        finally:
            PyBuffer_Release(&view)
        return self.out

    cdef list read_good(self, data, bint verify_crc, Aborted aborted, int64_t limit):
        """Returns the records of the complete batches before the first bad one, which raises if it is at the start."""
        cdef Py_buffer view
        cdef Py_ssize_t before = 0
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            while len(self.out) < self.most and self.read_batch(
                    <const uint8_t *>view.buf, view.len, verify_crc, aborted, limit):
                before = len(self.out)
        except Exception:                                    # a corrupt batch, or what a decoder raises
            if self.position == 0:
                raise
            del self.out[before:]
            while self.bad and self.bad[len(self.bad) - 1][0] >= before:
                self.bad.pop()
        finally:
            PyBuffer_Release(&view)
        return self.out


def decode_batches(data, *, bint verify_crc=True, int64_t limit=DECOMPRESSED_MAX_BYTES):
    """Returns every types.Record of the complete batches in `data`, in order, including control records.

    Args:
        verify_crc: check each batch's CRC-32C.
        limit: most bytes that one batch may decompress to.

    Raises:
        CorruptBatch: a batch is malformed or fails its CRC-32C; the message names it.
        CompressionError: records do not decompress, or pass `limit`.
    """
    return RecordReader(types.Record, None, None, INT64_MIN, True).read(data, verify_crc, None, limit)


def decode_records(type cls not None, str topic not None, int partition, data, int64_t from_offset=0, *,
                   aborted=(), int64_t limit=DECOMPRESSED_MAX_BYTES):
    """Returns the records in `data` that a consumer sees, at or after `from_offset`, as a list of `cls`.

    Leaves out control batches and those of aborted transactions. Does not check CRCs: scan() does.

    Args:
        cls: a tuple class of eight fields: topic, partition, offset, timestamp (ms), timestamp type (0 CreateTime, 1
            LogAppendTime), key, value, headers.
        aborted: (producer id, first offset) of each aborted transaction, or an Aborted that has seen all batches
            before `data`.
        limit: most bytes that one batch may decompress to.

    Raises:
        CorruptBatch: a batch is malformed; the message names it.
        CompressionError: records do not decompress, or pass `limit`.
    """
    return reader_of(cls, topic, partition, from_offset).read(data, False, aborted_of(aborted), limit)


def decode_good_records(type cls not None, str topic not None, int partition, data, int64_t from_offset=0, *,
                        bint verify_crc=False, aborted=(), int64_t limit=DECOMPRESSED_MAX_BYTES):
    """Returns what decode_records() does up to the first bad batch, the bytes of these batches, the offset after them, and
    (smallest, largest) of the timestamps.

    Args:
        verify_crc: check each batch's CRC-32C.
        cls, topic, partition, data, from_offset, aborted, limit: as for decode_records().

    Raises:
        CorruptBatch, CompressionError: the batch at the start is bad.
    """
    cdef RecordReader reader = reader_of(cls, topic, partition, from_offset)
    records = reader.read_good(data, verify_crc, aborted_of(aborted), limit)
    return records, reader.position, reader.next_offset, (reader.low, reader.high)


def decode_good_objects(type cls not None, str topic not None, int partition, data, int64_t from_offset,
                        ObjectDecoder keys, ObjectDecoder values, *, bint verify_crc=False,
                        Py_ssize_t most=PY_SSIZE_T_MAX, aborted=(),
                        int64_t limit=DECOMPRESSED_MAX_BYTES):
    """Does what decode_good_records() does, with objects instead of the bytes of keys and values.

    Args:
        keys, values: make the objects; None for bytes. What they raise counts as a bad batch.
        most: records to decode. A batch that is compressed is decoded as a whole, so that there can be more.
        cls, topic, partition, data, from_offset, aborted, limit: as for decode_records().
        verify_crc: as for decode_good_records().

    Returns:
        The records, the bytes of the batches that are done, the offset after the records, (smallest, largest) of the
        timestamps, and [(index, "key" or "value", reason)] of what does not decode: the record has its bytes there.
    """
    cdef RecordReader reader = reader_of(cls, topic, partition, from_offset)
    reader.keys, reader.values, reader.most = keys, values, most
    if keys is not None or values is not None:
        reader.untracked = False                         # objects can be changed, so that they hold their record
    records = reader.read_good(data, verify_crc, aborted_of(aborted), limit)
    return records, reader.position, reader.next_offset, (reader.low, reader.high), reader.bad


cdef RecordReader reader_of(type cls, str topic, int partition, int64_t from_offset):
    if not issubclass(cls, tuple):
        raise TypeError("the record class must be a tuple of eight fields")
    return RecordReader(cls, topic, partition, from_offset, False)


cdef Aborted aborted_of(aborted):
    if isinstance(aborted, Aborted):
        return aborted
    return Aborted(aborted) if aborted else None


cdef int64_t payload_of(const uint8_t *at, const uint8_t *end, int32_t count) noexcept nogil:
    """Returns the bytes of all keys and values; -1 when the records are malformed."""
    cdef Record r
    cdef int64_t size = 0
    cdef int32_t i
    for i in range(count):
        if not record_parse(&at, end, &r):
            return -1
        size += (r.key_length if r.key_length > 0 else 0) + (r.value_length if r.value_length > 0 else 0)
    return size if at == end else -1


def payload_bytes(data, *, int64_t limit=DECOMPRESSED_MAX_BYTES):
    """Returns (records, bytes of their keys and values) in `data`, without control batches. Raises like
    decode_records()."""
    cdef Py_buffer view, plain
    cdef BatchInfo info
    cdef const uint8_t *at
    cdef int64_t position = 0, here, records = 0, total = 0, size
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        while next_batch(<const uint8_t *>view.buf, view.len, position, &info):
            here = position
            at = <const uint8_t *>view.buf + here
            position += info.size_bytes
            if info.attributes & ATTR_CONTROL:
                continue
            unpacked = records_of(at, &info, limit)
            if unpacked is not None:
                PyObject_GetBuffer(unpacked, &plain, PyBUF_SIMPLE)
                with nogil:
                    size = payload_of(
                        <const uint8_t *>plain.buf, <const uint8_t *>plain.buf + plain.len, info.record_count)
                PyBuffer_Release(&plain)
            else:
                with nogil:
                    size = payload_of(at + BATCH_HEADER_BYTES, at + info.size_bytes, info.record_count)
            if size < 0:
                raise malformed(&info, here)
            records += info.record_count
            total += size
    finally:
        PyBuffer_Release(&view)
    return records, total

# ---------------------------------------------------------------- columns for Python


cdef class RecordColumns:
    """The records of a buffer as columns, in order.

    offsets, timestamps (ms), key_positions, key_lengths, value_positions, value_lengths, header_positions,
    header_counts: memoryviews of int64 or, for lengths and counts, int32. A position counts from the start of the
    batch's source: sources[0] is the buffer itself, each compressed batch adds its decompressed records. `batches` says
    which rows belong to which batch.
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
        """Returns the buffer in which the row's positions count."""
        for batch in self.batches:
            if batch.first_row <= row < batch.first_row + batch.rows:
                return self.sources[batch.source]
        raise IndexError(f"row {row} does not exist; there are {self.rows} rows")


cdef object column(int64_t rows, str form, int width, void **start):
    """Allocates a column: returns a memoryview that owns it, and sets `start` to its address."""
    cdef Py_buffer view
    memory = memoryview(bytearray(rows * width)).cast(form)
    PyObject_GetBuffer(memory, &view, PyBUF_SIMPLE)
    start[0] = view.buf
    PyBuffer_Release(&view)                              # the memoryview keeps the bytearray in place
    return memory


cdef int list_batches(RecordColumns columns, const uint8_t *data, int64_t size, bint verify_crc, int64_t limit) except -1:
    """Fills `sources` and `batches`; refuses record counts that the bytes cannot contain."""
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
    """Returns the RecordColumns of the complete batches in `data`. Raises like decode_batches()."""
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
