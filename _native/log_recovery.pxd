"""Reading a log's batches again: to verify them after a crash, to rebuild indexes, to replay producers.

All with Log.lock held, or before anyone else knows the log.
"""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.log_types cimport Log, Segment

# Verifies the active segment batch by batch (header, offsets, CRC), cuts it off at the first bad or torn one,
# and rebuilds its indexes, its .txnindex and, from producers.end_offset on, the producer state. *end_offset
# is what follows its last batch; *truncated_bytes what went. 0 or a negated errno: EOPNOTSUPP for the
# message formats that Kafka 4 does not write any more.
cdef int segment_recover(
    Log *log, Segment *segment, int64_t *end_offset, int64_t *truncated_bytes) noexcept nogil

# Brings the producer state from the newest usable snapshot at or below `offset`, and the batches above that,
# to `offset`. Snapshots that are damaged are removed.
cdef int producers_rebuild(Log *log, int64_t offset, int64_t now_ms) noexcept nogil

# Enters the epochs of all batches anew: leader-epoch-checkpoint was lost.
cdef int epochs_rebuild(Log *log) noexcept nogil

# Largest timestamp of the active segment from `position` on, entered into the segment.
cdef int timestamps_rescan(Log *log) noexcept nogil
