"""Appends on their way to the medium: what a reactor does when the write-ahead log is past their frame."""
from libc.stdint cimport int64_t
from bowstring._native.plane cimport CommitItem, CommitQueue, Partition, ProducePart, Reactor
from bowstring._native.wal_types cimport Wal

# The reactor's queue for a write-ahead log, made when there is none; NULL when memory ran out.
cdef CommitQueue *commit_queue(Reactor *r, Wal *wal) noexcept nogil
# Adds an item; frames come in ascending order. Holds the partition. False when memory ran out.
cdef bint commit_push(CommitQueue *queue, int64_t frame, Partition *p, int64_t end_offset, int64_t bytes,
                      ProducePart *part) noexcept nogil
# Takes the oldest item whose frame is on the medium (or never will be: *failed). False when there is none; then the
# reactor is woken when there may be one.
cdef bint commit_pop(Reactor *r, CommitQueue *queue, CommitItem *item, bint *failed) noexcept nogil
# Everything the pass has staged may go.
cdef void commit_kick(Reactor *r) noexcept nogil
cdef bint commits_waiting(const Reactor *r) noexcept nogil
cdef void commits_free(Reactor *r) noexcept nogil
