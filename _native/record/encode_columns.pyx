"""Encodes columns in Arrow's layout as record batches: the Python functions for encode.pxd.

A column is a tuple of buffers, so pyarrow is not needed. The records are written without the GIL, straight into the
batch that is returned.
"""
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING as bytes_start, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.bytes cimport PyBytes_FromStringAndSize as new_bytes
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset
from bowstring._native.record.batch cimport BATCH_HEADER_BYTES, BatchInfo, batch_seal
from bowstring._native.record.encode cimport (
    COLUMN_OFFSETS_32, COLUMN_OFFSETS_64, BinaryColumn, RecordColumns, RecordSpan, batch_fields, columns_bound,
    columns_encode, columns_row_bytes, seal_compressed)

cdef extern from "Python.h":
    # Declared with PyObject *, because the object is resized while it has no other reference.
    PyObject *PyBytes_FromStringAndSize(const char *data, Py_ssize_t size)
    char *PyBytes_AS_STRING(PyObject *bytes)
    int _PyBytes_Resize(PyObject **bytes, Py_ssize_t size) except -1

cdef enum:
    # Batches up to this size are written into memory of an estimated size, which is then shrunk. Larger ones are
    # measured first: shrinking a block that malloc has mapped makes it map a new one, which the kernel clears, every
    # time.
    ESTIMATED_MAX_BYTES = 65536 + 32768


cdef bint offsets_hold(const BinaryColumn *c, int64_t rows, int64_t data_bytes) noexcept nogil:
    """Whether the offsets never decrease and end within the data."""
    cdef int64_t at, before, i
    before = (<const int64_t *>c.offsets)[0] if c.kind == COLUMN_OFFSETS_64 else (<const int32_t *>c.offsets)[0]
    if before < 0:
        return False
    for i in range(1, rows + 1):
        at = (<const int64_t *>c.offsets)[i] if c.kind == COLUMN_OFFSETS_64 else (<const int32_t *>c.offsets)[i]
        if at < before:
            return False
        before = at
    return before <= data_bytes


cdef class LentColumn:
    """A BinaryColumn and the buffers it borrows until the object is freed."""
    cdef BinaryColumn column
    cdef Py_buffer views[3]
    cdef int held
    cdef int64_t rows                                    # -1: no column was given, so every row is null

    def __cinit__(self, str name not None, parts):
        """`parts` is None, or (data, offsets) or (data, offsets, validity bitmap)."""
        memset(&self.column, 0, sizeof(BinaryColumn))
        self.held = 0
        self.rows = -1
        if parts is None:
            return
        if not 2 <= len(parts) <= 3:
            raise ValueError(f"column {name!r} needs (data, offsets) or (data, offsets, validity)")
        self.borrow(parts[0], PyBUF_SIMPLE)
        self.borrow(parts[1], PyBUF_ND | PyBUF_FORMAT)
        self.column.data = <const uint8_t *>self.views[0].buf
        self.column.offsets = self.views[1].buf
        if self.views[1].itemsize not in (4, 8) or self.views[1].len < self.views[1].itemsize:
            raise ValueError(f"column {name!r}: offsets must be rows + 1 integers of 4 or 8 bytes each")
        self.column.kind = COLUMN_OFFSETS_64 if self.views[1].itemsize == 8 else COLUMN_OFFSETS_32
        self.rows = self.views[1].len // self.views[1].itemsize - 1
        if len(parts) == 3 and parts[2] is not None:
            self.borrow(parts[2], PyBUF_SIMPLE)
            self.column.validity = <const uint8_t *>self.views[2].buf
            if self.views[2].len * 8 < self.rows:
                raise ValueError(f"column {name!r}: the validity bitmap is shorter than {self.rows} rows")
        if not offsets_hold(&self.column, self.rows, self.views[0].len):
            raise ValueError(f"column {name!r}: offsets must not decrease, and must end within the data")

    cdef int borrow(self, object part, int flags) except -1:
        PyObject_GetBuffer(part, &self.views[self.held], flags)
        self.held += 1
        return 0

    def __dealloc__(self):
        cdef int i
        for i in range(self.held):
            PyBuffer_Release(&self.views[i])


cdef object encode_one(
        const RecordColumns *columns, int64_t begin, int64_t end, int64_t max_bytes, int codec, level, dict fields,
        RecordSpan *span):
    """Encodes as many rows as fit into one batch, and sets `span` to them."""
    cdef BatchInfo info
    cdef int64_t alone = columns_row_bytes(columns, begin)
    cdef int64_t capacity = max(alone, min(max_bytes, columns_bound(columns, begin, end)))
    cdef PyObject *batch
    cdef uint8_t *out
    if alone > INT32_MAX:
        raise ValueError(f"row {begin} is larger than the 2 GiB that a batch can hold")
    capacity = min(capacity, INT32_MAX)
    if capacity > ESTIMATED_MAX_BYTES:
        with nogil:
            columns_encode(columns, begin, end, NULL, capacity, span)
        capacity = span.size_bytes
    batch = PyBytes_FromStringAndSize(NULL, capacity)
    if batch == NULL:
        raise MemoryError(f"no memory for a batch of {capacity} bytes")
    out = <uint8_t *>PyBytes_AS_STRING(batch)
    try:
        with nogil:
            columns_encode(columns, begin, end, out, capacity, span)
        batch_fields(&info, span.rows, span.base_timestamp, span.max_timestamp, fields)
        if codec != 0:
            return seal_compressed(&info, out + BATCH_HEADER_BYTES, span.size_bytes - BATCH_HEADER_BYTES, codec, level)
        info.size_bytes = span.size_bytes
        with nogil:
            batch_seal(out, &info)
        _PyBytes_Resize(&batch, span.size_bytes)         # returns the unused bytes
        return <object>batch
    finally:
        Py_XDECREF(batch)


def encode_columns(value, *, key=None, headers=None, timestamps=0, int64_t begin=0, end=None,
                   int64_t max_bytes=1 << 20, int codec=0, level=None, **fields):
    """Encodes rows [begin, end) as a list of record batches (bytes).

    Args:
        value, key, headers: None (every row null) or (data, offsets[, validity]) as in Arrow's binary and large_binary
            arrays; a row of `headers` is what encode.encode_headers() returns.
        timestamps: ms since the epoch, one int for all rows or a buffer of int64.
        max_bytes: of a batch before compression; a larger row is a batch of its own.
        codec, level, fields: as in BatchBuilder.build(); base_sequence continues from batch to batch.

    Raises:
        ValueError: columns have different numbers of rows, or a row exceeds 2 GiB.
    """
    cdef LentColumn values = LentColumn("value", value)
    cdef LentColumn keys = LentColumn("key", key)
    cdef LentColumn packed = LentColumn("headers", headers)
    cdef RecordColumns columns
    cdef RecordSpan span
    cdef Py_buffer times
    cdef int64_t rows = max(values.rows, keys.rows), last
    cdef int64_t sequence = fields.pop("base_sequence", -1)
    cdef bint timed = not isinstance(timestamps, int)
    if rows < 0:
        raise ValueError("give at least one of the columns value and key")
    memset(&columns, 0, sizeof(RecordColumns))
    columns.value, columns.key, columns.headers = values.column, keys.column, packed.column
    last = rows if end is None else end
    batches = []
    if timed:
        PyObject_GetBuffer(timestamps, &times, PyBUF_ND | PyBUF_FORMAT)
    try:
        if timed:
            columns.timestamps = <const int64_t *>times.buf
        else:
            columns.timestamp = timestamps
        for name, have in (("value", values.rows), ("key", keys.rows), ("headers", packed.rows),
                           ("timestamps", times.len // 8 if timed and times.itemsize == 8 else 0 if timed else -1)):
            if have >= 0 and have != rows:
                raise ValueError(f"column {name!r} has {have} rows of 8 bytes, it must have {rows}"
                                 if name == "timestamps" else
                                 f"column {name!r} has {have} rows, but another column has {rows}")
        if not 0 <= begin <= last <= rows:
            raise ValueError(f"rows {begin} to {last} are outside the columns, which have {rows} rows")
        while begin < last:
            batches.append(encode_one(&columns, begin, last, max_bytes, codec, level,
                                      {**fields, "base_sequence": sequence}, &span))
            begin += span.rows
            if sequence >= 0:                            # sequences wrap to 0 after 2**31 - 1 (KIP-98)
                sequence = (sequence + span.rows) & INT32_MAX
    finally:
        if timed:
            PyBuffer_Release(&times)
    return batches


def binary_column(list values not None):
    """Converts a list of bytes and Nones to a column for encode_columns(): (data, int64 offsets, validity or None)."""
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
            raise TypeError(f"values must be bytes or None, not {type(value).__name__}")
    data = new_bytes(NULL, size)
    cdef bytes packed = new_bytes(NULL, (rows + 1) * 8)
    cdef int64_t *offsets = <int64_t *>bytes_start(packed)
    validity = new_bytes(NULL, (rows + 7) // 8)
    cdef uint8_t *bits = <uint8_t *>bytes_start(validity)
    memset(bits, 0, (rows + 7) // 8)
    for i in range(rows):
        offsets[i] = at
        value = values[i]
        if value is not None:
            size = PyBytes_GET_SIZE(value)
            memcpy(bytes_start(data) + at, bytes_start(value), size)
            at += size
            bits[i >> 3] |= 1 << (i & 7)
    offsets[rows] = at
    return data, memoryview(packed).cast("q"), validity if nulls else None
