"""Decodes the records of a batch into Arrow's buffers.

Layouts are Arrow's columnar format: binary (offsets of 32 bits and one data buffer) and binary_view (16 bytes a
value: up to 12 bytes inside, longer ones by prefix, buffer and offset).
https://arrow.apache.org/docs/format/Columnar.html
"""
from libc.stdint cimport int32_t, int64_t, int8_t, uint8_t
from bowstring._native.arrow.buffer_pool cimport Growing
from bowstring._native.record.batch cimport BatchInfo

cdef enum:
    VIEW_BYTES = 16
    VIEW_INLINE_MAX_BYTES = 12

cdef enum ColumnBit:
    COLUMN_TOPIC = 1
    COLUMN_PARTITION = 2
    COLUMN_OFFSET = 4
    COLUMN_TIMESTAMP = 8
    COLUMN_TIMESTAMP_TYPE = 16
    COLUMN_KEY = 32
    COLUMN_VALUE = 64
    COLUMN_HEADERS = 128

cdef enum Taken:
    # Why the loop over a batch's records ended.
    TAKEN_ALL
    TAKEN_FULL                    # rows or bytes are at their limit
    TAKEN_TO_END                  # an offset at or above end_offset was reached
    TAKEN_MALFORMED
    TAKEN_NO_MEMORY

cdef struct BinaryColumn:
    Growing entries               # int32 offsets, one more than rows; or views
    Growing data                  # of offsets only
    Growing valid                 # one bit for each row; empty while there is no null
    int64_t data_bytes
    int64_t nulls

cdef struct HeaderColumn:
    Growing ends                  # int32, one more than rows: headers up to each row's end
    BinaryColumn keys
    BinaryColumn values
    int64_t count
    bint ascii                    # all keys are ASCII; other keys must be checked, because Arrow's strings are valid UTF-8

cdef struct Rows:
    # The wanted columns and their content so far, `rows` long. Other columns stay empty.
    int32_t wanted                # ColumnBits
    bint views                    # keys and values are views
    bint microseconds             # timestamps are in microseconds, else in milliseconds
    int64_t rows_max
    int64_t bytes_max             # of complete records; below 2 GiB, so that offsets of 32 bits suffice
    int64_t rows
    int64_t bytes
    int64_t from_offset
    int64_t end_offset
    int64_t next_offset           # of the first record that was not appended
    bint source_used              # a view points into the current source
    int64_t window_ms             # rows are counted by windows of their timestamps; 0: they are not
    int64_t low                   # smallest and largest timestamp of the last batch's rows, if rows are counted
    int64_t high
    int64_t run_count
    Growing runs                  # TimeRun
    Growing topics                # int32 index into the caller's dictionary
    Growing partitions            # int32
    Growing offsets               # int64
    Growing timestamps            # int64
    Growing timestamp_types       # int8
    BinaryColumn keys
    BinaryColumn values
    HeaderColumn headers

# Appends the records of one batch, [at, end), to the rows. Offsets in views count from `origin`, in the buffer of index
# `source`. A batch whose records do not fit its bytes, or whose offsets do not ascend, is malformed and leaves no row.
cdef Taken rows_take(
    Rows *c, const uint8_t *at, const uint8_t *end, const BatchInfo *info, const uint8_t *origin,
    int32_t source) noexcept nogil

# Makes room for `more` rows with at most `data_bytes`. False when memory ran out.
cdef bint rows_room(Rows *c, int64_t more, int64_t data_bytes) noexcept nogil
cdef bint binary_room(BinaryColumn *c, bint views, int64_t rows, int64_t more, int64_t data_bytes) noexcept nogil
cdef bint offsets_room(Growing *offsets, int64_t rows, int64_t more) noexcept nogil

cdef void rows_discard(Rows *c) noexcept nogil
cdef void binary_discard(BinaryColumn *c) noexcept nogil
