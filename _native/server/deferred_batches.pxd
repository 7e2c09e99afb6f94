"""Defers batches to later passes, so that one large Produce does not keep the other connections of its reactor waiting.

The first append to a log creates or opens its files, which takes 30 to 200 µs; thousands of them in one pass are half a
second. A pass therefore admits batches up to PASS_COST_MAX. Those beyond it are copied out of the receive buffer, and wait in
Reactor.deferred_head in their order. After each pass the reactor appends some of them, for SLICE_NS, before it looks at its
sockets again.

- A deferred batch holds its partition (refs) and its request (enlisted in Reactor.produces), and no connection: a client
  that leaves does not take its batches back, as in Kafka.
- Between passes the table lock is free, so deferred_next() checks again what admit() has checked.
- The connection's next requests wait until the batches are in their logs (Connection.unappended), as behind slow batches.
- Deferred bytes are counted, for the reactor and as held by the connection. A batch without room is appended in its pass.
"""
from libc.stdint cimport int16_t, int32_t
from bowstring._native.base.atomics cimport load_i64
from bowstring._native.server.produce_types cimport ProducePart
from bowstring._native.server.reactor_types cimport Reactor

cdef enum:
    PASS_COST_MAX = 4096            # of what one pass admits; a batch costs 1
    FRESH_COST = 128                # one whose log has had no append yet
    LARGE_PARTS = 1024              # batches of smaller requests cost nothing, unless their log is fresh
    SLICE_NS = 2000000
    DEFERRED_MAX_BYTES = 32 << 20   # for each reactor



cdef inline bint deferred_wanted(Reactor *r, const ProducePart *part) noexcept nogil:
    """Counts a batch for this pass. Returns whether the pass has admitted enough before it."""
    cdef int32_t cost = 0
    if load_i64(&part.partition.log.appended_batches) == 0:
        cost = FRESH_COST
    elif part.request.part_count > LARGE_PARTS:
        cost = 1
    if r.pass_cost + cost > PASS_COST_MAX:
        return cost > 0
    r.pass_cost += cost
    return False

# Defers a batch of an enlisted request. False: there is no room, and the caller appends it in this pass.
cdef bint deferred_take(Reactor *r, ProducePart *part) noexcept nogil
# Takes the next batch, and returns the error that it gets now, 0 if it is to be appended. *part is NULL if none waits.
cdef int16_t deferred_next(Reactor *r, ProducePart **part) noexcept nogil
