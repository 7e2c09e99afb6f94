"""Copying a log, batch by batch, into another one that then takes its place (KIP-113)."""
from libc.stdint cimport int64_t, uint8_t
from bowstring._native.log_types cimport Log, ReadCursor
from bowstring._native.wal_types cimport Wal

cdef struct Copier:
    Log *source
    Log *target
    ReadCursor cursor
    uint8_t *buffer
    int64_t capacity

cdef enum:
    COPY_LOST = -10000              # not an errno: the source no longer has what the target needs next

# Copies up to max_bytes of whole batches (one at least) from where the target ends: bytes, 0 when it has all, COPY_LOST,
# or a negated errno.
cdef int64_t copy_some(Copier *copier, int64_t max_bytes) noexcept nogil
# The same until nothing is left, or max_bytes were copied: 0 when the target has all.
cdef int64_t copy_rest(Copier *copier, int64_t max_bytes) noexcept nogil
# Whether everything in the source is committed: in commit mode waits a moment for its write-ahead log to write what is
# staged. The caller keeps appends away.
cdef bint settle(Log *source) noexcept nogil
# The target becomes what the source is, to the last field, and the source takes no appends any more; 0 or a negated
# errno. The caller has copied everything and keeps appends away from both. In commit mode the target is joined to
# `wal`, having been synced first.
cdef int take_over(Log *source, Log *target, Wal *wal) noexcept nogil

cdef class LogCopy:
    """A copy under way; owns the buffer, keeps both logs. See log_copy.pyx."""
    cdef Copier copier
    cdef readonly object source
    cdef readonly object target
