"""Staging batches into the write-ahead log, and committing them in groups."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from bowstring._native.wal_types cimport Wal, WalSegment

# Copies `n` parts (whole batches, the first at `offset`) into the frame being filled; the frame they are in,
# or -1 when memory ran out. Under Log.lock, so that a partition's batches are staged in offset order.
cdef int64_t wal_stage(Wal *wal, const uint8_t *topic_id, int32_t partition, int32_t kind, int64_t offset,
                       const uint8_t **parts, const int64_t *sizes, int32_t n) noexcept nogil
# What was staged may go: called once per pass, so that all of a pass shares a frame.
cdef void wal_kick(Wal *wal) noexcept nogil
# Waits while more than staged_max_bytes are on their way: the device is slower than the producers.
cdef void wal_admit(Wal *wal) noexcept nogil
# The largest entry a frame can hold; larger ones are synced in their partition file.
cdef int64_t wal_entry_max_bytes(const Wal *wal) noexcept nogil

# One group commit: 1 when something became durable, 0 when there was nothing, or a negated errno. `wait`: for a
# segment to write to, where there is none.
cdef int commit_once(Wal *wal, bint wait) noexcept nogil
cdef void *wal_run(void *argument) noexcept nogil        # the thread
cdef void segment_push(WalSegment **head, WalSegment **tail, WalSegment *segment) noexcept nogil
cdef Wal *wal_new(const char *directory, int64_t segment_bytes, int64_t staged_max_bytes) noexcept nogil
cdef void wal_free(Wal *wal) noexcept nogil
