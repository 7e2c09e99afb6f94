"""Record batches into Arrow's buffers: the loop over records, and what it fills.

Layouts are Arrow's columnar format: binary (offsets of 32 bits and one data buffer) and binary_view (16 bytes a
value: up to 12 bytes inside, longer ones by prefix, buffer and offset).
https://arrow.apache.org/docs/format/Columnar.html
"""
from libc.stdint cimport int32_t, int64_t, int8_t, uint8_t
from bowstring._native.arrow_decode_memory cimport Growing
from bowstring._native.batch cimport BatchInfo

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
    # How far into a batch the loop came.
    TAKEN_ALL
    TAKEN_FULL                    # rows or bytes are at their limit
    TAKEN_TO_END                  # an offset at or above end_offset was met
    TAKEN_MALFORMED
    TAKEN_NO_MEMORY

cdef struct BinaryColumn:
    Growing entries               # int32 offsets, one more than rows; or views
    Growing data                  # of offsets only
    Growing valid                 # a bit a row, all set where no null was
    int64_t data_bytes
    int64_t nulls

cdef struct HeaderColumn:
    Growing ends                  # int32, one more than rows: headers up to each row's end
    BinaryColumn keys
    BinaryColumn values
    int64_t count
    bint ascii                    # every key: others must be looked at, Arrow's strings are valid UTF-8

cdef struct Rows:
    # What is wanted, and the columns so far. Everything is sized for `rows`; what is not wanted stays empty.
    int32_t wanted                # ColumnBits
    bint views                    # keys and values are views
    bint microseconds             # timestamps are, else milliseconds
    int64_t rows_max
    int64_t bytes_max             # of whole records; below 2 GiB, so that offsets of 32 bits suffice
    int64_t rows
    int64_t bytes
    int64_t from_offset
    int64_t end_offset
    int64_t next_offset           # of the first record that was not taken
    bint source_used              # some view points into the source at hand
    Growing topics                # int32 index into the caller's dictionary
    Growing partitions            # int32
    Growing offsets               # int64
    Growing timestamps            # int64
    Growing timestamp_types       # int8
    BinaryColumn keys
    BinaryColumn values
    HeaderColumn headers

# Appends the records of one batch, which are [at, end), to the rows. Views count from `origin` in the buffer of
# index `source`. A batch whose records do not fit their bytes, or whose offsets do not ascend, is malformed: none
# of its records stay.
cdef Taken rows_take(
    Rows *c, const uint8_t *at, const uint8_t *end, const BatchInfo *info, const uint8_t *origin,
    int32_t source) noexcept nogil

# Room for `more` further rows that hold at most `data_bytes`. False when there is no memory.
cdef bint rows_room(Rows *c, int64_t more, int64_t data_bytes) noexcept nogil
cdef bint binary_room(BinaryColumn *c, bint views, int64_t rows, int64_t more, int64_t data_bytes) noexcept nogil
cdef bint offsets_room(Growing *offsets, int64_t rows, int64_t more) noexcept nogil

cdef void rows_discard(Rows *c) noexcept nogil
cdef void binary_discard(BinaryColumn *c) noexcept nogil
