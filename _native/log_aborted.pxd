"""The .txnindex files: which transactions of a segment were aborted. With Log.lock held.

An entry: version int16 (0), producer id, first offset, last offset (the marker's), last stable offset, int64
each. A segment without aborted transactions has no such file.
"""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.log_producers cimport CompletedTransaction
from bowstring._native.log_types cimport LogState, Segment

cdef int aborted_append(LogState *state, Segment *segment, const CompletedTransaction *done) noexcept nogil
# See log_aborted_transactions in log.pxd.
cdef int32_t aborted_collect(
    const LogState *state, int64_t from_offset, int64_t to_offset, int64_t *pairs, int32_t capacity) noexcept nogil
# Entries whose last offset >= offset go.
cdef int aborted_truncate(LogState *state, Segment *segment, int64_t offset) noexcept nogil
# Whether the file makes sense (Kafka's sanityCheck); one that does not is rebuilt with its segment.
cdef bint aborted_sound(const LogState *state, const Segment *segment) noexcept nogil
