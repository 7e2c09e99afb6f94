"""Recovery that begins at the recovery point: data below it is trusted after a few cheap checks.

Runs before the log is shared.
"""
from libc.stdint cimport int64_t
from bowstring._native.log.recovery cimport Recovered
from bowstring._native.log.types cimport Log, Segment

# Recovers the active segment. If the recovery point lies in it and the index and batch headers lead to the point, only
# batches above the point are scanned: index entries below are kept, missing ones are added, .txnindex and producer state
# are restored as of the point. In doubt the whole segment is scanned. Bad batches below the point are then kept (see
# segment_scan) if a batch begins or ends at the point, or if it has a snapshot. Otherwise they are truncated: the point
# belongs to another log, or to data that was lost. Returns 0 or a negated errno.
cdef int segment_recover(
    Log *log, Segment *segment, int64_t recovery_point, bint producers_stale, int64_t now_ms,
    Recovered *out) noexcept nogil
