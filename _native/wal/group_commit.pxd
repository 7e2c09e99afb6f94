"""Stages batches into the write-ahead log, and commits them in groups."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from bowstring._native.wal.types cimport Wal, WalSegment

# Clears a flag and returns its old value: a waiter sets the flag and is woken once.
cdef extern from *:
    """
    static int32_t take_flag(int32_t *p) { return __atomic_exchange_n(p, 0, __ATOMIC_ACQ_REL); }
    """
    int32_t take_flag(int32_t *p) nogil

# Copies `n` parts (whole batches, the first at `offset`) into the frame being filled. Returns that frame's number, or -1
# when memory ran out. Called under Log.lock, so that a partition's batches are staged in offset order.
cdef int64_t wal_stage(Wal *wal, const uint8_t *topic_id, int32_t partition, int32_t moves, int32_t kind, int64_t offset,
                       const uint8_t **parts, const int64_t *sizes, int32_t n) noexcept nogil
# Stages one batch larger than wal_entry_max_bytes in pieces, one frame after the other. Returns the frame of the last
# piece, or -1 when memory ran out; replay ignores pieces without the last one.
cdef int64_t wal_stage_parts(Wal *wal, const uint8_t *topic_id, int32_t partition, int32_t moves, int64_t offset,
                             const uint8_t *batch, int64_t size_bytes) noexcept nogil
# Lets the thread write what is staged. Reactors with a ring call wal_begin instead.
cdef void wal_kick(Wal *wal) noexcept nogil
# Begins to write what is staged, on a reactor with its ring (segment_files.pxd: reactor_ring), and does not wait. Called
# once per pass, so that all batches of a pass share a frame. Does nothing while frames are on their way.
cdef void wal_begin(Wal *wal, void *ring) noexcept nogil
# Ends a group whose writes have ended; a reactor calls it until it returns False, and begins the next write in the same
# pass. With `wait`, waits as long as writes are on their way.
cdef bint wal_ended(void *ring, int32_t reactor, bint wait) noexcept nogil
# Returns whether more than staged_max_bytes are not durable yet. The device is then slower than the producers, which
# must wait.
cdef bint wal_full(const Wal *wal) noexcept nogil
# For a full disk: removes free segments except those needed to continue; returns their number. Waits for one small
# write.
cdef int32_t wal_spare(Wal *wal) noexcept nogil
# Returns the largest entry that a frame can hold, in bytes.
cdef int64_t wal_entry_max_bytes(const Wal *wal) noexcept nogil

# Runs one group commit. Returns 1 when something became durable, 2 when also a reactor was woken that leads the next
# commit, 0 when there is nothing to write now, or a negated errno. With `wait`, waits for a segment when none is free.
cdef int commit_once(Wal *wal, bint wait) noexcept nogil
cdef void *wal_run(void *argument) noexcept nogil        # the thread
# Frees the full segments that a checkpoint covers, but for those with a frame on its way: it must not meet the next frame in
# its place. Call it under the lock.
cdef void free_covered(Wal *wal) noexcept nogil
cdef void segment_push(WalSegment **head, WalSegment **tail, WalSegment *segment) noexcept nogil
cdef Wal *wal_new(const char *directory, int64_t segment_bytes, int64_t staged_max_bytes) noexcept nogil
cdef void wal_free(Wal *wal) noexcept nogil
