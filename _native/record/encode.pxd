"""Encodes record batches: from columns without the GIL, or record by record into a growing buffer."""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy
from bowstring._native.record.batch cimport BatchInfo
from bowstring._native.base.wire cimport Writer

cdef enum ColumnKind:
    COLUMN_OFFSETS_32 = 0         # binary, string
    COLUMN_OFFSETS_64 = 1         # large_binary, large_string
    COLUMN_VIEWS = 2              # binary_view, string_view
    COLUMN_FIXED = 3              # fixed_size_binary

cdef struct BinaryColumn:
    # Byte strings in one of Arrow's layouts: with offsets, row i is data[offsets[i]:offsets[i + 1]]. Borrowed, never
    # freed here.
    const uint8_t *data           # may be NULL when every row is empty or null
    const void *offsets           # rows + 1 int32 or int64; of views 16 bytes a row; NULL: every row is null
    const uint8_t *validity       # bitmap, least significant bit first; NULL: no row is null
    int64_t validity_offset       # bit of row 0
    int32_t width                 # of each row, when fixed
    int8_t kind
    int8_t index_bytes            # of a dictionary's indices; 0: rows are not indirect
    const void *indices           # row → row in all of the above
    const uint8_t *index_validity
    int64_t index_validity_offset
    const uint8_t *const *buffers # that views point into

cdef struct RecordColumns:
    BinaryColumn key
    BinaryColumn value
    BinaryColumn headers          # for each row the header count and the headers, encoded as in a record; null: none
    const int64_t *timestamps     # ms; NULL: every row has `timestamp`
    int64_t timestamp
    const int32_t *rows           # row numbers that begin and end index; NULL: all rows in order


cdef inline bint bit_set(const uint8_t *bitmap, int64_t bit) noexcept nogil:
    return (bitmap[bit >> 3] >> (bit & 7)) & 1


cdef inline int64_t index_at(const void *indices, int8_t index_bytes, int64_t row) noexcept nogil:
    """Returns a dictionary's index, read as unsigned: no index is negative."""
    if index_bytes == 4:
        return (<const uint32_t *>indices)[row]
    if index_bytes == 1:
        return (<const uint8_t *>indices)[row]
    if index_bytes == 2:
        return (<const uint16_t *>indices)[row]
    return (<const int64_t *>indices)[row]


cdef inline int64_t view_get(const BinaryColumn *c, int64_t row, const uint8_t **at) noexcept nogil:
    """Returns the length of a view and sets `at` to its bytes. Up to 12 bytes are in the view itself; a longer view has a
    buffer number and an offset."""
    cdef const uint8_t *view = <const uint8_t *>c.offsets + 16 * row
    cdef int32_t parts[4]
    memcpy(parts, view, 16)
    if parts[0] <= 12:
        at[0] = view + 4
    else:
        at[0] = c.buffers[parts[2]] + parts[3]
    return parts[0]


cdef inline int64_t column_get(const BinaryColumn *c, int64_t row, const uint8_t **at) noexcept nogil:
    """Returns the length of a row, -1 for null, and sets `at` to its bytes."""
    cdef int64_t begin, end
    at[0] = NULL
    if c.offsets == NULL:
        return -1
    if c.index_bytes:
        if c.index_validity != NULL and not bit_set(c.index_validity, c.index_validity_offset + row):
            return -1
        row = index_at(c.indices, c.index_bytes, row)
    if c.validity != NULL and not bit_set(c.validity, c.validity_offset + row):
        return -1
    if c.kind == COLUMN_OFFSETS_32:
        begin = (<const int32_t *>c.offsets)[row]
        end = (<const int32_t *>c.offsets)[row + 1]
    elif c.kind == COLUMN_OFFSETS_64:
        begin = (<const int64_t *>c.offsets)[row]
        end = (<const int64_t *>c.offsets)[row + 1]
    elif c.kind == COLUMN_VIEWS:
        return view_get(c, row, at)
    else:
        at[0] = c.data + row * c.width
        return c.width
    at[0] = c.data + begin if end > begin else NULL
    return end - begin

cdef struct RecordSpan:
    # The rows of one batch, and the header fields that depend on them.
    int64_t begin
    int32_t rows
    int32_t size_bytes            # of the batch, its header included
    int64_t base_timestamp
    int64_t min_timestamp
    int64_t max_timestamp

# Returns the bytes of a batch with only this row, whose timestamp is the base timestamp.
cdef int64_t columns_row_bytes(const RecordColumns *columns, int64_t row) noexcept nogil

# Returns an upper bound of the bytes of a batch of all rows in [begin, end). Only for columns with offsets and no `rows`.
cdef int64_t columns_bound(const RecordColumns *columns, int64_t begin, int64_t end) noexcept nogil

# Writes rows of [begin, end) as records into `out`, after space for the header, as many as fit `capacity` bytes with the
# header. span.rows is their number, 0 when even the first does not fit. `out` NULL: only measures.
cdef void columns_encode(
    const RecordColumns *columns, int64_t begin, int64_t end, uint8_t *out, int64_t capacity,
    RecordSpan *span) noexcept nogil

cdef struct BatchWriter:
    # A batch that grows record by record. The first BATCH_HEADER_BYTES of `out` are reserved for its header.
    Writer out
    int32_t count
    int64_t base_timestamp
    int64_t min_timestamp
    int64_t max_timestamp

cdef enum AppendResult:
    APPENDED = 0
    APPEND_FULL = 1               # the batch would exceed max_bytes; an empty batch accepts any record
    APPEND_TOO_LARGE = 2          # the record is too large for any batch
    APPEND_NO_MEMORY = 3

cdef void batch_writer_clear(BatchWriter *w) noexcept nogil
cdef void batch_writer_free(BatchWriter *w) noexcept nogil
# A length of -1 is null. `headers` are encoded as in a record, with their count first; NULL: none.
cdef AppendResult batch_writer_append(
    BatchWriter *w, const uint8_t *key, int64_t key_length, const uint8_t *value, int64_t value_length,
    int64_t timestamp, const uint8_t *headers, int64_t headers_bytes, int64_t max_bytes) noexcept nogil


# For functions that finish a batch: batch_fields() fills all of the header but size_bytes from the keyword arguments
# that BatchBuilder.build() documents; seal_compressed() compresses the records and puts a header before them.
cdef void batch_fields(
    BatchInfo *info, int32_t rows, int64_t base_timestamp, int64_t max_timestamp, dict fields) except *
cdef bytes seal_compressed(BatchInfo *info, const uint8_t *records, int64_t size, int codec, level)


cdef class BatchBuilder:
    """See encode.pyx."""
    cdef BatchWriter writer
    cdef Writer headers
    cdef readonly int64_t max_bytes
