"""Decodes record batches into Arrow's buffers without the GIL: ArrowRows gathers records of any number of partitions.

It does not need pyarrow: clients/arrow/arrow_format.py makes pyarrow's arrays of the buffers.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memset
from bowstring._native.record.decode cimport Aborted
from bowstring._native.arrow.buffer_pool cimport Growing, memory_discard, memory_of
from bowstring._native.arrow.decode_rows cimport (
    BinaryColumn, COLUMN_HEADERS, COLUMN_KEY, COLUMN_OFFSET, COLUMN_PARTITION, COLUMN_TIMESTAMP,
    COLUMN_TIMESTAMP_TYPE, COLUMN_TOPIC, COLUMN_VALUE, HeaderColumn, Rows, TAKEN_ALL, TAKEN_FULL, TAKEN_MALFORMED,
    TAKEN_TO_END, Taken, VIEW_BYTES, binary_discard, binary_room, offsets_room, rows_discard, rows_room, rows_take)
from bowstring._native.record.batch cimport (
    ATTR_COMPRESSION_MASK, ATTR_CONTROL, BATCH_HEADER_BYTES, BatchInfo, batch_crc_ok, batch_extent, batch_parse)
from bowstring._native.record.timestamp_windows cimport TimeRun

from bowstring._native.record.compression import DECOMPRESSED_MAX_BYTES, CompressionError, decompress
from bowstring._native.record.types import CorruptBatch

COLUMN_BITS = {
    "topic": COLUMN_TOPIC,
    "partition": COLUMN_PARTITION,
    "offset": COLUMN_OFFSET,
    "timestamp": COLUMN_TIMESTAMP,
    "timestamp_type": COLUMN_TIMESTAMP_TYPE,
    "key": COLUMN_KEY,
    "value": COLUMN_VALUE,
    "headers": COLUMN_HEADERS,
}

# ---------------------------------------------------------------- batches, one after the other

cdef enum Walked:
    WALK_DONE                     # no further complete batch
    WALK_ASK                      # the batch needs the GIL: it is compressed, or its transaction may be aborted
    WALK_FULL
    WALK_TO_END
    WALK_NO_BATCH                 # the bytes are not a batch of magic 2
    WALK_BAD_CRC
    WALK_MALFORMED
    WALK_NO_MEMORY

cdef struct Walk:
    const uint8_t *data
    int64_t size
    int64_t position              # of the current batch
    BatchInfo info                # its header
    bint verify_crc
    bint first_checked            # the CRC of the first batch was checked before
    bint ask_always
    int32_t source                # index of `data` among the sources


cdef inline void pass_over(Walk *w, Rows *c) noexcept nogil:
    cdef int64_t behind = w.info.base_offset + w.info.last_offset_delta + 1
    w.position += w.info.size_bytes
    if behind > c.next_offset:
        c.next_offset = behind


cdef inline bint is_passed_over(const Walk *w, const Rows *c) noexcept nogil:
    """Whether the reader skips a batch: it has control records, or only offsets below the start."""
    return w.info.attributes & ATTR_CONTROL or w.info.base_offset + w.info.last_offset_delta < c.from_offset


cdef Walked after(Taken taken, Walk *w, Rows *c) noexcept nogil:
    """Handles the end of a batch. WALK_DONE: all its records were decoded, and the walk continues at the next batch."""
    if taken == TAKEN_ALL:
        pass_over(w, c)
        return WALK_DONE
    if taken == TAKEN_FULL:
        return WALK_FULL
    if taken == TAKEN_TO_END:
        return WALK_TO_END
    return WALK_MALFORMED if taken == TAKEN_MALFORMED else WALK_NO_MEMORY


cdef Walked walk(Walk *w, Rows *c) noexcept nogil:
    """Decodes batch after batch until it needs the caller."""
    cdef int64_t extent
    cdef const uint8_t *at
    cdef Walked found
    while True:
        at = w.data + w.position
        extent = batch_extent(at, w.size - w.position)
        if extent == 0:
            return WALK_DONE
        if extent < 0 or batch_parse(at, extent, &w.info) != 0:
            return WALK_NO_BATCH
        if w.info.base_offset >= c.end_offset:
            return WALK_TO_END
        if w.verify_crc and not (w.first_checked and w.position == 0) and not batch_crc_ok(at, extent):
            return WALK_BAD_CRC
        if w.ask_always:
            return WALK_ASK
        if is_passed_over(w, c):
            pass_over(w, c)
            continue
        if w.info.attributes & ATTR_COMPRESSION_MASK:
            return WALK_ASK
        found = after(rows_take(c, at + BATCH_HEADER_BYTES, at + extent, &w.info, w.data, w.source), w, c)
        if found != WALK_DONE:
            return found


cdef object failure(Walked found, const Walk *w):
    if found == WALK_NO_MEMORY:
        return MemoryError("no memory for the columns of the fetched records")
    if found == WALK_NO_BATCH:
        return CorruptBatch(f"there is no record batch of magic 2 at byte {w.position}: the length or magic is wrong")
    if found == WALK_BAD_CRC:
        return CorruptBatch(f"the batch with base offset {w.info.base_offset} fails its CRC-32C")
    return CorruptBatch(
        f"the batch with base offset {w.info.base_offset} does not contain {w.info.record_count} complete records in "
        "order")

# ---------------------------------------------------------------- for Python


cdef tuple taken_binary(BinaryColumn *c, bint views, int64_t rows, list sources):
    """Returns (null count, [validity or None, entries, data...]); the column is empty afterwards."""
    valid = memory_of(&c.valid, (rows + 7) >> 3) if c.nulls > 0 else None
    if views:
        buffers = [valid, memory_of(&c.entries, VIEW_BYTES * rows), *sources]
    else:
        buffers = [valid, memory_of(&c.entries, 4 * (rows + 1)), memory_of(&c.data, c.data_bytes)]
    nulls = c.nulls
    binary_discard(c)
    return nulls, buffers


cdef tuple escaped_keys(BinaryColumn *c, int64_t count):
    """Converts header keys to valid UTF-8, which Arrow strings must be; returns them in the layout of taken_binary().

    A byte that is not UTF-8 becomes `\\xNN`, so different keys stay different, unless a key contains this text itself.
    record/decode.pyx returns text from which the original bytes can be restored.
    """
    cdef Growing ends
    cdef int32_t *at = <int32_t *>c.entries.data
    cdef int64_t i, size = 0
    ends.data = NULL
    ends.capacity = 0
    keys = [c.data.data[at[i]:at[i + 1]].decode("utf-8", "backslashreplace").encode() for i in range(count)]
    if not offsets_room(&ends, 0, count):
        raise MemoryError("no memory for header keys")
    for i in range(count):
        size += len(keys[i])
        if size > INT32_MAX:
            memory_discard(&ends)
            raise MemoryError("the header keys of one batch exceed 2 GiB")
        (<int32_t *>ends.data)[i + 1] = <int32_t>size
    binary_discard(c)
    return 0, [None, memory_of(&ends, 4 * (count + 1)), b"".join(keys)]


cdef class ArrowRows:
    """Columns to which the records of one partition after the other are appended, until take() returns them.

    Args:
        columns: names from COLUMN_BITS; other columns are not decoded.
        views: True: keys and values in the binary_view layout, which points into `data`; False: binary, which copies.
        microseconds: True: timestamps are in microseconds; False: in milliseconds.
        rows_max: most rows.
        bytes_max: most bytes of records, as framed in their batches; at least one record is always accepted. At most
            2 GiB - 1, so that offsets of 32 bits suffice.
        window_ms: length of the windows in which take_counts() counts rows; 0: they are not counted.
    """
    cdef Rows out
    cdef list sources
    cdef bint stopped

    def __cinit__(self, columns, *, bint views=False, bint microseconds=False, int64_t rows_max=INT32_MAX,
                  int64_t bytes_max=INT32_MAX, int64_t window_ms=0):
        memset(&self.out, 0, sizeof(Rows))
        for name in columns:
            self.out.wanted |= <int32_t>COLUMN_BITS[name]
        self.out.views, self.out.microseconds = views, microseconds
        self.out.rows_max = max(1, min(rows_max, INT32_MAX - 1))
        self.out.bytes_max = max(1, min(bytes_max, INT32_MAX))
        self.out.headers.ascii = True
        self.out.window_ms = window_ms
        self.sources = []
        self.stopped = False

    def __dealloc__(self):
        rows_discard(&self.out)

    @property
    def rows(self):
        """Number of rows so far."""
        return self.out.rows

    @property
    def bytes_max(self):
        """Most bytes of records: the constructor's value, but below 2 GiB."""
        return self.out.bytes_max

    @property
    def full(self):
        """Whether a limit was reached, so that no more records are appended."""
        return self.stopped or self.out.rows >= self.out.rows_max or self.out.bytes >= self.out.bytes_max

    def take_counts(self):
        """[(start of a window in ms, rows, largest timestamp in ms)] of the rows appended since the last call."""
        cdef const TimeRun *runs = <const TimeRun *>self.out.runs.data
        cdef int64_t i, count = self.out.run_count
        self.out.run_count = 0
        return [(runs[i].start, runs[i].count, runs[i].newest) for i in range(count)]

    def reserve(self, int64_t rows, int64_t data_bytes):
        """Reserves memory for rows. Without this call columns grow batch by batch."""
        rows = min(rows, self.out.rows_max - self.out.rows)
        data_bytes = min(data_bytes, self.out.bytes_max)
        if rows > 0 and not rows_room(&self.out, rows, data_bytes):
            raise MemoryError("no memory for the columns of the fetched records")

    def append(self, data, int64_t from_offset, int64_t end_offset=INT64_MAX, *, int32_t topic=0,
               int32_t partition=0, Aborted aborted=None, bint verify_crc=False, resumed=None,
               int64_t limit=DECOMPRESSED_MAX_BYTES):
        """Appends the records of [from_offset, end_offset) from the complete batches in `data`.

        Skips control batches, and batches of `aborted` transactions.

        Args:
            topic, partition: the values of those columns.
            resumed: the third value of the result of the last call for the same data.
            limit: most bytes that a batch may decompress to.

        Returns:
            The position in `data` and the offset at which to continue, and the value for `resumed` then. If a limit was
            reached inside a batch, the position is that of the batch.

        Raises:
            CorruptBatch, CompressionError: the first batch is bad. If a later one is, the records before it are
                appended, and a call that begins with it raises. Rows of earlier calls stay.
        """
        cdef Py_buffer view
        cdef Walk w
        cdef Rows *c = &self.out
        cdef int64_t first_row = c.rows, row
        cdef Walked found
        plain = resumed[0] if resumed is not None else None
        c.from_offset = c.next_offset = from_offset
        c.end_offset = end_offset
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            if c.views and view.len > INT32_MAX:
                raise ValueError(f"a buffer of views may have at most 2 GiB, this one has {view.len} bytes: pass it in parts")
            memset(&w, 0, sizeof(Walk))
            w.data, w.size = <const uint8_t *>view.buf, view.len
            w.verify_crc, w.first_checked, w.ask_always = verify_crc, resumed is not None, aborted is not None
            w.source = <int32_t>len(self.sources)
            self.sources.append(data)
            c.source_used = False
            try:
                found, plain = self.go(&w, aborted, plain, limit)
            finally:
                if not c.source_used and self.sources[w.source] is data:
                    self.drop_source(w.source)
        finally:
            PyBuffer_Release(&view)
        if found > WALK_TO_END and (w.position == 0 or found == WALK_NO_MEMORY):
            raise failure(found, &w)
        for row in range(first_row, c.rows if c.wanted & COLUMN_TOPIC else 0):
            (<int32_t *>c.topics.data)[row] = topic
        for row in range(first_row, c.rows if c.wanted & COLUMN_PARTITION else 0):
            (<int32_t *>c.partitions.data)[row] = partition
        self.stopped = found == WALK_FULL
        if found == WALK_TO_END:
            c.next_offset = end_offset
        return w.position, c.next_offset, (plain,) if found == WALK_FULL else None

    cdef tuple go(self, Walk *w, Aborted aborted, plain, int64_t limit):
        """Decodes as far as possible. Returns why it stopped, and the decompressed records of the current batch if some
        of them are left."""
        cdef Walked found
        while True:
            with nogil:
                found = walk(w, &self.out)
            if found != WALK_ASK:
                return found, plain
            if (aborted is not None and aborted.holds(w.data + w.position, &w.info)) or is_passed_over(w, &self.out):
                pass_over(w, &self.out)
                continue
            if not w.info.attributes & ATTR_COMPRESSION_MASK:
                with nogil:
                    found = after(rows_take(
                        &self.out, w.data + w.position + BATCH_HEADER_BYTES, w.data + w.position + w.info.size_bytes,
                        &w.info, w.data, w.source), w, &self.out)
            else:
                if plain is None:
                    try:
                        plain = decompressed(w, limit)
                    except CompressionError:
                        if w.position == 0:
                            raise
                        return WALK_MALFORMED, None
                found = self.take_plain(w, plain)
            if found != WALK_DONE:
                return found, plain
            plain = None

    cdef Walked take_plain(self, Walk *w, plain) except? WALK_NO_MEMORY:
        """Appends the records of a compressed batch."""
        cdef Py_buffer view
        cdef Walked found
        cdef bint used = self.out.source_used
        cdef int32_t source = <int32_t>len(self.sources)
        PyObject_GetBuffer(plain, &view, PyBUF_SIMPLE)
        self.out.source_used = False
        with nogil:
            found = after(rows_take(
                &self.out, <const uint8_t *>view.buf, <const uint8_t *>view.buf + view.len, &w.info,
                <const uint8_t *>view.buf, source), w, &self.out)
        PyBuffer_Release(&view)
        if self.out.source_used:
            self.sources.append(plain)
        self.out.source_used = used
        return found

    cdef int drop_source(self, int32_t index) except -1:
        """Releases a source that no view points into."""
        self.sources[index] = b""
        if index == len(self.sources) - 1:
            self.sources.pop()
        return 0

    def take(self):
        """Returns the number of rows, and a dict of each column's buffers; the object is empty afterwards.

        A fixed-width column is a Memory; key and value are (null count, [validity or None, entries, data...]); headers
        are (ends, count, keys, values).
        """
        cdef Rows *c = &self.out
        if c.rows == 0:
            self.reserve(1, 0)                           # so that there are buffers, even if empty
        columns = {}
        if c.wanted & COLUMN_TOPIC:
            columns["topic"] = memory_of(&c.topics, 4 * c.rows)
        if c.wanted & COLUMN_PARTITION:
            columns["partition"] = memory_of(&c.partitions, 4 * c.rows)
        if c.wanted & COLUMN_OFFSET:
            columns["offset"] = memory_of(&c.offsets, 8 * c.rows)
        if c.wanted & COLUMN_TIMESTAMP:
            columns["timestamp"] = memory_of(&c.timestamps, 8 * c.rows)
        if c.wanted & COLUMN_TIMESTAMP_TYPE:
            columns["timestamp_type"] = memory_of(&c.timestamp_types, c.rows)
        if c.wanted & COLUMN_KEY:
            columns["key"] = taken_binary(&c.keys, c.views, c.rows, self.sources)
        if c.wanted & COLUMN_VALUE:
            columns["value"] = taken_binary(&c.values, c.views, c.rows, self.sources)
        if c.wanted & COLUMN_HEADERS:
            columns["headers"] = self.taken_headers()
        self.sources = []
        rows, c.rows, c.bytes = c.rows, 0, 0
        self.stopped = False
        return rows, columns

    cdef tuple taken_headers(self):
        cdef HeaderColumn *h = &self.out.headers
        cdef int64_t count = h.count
        if count == 0 and not (binary_room(&h.keys, False, 0, 1, 0) and binary_room(&h.values, False, 0, 1, 0)):
            raise MemoryError("no memory for headers")
        ends = memory_of(&h.ends, 4 * (self.out.rows + 1))
        keys = taken_binary(&h.keys, False, count, []) if h.ascii else escaped_keys(&h.keys, count)
        values = taken_binary(&h.values, False, count, [])
        h.count, h.ascii = 0, True
        return ends, count, keys, values


cdef object decompressed(const Walk *w, int64_t limit):
    cdef const uint8_t *at = w.data + w.position
    try:
        return decompress(
            w.info.attributes & ATTR_COMPRESSION_MASK,
            <bytes>PyBytes_FromStringAndSize(<const char *>at + BATCH_HEADER_BYTES, w.info.size_bytes - BATCH_HEADER_BYTES),
            limit)
    except CompressionError as error:
        error.args = (f"the batch at offset {w.info.base_offset}: {error}",)
        raise
