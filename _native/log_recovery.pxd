"""Reading a log's batches again: to verify them after a crash, to rebuild indexes, to replay producers.

All with Log.lock held, or before anyone else knows the log.
"""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.batch cimport BatchInfo
from bowstring._native.log_types cimport Log, Segment

cdef struct Recovered:
    int64_t end_offset              # what follows the last batch
    int64_t truncated_bytes         # cut off behind it
    bint broken_tail                # nothing good follows, yet the bytes are below the recovery point: they stay

# Verifies the active segment batch by batch (header, offsets, CRC) from `position` on, where `first_offset` is due,
# and enters what it finds: indexes, .txnindex, epochs and, from producers.end_offset on, the producer state. From 0 the
# indexes are made anew. A bad or torn batch ends the log and is cut off with what follows, unless it lies below
# `point`, the recovery point: then it stays, out of service, and is among the findings. 0 or a negated errno:
# EOPNOTSUPP for the message formats that Kafka 4 does not write any more.
cdef int segment_scan(
    Log *log, Segment *segment, int64_t position, int64_t first_offset, int64_t point, Recovered *out) noexcept nogil
# The batch's entries in the active segment's indexes, and its timestamps.
cdef int index_batch(Log *log, Segment *segment, const BatchInfo *info, int64_t position) noexcept nogil

# Brings the producer state from the newest usable snapshot at or below `offset`, and the batches above that,
# to `offset`. Snapshots that are damaged are removed.
cdef int producers_rebuild(Log *log, int64_t offset, int64_t now_ms) noexcept nogil

# Enters the epochs of all batches anew: leader-epoch-checkpoint was lost.
cdef int epochs_rebuild(Log *log) noexcept nogil

# Largest timestamp of the active segment from `position` on, entered into the segment.
cdef int timestamps_rescan(Log *log) noexcept nogil
