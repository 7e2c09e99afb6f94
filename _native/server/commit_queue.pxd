"""Queues the work that a reactor does once the write-ahead log has an append on the medium."""
from libc.stdint cimport int64_t
from bowstring._native.server.commit_types cimport CommitItem, CommitQueue
from bowstring._native.server.partition_types cimport Partition
from bowstring._native.server.produce_types cimport ProducePart
from bowstring._native.server.reactor_types cimport Reactor
from bowstring._native.wal.types cimport Wal

# Returns the reactor's queue for a write-ahead log, and creates it if needed; NULL when memory ran out.
cdef CommitQueue *commit_queue(Reactor *r, Wal *wal) noexcept nogil
# Adds an item, in ascending order of frames. The caller holds a partition reference for it. False when memory ran out.
cdef bint commit_push(CommitQueue *queue, int64_t frame, Partition *p, int64_t end_offset, int64_t bytes,
                      ProducePart *part) noexcept nogil
# Removes the oldest item if its frame is on the medium, or (*failed) never will be. False: there is no such item, and the
# reactor is woken when there may be one.
cdef bint commit_pop(Reactor *r, CommitQueue *queue, CommitItem *item, bint *failed) noexcept nogil
# Begins to write everything that was staged in this pass, and what others have staged meanwhile. Every pass calls it: a
# reactor that was woken to lead may have no batch of its own there any more.
cdef void commits_begin(Reactor *r) noexcept nogil
# Collects the writes that have ended, for a reactor with a ring. Called after the mailbox's event was taken, which also
# signals them.
cdef void commits_collect(Reactor *r) noexcept nogil
# Waits for the reactor's writes, and leaves the rest to the write-ahead logs' threads. On the reactor's thread, at its end.
cdef void commits_stop(Reactor *r) noexcept nogil
# Returns whether a write-ahead log that this reactor appends to is too full for more.
cdef bint commits_full(const Reactor *r) noexcept nogil
# Requests that the reactor is woken once `wal` has room. False: it has room now.
cdef bint commit_await_room(Reactor *r, Wal *wal) noexcept nogil
cdef bint commits_waiting(const Reactor *r) noexcept nogil


cdef inline bint commit_pending(const CommitQueue *queue, int64_t frame) noexcept nogil:
    """Whether the queue still has work to do for a frame."""
    return queue.count > 0 and queue.items[queue.head].frame <= frame

cdef void commits_free(Reactor *r) noexcept nogil
