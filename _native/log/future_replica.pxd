"""Copies a log, batch by batch, into another one that then replaces it (KIP-113)."""
from libc.stdint cimport int64_t, uint8_t
from bowstring._native.log.types cimport Log, ReadCursor
from bowstring._native.wal.types cimport Wal

cdef struct Copier:
    Log *source
    Log *target
    ReadCursor cursor
    uint8_t *buffer
    int64_t capacity

cdef enum:
    COPY_LOST = -10000              # not an errno: the source no longer has the batch that the target needs next

# Copies up to max_bytes of complete batches (at least one), starting at the target's end. Returns the bytes copied, 0 when
# the target is complete, COPY_LOST, or a negated errno.
cdef int64_t future_copy_some(Copier *copier, int64_t max_bytes) noexcept nogil
# Repeats future_copy_some until nothing is left or max_bytes are copied. Returns 0 when the target is complete.
cdef int64_t future_copy_rest(Copier *copier, int64_t max_bytes) noexcept nogil
# Returns 1 when everything in the source is as durable as its mode promises, 0 when it is not yet, or a negated errno when
# it never will be. In commit mode waits briefly for the write-ahead log to write staged batches, and moves the durable end;
# without replicas (`alone`) the high watermark, too. The caller prevents appends.
cdef int source_durable(Log *source, bint alone) noexcept nogil
# Whether the source was truncated below the end of the target since the last copying, which then adapts the target.
cdef bint future_diverged(const Copier *copier) noexcept nogil
# Commit mode: stages batches that are copied from now on in `wal`, too. False unless all earlier batches are synced.
cdef bint future_join_wal(Log *source, Log *target, Wal *wal) noexcept nogil
# Undoes future_join_wal when the copy does not replace the log after all: a replay skips what was staged.
cdef void future_leave_wal(Log *target) noexcept nogil
# Copies the full state of the source to the target; the source then refuses appends. Returns 0 or a negated errno. The
# caller has copied all batches and prevents appends to both.
cdef int future_take_over(Log *source, Log *target) noexcept nogil

cdef class FutureReplica:
    """A copy in progress: owns the buffer and references both logs. See future_replica.pyx."""
    cdef Copier copier
    cdef readonly object source
    cdef readonly object target
