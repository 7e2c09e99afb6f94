"""Restores batches from the write-ahead log in a log whose files lack them."""
from libc.stdint cimport int64_t, uint8_t
from bowstring._native.log.types cimport Log

cdef struct Replayed:
    # The result for one log; the second part says where the last batch that the log already had lies in its file.
    bint rewritten                  # the log's unsynced data was written again
    int64_t batches                 # restored
    int64_t bytes
    int64_t skipped_batches         # already in the log
    int64_t gap_from                # offsets [gap_from, gap_to) are missing; -1: none
    int64_t gap_to
    int64_t cut_from                # from this offset on the log had other data, which was truncated; -1: none
    int64_t next_offset             # -1: not known
    int64_t next_position
    int64_t next_segment
    int64_t truncations

cdef void replayed_init(Replayed *done) noexcept nogil
# The log was truncated to `offset` after what was replayed so far: what was missing or different above it never mattered.
cdef void replayed_truncate(Replayed *done, int64_t offset) noexcept nogil

# Restores complete batches that have offsets, in order. Returns 0 or a negated errno. Nothing else may append meanwhile.
cdef int log_replay(Log *log, uint8_t *data, int64_t size_bytes, int64_t now_ms, Replayed *done) noexcept nogil
