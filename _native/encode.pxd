"""Record batches written: from columns without the GIL, or record by record into a growing buffer."""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from bowstring._native.batch cimport BatchInfo
from bowstring._native.wire cimport Writer

cdef struct BinaryColumn:
    # Byte strings in Arrow's layout: row i is data[offsets[i]:offsets[i + 1]]. Borrowed, never freed here.
    const uint8_t *data           # may be NULL when every row is empty or null
    const void *offsets           # rows + 1 int32, or int64 when `wide`; NULL: every row is null
    const uint8_t *validity       # bitmap, least significant bit first; NULL: no row is null
    int64_t validity_offset       # bit of row 0
    int8_t wide

cdef struct RecordColumns:
    BinaryColumn key
    BinaryColumn value
    BinaryColumn headers          # per row its header count and headers as they are on the wire; null: none
    const int64_t *timestamps     # ms; NULL: every row has `timestamp`
    int64_t timestamp

cdef struct RecordSpan:
    # Rows that make up one batch, and what its header needs to know of them.
    int64_t begin
    int32_t rows
    int32_t size_bytes            # of the batch, its header included
    int64_t base_timestamp
    int64_t max_timestamp

# Bytes of a batch that holds nothing but this row.
cdef int64_t columns_row_bytes(const RecordColumns *columns, int64_t row) noexcept nogil

# Bytes that a batch of all rows in [begin, end) never passes.
cdef int64_t columns_bound(const RecordColumns *columns, int64_t begin, int64_t end) noexcept nogil

# Writes rows from `begin`, before `end`, as records behind a header's room at `out`, as many as `capacity` bytes
# take, header included; span says how many those are, 0 when not even the first fits. `out` NULL only measures.
cdef void columns_encode(
    const RecordColumns *columns, int64_t begin, int64_t end, uint8_t *out, int64_t capacity,
    RecordSpan *span) noexcept nogil

cdef struct BatchWriter:
    # A batch growing record by record; the first BATCH_HEADER_BYTES of `out` are kept for its header.
    Writer out
    int32_t count
    int64_t base_timestamp
    int64_t max_timestamp

cdef enum AppendResult:
    APPENDED = 0
    APPEND_FULL = 1               # would pass max_bytes; never said of an empty batch
    APPEND_TOO_LARGE = 2          # no batch can hold it
    APPEND_NO_MEMORY = 3

cdef void batch_writer_clear(BatchWriter *w) noexcept nogil
cdef void batch_writer_free(BatchWriter *w) noexcept nogil
# A length of -1 is null; `headers` are encoded as they are on the wire, count included, or NULL for none.
cdef AppendResult batch_writer_append(
    BatchWriter *w, const uint8_t *key, int64_t key_length, const uint8_t *value, int64_t value_length,
    int64_t timestamp, const uint8_t *headers, int64_t headers_bytes, int64_t max_bytes) noexcept nogil


# For whoever ends a batch: everything of its header but size_bytes, from the keyword arguments that
# BatchBuilder.build() documents; and a batch around records compressed by `codec`.
cdef void batch_fields(
    BatchInfo *info, int32_t rows, int64_t base_timestamp, int64_t max_timestamp, dict fields) except *
cdef bytes seal_compressed(BatchInfo *info, const uint8_t *records, int64_t size, int codec, level)


cdef class BatchBuilder:
    """See encode.pyx."""
    cdef BatchWriter writer
    cdef Writer headers
    cdef readonly int64_t max_bytes
