"""Appending to a log; see log.pxd for log_append, which this is."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from bowstring._native.log_types cimport AppendEntry, Log

cdef enum:
    # In place of a leader epoch: the batches come from another copy of this log, and keep their offsets and epochs.
    # They were checked when they were first written; they must lie at or above the log end, in order.
    AS_WRITTEN = -2

cdef void append_entries(
    Log *log, AppendEntry **entries, int32_t n, int32_t leader_epoch, int64_t now_ms) noexcept nogil

cdef struct Replayed:
    # What became of batches that came back from the write-ahead log.
    int64_t batches
    int64_t bytes
    int64_t skipped_batches         # they were there
    int64_t gap_from                # offsets [gap_from, gap_to) are nowhere; -1: nothing is missing
    int64_t gap_to

# Puts back whole batches that have their offsets already. Nothing else appends meanwhile.
cdef int append_replayed(Log *log, uint8_t *data, int64_t size_bytes, int64_t now_ms, Replayed *done) noexcept nogil
