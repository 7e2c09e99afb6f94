"""Record batches read: into columns of positions and lengths without the GIL, or as Python values."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from bowstring._native.batch cimport BatchInfo

cdef struct RowArrays:
    # One entry a record; any may be NULL when it is not wanted. Positions count from an origin the caller names.
    int64_t *offsets
    int64_t *timestamps           # ms; all alike in a LogAppendTime batch
    int64_t *key_positions
    int32_t *key_lengths          # -1: null
    int64_t *value_positions
    int32_t *value_lengths        # -1: null
    int64_t *header_positions     # of the first header; its count precedes it
    int32_t *header_counts

# Decodes the info.record_count records in [at, end) into arrays[row...]. False when they are malformed, or
# not as many; entries may then be written or not. The caller has room for them: records are never more than
# (end - at) / RECORD_MIN_BYTES.
cdef bint decode_rows(
    const uint8_t *at, const uint8_t *end, const BatchInfo *info, const uint8_t *origin,
    const RowArrays *arrays, int64_t row) noexcept nogil

cdef enum:
    RECORD_MIN_BYTES = 7          # length, attributes, two deltas, two lengths, header count
