"""Decodes records into columns of positions and lengths, without the GIL, and finds the batches of aborted transactions."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from bowstring._native.record.batch cimport BatchInfo

cdef struct RowArrays:
    # One entry for each record. NULL: the column is not needed. Positions count from an origin that the caller gives.
    int64_t *offsets
    int64_t *timestamps           # ms; all equal in a LogAppendTime batch
    int64_t *key_positions
    int32_t *key_lengths          # -1: null
    int64_t *value_positions
    int32_t *value_lengths        # -1: null
    int64_t *header_positions     # of the first header; its count precedes it
    int32_t *header_counts

# Decodes the info.record_count records in [at, end) into arrays[row...]. False when they are malformed or their number
# differs; some entries may then be written. The caller allocates the arrays: there are at most
# (end - at) / RECORD_MIN_BYTES records.
cdef bint decode_rows(
    const uint8_t *at, const uint8_t *end, const BatchInfo *info, const uint8_t *origin,
    const RowArrays *arrays, int64_t row) noexcept nogil

cdef enum:
    RECORD_MIN_BYTES = 7          # length, attributes, two deltas, two lengths, header count


cdef class Aborted:
    cdef list coming              # (first offset, producer id), newest first
    cdef set open

    # Returns whether the records of a batch must be skipped; `at` is its header. Call it for every batch in offset order. A
    # second call for the same batch gives the same answer.
    cdef bint holds(self, const uint8_t *at, const BatchInfo *info)
