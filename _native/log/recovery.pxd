"""Reads a log's batches again: to verify them after a crash, to rebuild indexes, to restore producers.

Call all functions under Log.lock, or before the log is shared.
"""
from libc.stdint cimport int64_t
from bowstring._native.log.types cimport Log, Segment
from bowstring._native.record.batch cimport BatchInfo

cdef struct Recovered:
    int64_t end_offset              # the offset after the last batch
    int64_t truncated_bytes         # truncated after it
    bint broken_tail                # the segment ends in damage below the recovery point, which is kept

# Verifies the active segment batch by batch (header, offsets, CRC) from `position` on, where `first_offset` is expected.
# Fills indexes, .txnindex, epochs and, from producers.end_offset on, the producer state. From position 0 it rebuilds the
# indexes. A bad or torn batch ends the log: it is truncated with everything after it. If it lies below `point`, the
# recovery point, it is kept instead, is never served, and becomes a finding. Returns 0 or a negated errno; EOPNOTSUPP:
# message formats 0 and 1, which Kafka 4 no longer writes.
cdef int segment_scan(
    Log *log, Segment *segment, int64_t position, int64_t first_offset, int64_t point, Recovered *out) noexcept nogil
# Adds a batch to the active segment's indexes and timestamps.
cdef int index_batch(Log *log, Segment *segment, const BatchInfo *info, int64_t position) noexcept nogil

# Restores the producer state as of `offset`: from the newest usable snapshot at or below it, and the batches above that.
# Removes damaged snapshots.
cdef int producers_rebuild(Log *log, int64_t offset, int64_t now_ms) noexcept nogil

# Rebuilds the leader epochs from all batches, when leader-epoch-checkpoint was lost.
cdef int epochs_rebuild(Log *log) noexcept nogil

# Sets the active segment's largest timestamp from its time index and batches.
cdef int timestamps_rescan(Log *log) noexcept nogil
