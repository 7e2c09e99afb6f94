"""Turns Arrow record batches into lines: JSON, CSV (RFC 4180) or server-sent events, without an object for each record.

A record is `{"partition": …, "offset": …, "timestamp": …, "key": …, "value": …, "headers": [[name, base64], …]}`. Keys and
values are strings, JSON as it is, or base64. Bytes that do not fit the form are in `key_base64` or `value_base64` instead.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memset, strcmp
from bowstring._native.arrow.input cimport (
    ArrowArray, ArrowSchema, NumberColumn, bind_bytes, bind_numbers, number_get)
from bowstring._native.base.wire cimport Writer, put_i8, put_raw, writer_free
from bowstring._native.record.encode cimport BinaryColumn, column_get
from bowstring._native.rest.json_text cimport put_base64, put_decimal, put_json_string
from bowstring._native.values.json_scan cimport Scan, json_peek, json_skip
from bowstring._native.values.utf8 cimport utf8_valid

cdef enum LineForm:
    LINES_JSON
    LINES_CSV
    LINES_EVENTS

cdef enum PartForm:
    PART_STRING
    PART_JSON
    PART_BASE64
    PART_REGISTRY     # JSON text that was made of a value, or else the value as it was

cdef dict FORMS = {"ndjson": LINES_JSON, "csv": LINES_CSV, "events": LINES_EVENTS}
cdef dict PARTS = {"string": PART_STRING, "json": PART_JSON, "base64": PART_BASE64, "registry": PART_REGISTRY}

cdef struct Rows:
    NumberColumn partition
    NumberColumn offset
    NumberColumn timestamp
    BinaryColumn key
    BinaryColumn value
    BinaryColumn header_names
    BinaryColumn header_values
    const int32_t *header_ends    # NULL: no row has headers


cdef class RecordLines:
    """Writes records as lines.

    Args:
        form: "ndjson", "csv" or "events".
        key, value: "string", "json", "base64", or "registry": JSON, or bytes that stay what they are, in CSV too.
    """
    cdef LineForm form
    cdef PartForm key
    cdef PartForm value
    cdef Scan scan

    def __cinit__(self, str form not None, str key not None, str value not None):
        memset(&self.scan, 0, sizeof(Scan))
        self.form, self.key, self.value = FORMS[form], PARTS[key], PARTS[value]

    def __dealloc__(self):
        free(self.scan.text)

    def head(self):
        """Returns what stands before the first record."""
        if self.form == LINES_CSV:
            return b"partition,offset,timestamp,key,value,key_base64,value_base64,headers\r\n"
        return b""

    def lines(self, batch, bytes last not None=b""):
        """Returns the lines of a pyarrow.RecordBatch with the columns partition, offset, timestamp, key, value and headers.

        Args:
            batch: the records.
            last: stands before the last event, such as its id.
        """
        cdef ArrowSchema schema
        cdef ArrowArray array
        cdef Writer out
        memset(&out, 0, sizeof(Writer))
        schema_capsule, array_capsule = batch.__arrow_c_array__()
        cdef ArrowSchema *lent_schema = <ArrowSchema *>PyCapsule_GetPointer(schema_capsule, "arrow_schema")
        cdef ArrowArray *lent_array = <ArrowArray *>PyCapsule_GetPointer(array_capsule, "arrow_array")
        schema, array = lent_schema[0], lent_array[0]
        lent_schema.release = NULL
        lent_array.release = NULL
        try:
            self.write_all(&out, &schema, &array, last)
            if out.failed:
                raise MemoryError("no memory for the lines of records")
            return PyBytes_FromStringAndSize(<const char *>out.data, out.size)
        finally:
            writer_free(&out)
            array.release(&array)
            schema.release(&schema)

    cdef write_all(self, Writer *out, ArrowSchema *schema, ArrowArray *array, bytes last):
        cdef Rows rows
        cdef int64_t i, last_size = len(last)
        cdef const char *last_at = last
        bind_rows(&rows, schema, array)
        with nogil:
            for i in range(array.length):
                if i == array.length - 1:
                    put_raw(out, last_at, last_size)
                if self.form == LINES_CSV:
                    self.write_csv(out, &rows, i)
                    continue
                if self.form == LINES_EVENTS:
                    put_raw(out, b"data: ", 6)
                self.write_json(out, &rows, i)
                put_raw(out, b"\n\n", 2 if self.form == LINES_EVENTS else 1)

    # ------------------------------------------------------------ JSON

    cdef void write_json(self, Writer *out, const Rows *rows, int64_t i) noexcept nogil:
        cdef bint valid
        put_raw(out, b'{"partition":', 13)
        put_decimal(out, number_get(&rows.partition, i, &valid))
        put_raw(out, b',"offset":', 10)
        put_decimal(out, number_get(&rows.offset, i, &valid))
        put_raw(out, b',"timestamp":', 13)
        put_decimal(out, number_get(&rows.timestamp, i, &valid))
        put_raw(out, b',"key', 5)
        self.write_part(out, &rows.key, i, self.key)
        put_raw(out, b',"value', 7)
        self.write_part(out, &rows.value, i, self.value)
        if rows.header_ends != NULL and rows.header_ends[i + 1] > rows.header_ends[i]:
            put_raw(out, b',"headers":', 11)
            write_headers(out, rows, i)
        put_i8(out, c'}')

    cdef void write_part(self, Writer *out, const BinaryColumn *column, int64_t i, PartForm form) noexcept nogil:
        """The rest of a name, and the value."""
        cdef const uint8_t *at
        cdef int64_t size = column_get(column, i, &at)
        if size < 0:
            put_raw(out, b'":null', 6)
        elif (form == PART_JSON or form == PART_REGISTRY) and self.is_json(at, size):
            put_raw(out, b'":', 2)
            put_raw(out, self.scan.begin, self.scan.at - self.scan.begin)
        elif form == PART_STRING and utf8_valid(at, size):
            put_raw(out, b'":', 2)
            put_json_string(out, at, size)
        else:
            put_raw(out, b'":"' if form == PART_BASE64 else b'_base64":"', 3 if form == PART_BASE64 else 10)
            put_base64(out, at, size)
            put_i8(out, c'"')

    cdef bint is_json(self, const uint8_t *at, int64_t size) noexcept nogil:
        """Whether bytes are one JSON value, on one line; scan.begin to scan.at have it without white space around it."""
        cdef Scan *s = &self.scan
        cdef const uint8_t *p
        cdef const uint8_t *value_end
        s.at = at
        s.end = at + size
        json_peek(s)
        s.begin = s.at
        if not json_skip(s, 0):
            return False
        value_end = s.at
        if json_peek(s) != 0 or s.at < s.end:
            return False
        s.at = value_end
        p = s.begin
        while p < value_end:                             # a line break would end the line
            if p[0] == c'\n' or p[0] == c'\r':
                return False
            p += 1
        return True

    # ------------------------------------------------------------ CSV

    cdef bint is_text(self, const uint8_t *at, int64_t size, PartForm form) noexcept nogil:
        """Whether a cell has bytes as they are."""
        if size < 0 or form == PART_BASE64:
            return False
        return self.is_json(at, size) if form == PART_REGISTRY else utf8_valid(at, size)

    cdef void write_csv(self, Writer *out, const Rows *rows, int64_t i) noexcept nogil:
        cdef bint valid
        cdef const uint8_t *key
        cdef const uint8_t *value
        cdef int64_t key_size = column_get(&rows.key, i, &key)
        cdef int64_t value_size = column_get(&rows.value, i, &value)
        cdef bint key_text = self.is_text(key, key_size, self.key)
        cdef bint value_text = self.is_text(value, value_size, self.value)
        cdef Writer headers
        put_decimal(out, number_get(&rows.partition, i, &valid))
        put_i8(out, c',')
        put_decimal(out, number_get(&rows.offset, i, &valid))
        put_i8(out, c',')
        put_decimal(out, number_get(&rows.timestamp, i, &valid))
        put_i8(out, c',')
        if key_text:
            write_cell(out, key, key_size)
        put_i8(out, c',')
        if value_text:
            write_cell(out, value, value_size)
        put_i8(out, c',')
        if key_size >= 0 and not key_text:
            put_base64(out, key, key_size)
        put_i8(out, c',')
        if value_size >= 0 and not value_text:
            put_base64(out, value, value_size)
        put_i8(out, c',')
        if rows.header_ends != NULL and rows.header_ends[i + 1] > rows.header_ends[i]:
            memset(&headers, 0, sizeof(Writer))
            write_headers(&headers, rows, i)
            write_cell(out, headers.data, headers.size)
            out.failed = out.failed or headers.failed
            writer_free(&headers)
        put_raw(out, b"\r\n", 2)


cdef int64_t child_of(const ArrowSchema *schema, const char *name) except -1:
    cdef int64_t i
    for i in range(schema.n_children):
        if strcmp(schema.children[i].name, name) == 0:
            return i
    raise ValueError(f"the records have no column {name.decode()}")


cdef bind_rows(Rows *rows, ArrowSchema *schema, ArrowArray *array):
    cdef int64_t i
    cdef const ArrowSchema *pair
    cdef const ArrowArray *lists
    memset(rows, 0, sizeof(Rows))
    i = child_of(schema, b"partition")
    bind_numbers(schema.children[i], array.children[i], array.offset, &rows.partition)
    i = child_of(schema, b"offset")
    bind_numbers(schema.children[i], array.children[i], array.offset, &rows.offset)
    i = child_of(schema, b"timestamp")
    bind_numbers(schema.children[i], array.children[i], array.offset, &rows.timestamp)
    i = child_of(schema, b"key")
    bind_bytes(schema.children[i], array.children[i], array.offset, &rows.key)
    i = child_of(schema, b"value")
    bind_bytes(schema.children[i], array.children[i], array.offset, &rows.value)
    i = child_of(schema, b"headers")
    lists = array.children[i]
    if array.length == 0:
        return
    rows.header_ends = <const int32_t *>lists.buffers[1] + lists.offset + array.offset
    pair = schema.children[i].children[0]
    bind_bytes(pair.children[0], lists.children[0].children[0], lists.children[0].offset, &rows.header_names)
    bind_bytes(pair.children[1], lists.children[0].children[1], lists.children[0].offset, &rows.header_values)


cdef void write_headers(Writer *out, const Rows *rows, int64_t row) noexcept nogil:
    """[[name, base64 or null], …]."""
    cdef int64_t i, size
    cdef const uint8_t *at
    put_i8(out, c'[')
    for i in range(rows.header_ends[row], rows.header_ends[row + 1]):
        if i > rows.header_ends[row]:
            put_i8(out, c',')
        put_i8(out, c'[')
        size = column_get(&rows.header_names, i, &at)
        if utf8_valid(at, size):
            put_json_string(out, at, size)
        else:
            put_raw(out, b'null', 4)                     # Kafka's clients write UTF-8
        put_i8(out, c',')
        size = column_get(&rows.header_values, i, &at)
        if size < 0:
            put_raw(out, b"null]", 5)
            continue
        put_i8(out, c'"')
        put_base64(out, at, size)
        put_raw(out, b'"]', 2)
    put_i8(out, c']')


cdef void write_cell(Writer *out, const uint8_t *at, int64_t size) noexcept nogil:
    """Text of a cell, in quotes where it needs them; an empty text is in quotes, null is not."""
    cdef int64_t i, start = 0
    cdef bint plain = size > 0
    for i in range(size):
        if at[i] == c'"' or at[i] == c',' or at[i] == c'\n' or at[i] == c'\r':
            plain = False
            break
    if plain:
        put_raw(out, at, size)
        return
    put_i8(out, c'"')
    for i in range(size):
        if at[i] == c'"':
            put_raw(out, at + start, i + 1 - start)
            start = i                                    # once more
    put_raw(out, at + start, size - start)
    put_i8(out, c'"')
