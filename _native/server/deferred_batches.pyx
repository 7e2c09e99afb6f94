"""Defers batches to later passes, see deferred_batches.pxd."""
from libc.stdint cimport int16_t, int64_t, uint8_t
from libc.stdlib cimport malloc
from libc.string cimport memcpy
from bowstring._native.base.atomics cimport bump_i64, load_i32, store_i64
from bowstring._native.base.error_codes cimport NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION
from bowstring._native.replica.rules cimport produce_refused
from bowstring._native.server.connection cimport connection_find, connection_hold
from bowstring._native.server.connection_types cimport Connection
from bowstring._native.server.partition_types cimport Partition
from bowstring._native.server.slow_batches cimport slow_finished


cdef bint copied(ProducePart *part) noexcept nogil:
    """Copies the batch out of the receive buffer, which may move after this pass."""
    cdef int64_t n = part.entry.info.size_bytes
    if part.owned != NULL:
        return True                                      # a slow batch has its own memory already
    part.owned = <uint8_t *>malloc(n)
    if part.owned == NULL:
        return False
    memcpy(part.owned, part.entry.data, n)
    part.entry.data = part.owned
    part.uncounted = True
    return True


cdef bint deferred_take(Reactor *r, ProducePart *part) noexcept nogil:
    cdef int64_t n = part.entry.info.size_bytes
    cdef Connection *c
    if r.deferred_bytes + n > DEFERRED_MAX_BYTES or not copied(part):
        return False
    c = connection_find(r, part.request.connection_id)
    if c != NULL:
        connection_hold(c, part.request.slot, n)
        c.unappended += 1
        c.unappended_to = NULL                           # also a batch of the same partition must not overtake it
    part.next = NULL
    if r.deferred_head == NULL:
        r.deferred_head = part
    else:
        r.deferred_tail.next = part
    r.deferred_tail = part
    store_i64(&r.deferred_bytes, r.deferred_bytes + n)
    bump_i64(&r.deferred_batches, 1)
    return True


cdef int16_t deferred_next(Reactor *r, ProducePart **part) noexcept nogil:
    cdef ProducePart *first = r.deferred_head
    cdef Partition *p
    cdef int16_t error
    part[0] = first
    if first == NULL:
        return 0
    r.deferred_head = first.next
    if first.next == NULL:
        r.deferred_tail = NULL
    first.next = NULL
    store_i64(&r.deferred_bytes, r.deferred_bytes - first.entry.info.size_bytes)
    slow_finished(r, first)
    p = first.partition
    if load_i32(&p.deleted):
        return UNKNOWN_TOPIC_OR_PARTITION
    error = produce_refused(first.request.acks, p.is_leader, p.in_sync_replicas, p.min_insync_replicas)
    if error == NOT_LEADER_OR_FOLLOWER:
        store_i64(&p.refused_ms, r.now_ms)
    return error
