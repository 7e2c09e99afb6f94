"""A binary heap of timers. Timers are never cancelled: the id of a finished request finds nothing when its timer is due.

Before a full heap grows, such timers are removed if they are more than half of it.
"""
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport realloc
from bowstring._native.base.atomics cimport store_i32
from bowstring._native.server.id_table cimport id_find
from bowstring._native.server.reactor_types cimport IdTable, Reactor, Timer, TimerHeap


cdef inline bint timer_add(TimerHeap *h, int64_t due_ms, int64_t id) noexcept nogil:
    cdef int32_t i, parent, capacity
    cdef Timer *items
    if h.count == h.capacity:
        capacity = h.capacity * 2 if h.capacity > 0 else 64
        items = <Timer *>realloc(h.items, capacity * sizeof(Timer))
        if items == NULL:
            return False
        h.items = items
        h.capacity = capacity
    i = h.count
    store_i32(&h.count, i + 1)                           # counters() reads it without a lock
    while i > 0:
        parent = (i - 1) // 2
        if h.items[parent].due_ms <= due_ms:
            break
        h.items[i] = h.items[parent]
        i = parent
    h.items[i].due_ms = due_ms
    h.items[i].id = id
    return True


cdef inline Timer timer_pop(TimerHeap *h) noexcept nogil:
    """Removes and returns the earliest timer; the heap must not be empty."""
    cdef Timer top = h.items[0]
    cdef Timer last
    cdef int32_t i = 0, child
    store_i32(&h.count, h.count - 1)
    last = h.items[h.count]
    while True:
        child = 2 * i + 1
        if child >= h.count:
            break
        if child + 1 < h.count and h.items[child + 1].due_ms < h.items[child].due_ms:
            child += 1
        if h.items[child].due_ms >= last.due_ms:
            break
        h.items[i] = h.items[child]
        i = child
    if h.count > 0:
        h.items[i] = last
    return top


cdef inline int32_t ids_in_use(const IdTable *t) noexcept nogil:
    return t.used - t.free_count


cdef inline void timers_sweep(Reactor *r) noexcept nogil:
    """Removes the timers of finished requests from a full heap, if they are more than half of it. Needed because requests
    may allow a wait of days and be answered at once."""
    cdef TimerHeap *h = &r.timers
    cdef int32_t i, n = h.count
    cdef Timer timer
    if n < h.capacity or 2 * (ids_in_use(&r.fetches) + ids_in_use(&r.produces)) > n:
        return
    store_i32(&h.count, 0)
    for i in range(n):                                   # timers move to or before their old position
        timer = h.items[i]
        if id_find(&r.fetches, timer.id) != NULL if timer.id > 0 else id_find(&r.produces, -timer.id) != NULL:
            timer_add(h, timer.due_ms, timer.id)
