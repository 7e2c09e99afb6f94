"""Recovery that begins at the recovery point: what is below it is believed after a few cheap looks.

Before anyone else knows the log.
"""
from libc.stdint cimport int64_t
from bowstring._native.log_recovery cimport Recovered
from bowstring._native.log_types cimport Log, Segment

# Recovers the active segment. When the recovery point lies in it, only what is above is scanned, provided that the
# point is found by the index and the batch headers before it: index entries below it are kept, those that are missing
# are entered again, .txnindex and producer state are as they were there. In any doubt the whole segment is scanned; bad
# batches below the point stay (see segment_scan) if some batch begins or ends there, or a snapshot was left there, and
# are cut off otherwise: the point then is another log's, or what this one has lost. 0 or a negated errno.
cdef int segment_recover(
    Log *log, Segment *segment, int64_t recovery_point, bint producers_stale, int64_t now_ms,
    Recovered *out) noexcept nogil
