"""Assigns ids that are not reused soon: the low 24 bits are the slot, the bits above are the slot's generation.

Other threads and timers refer to connections and requests by id. Looking up the id of a removed object returns NULL. One
thread owns a table.
"""
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport realloc
from bowstring._native.server.reactor_types cimport IdTable

cdef enum:
    ID_SLOT_BITS = 24


cdef inline int64_t id_add(IdTable *t, void *item) noexcept nogil:
    """Returns a new id for `item`; -1 when memory ran out or 16 million are in use."""
    cdef int32_t slot, capacity
    cdef void **items
    cdef int32_t *generations
    cdef int32_t *unused
    if t.free_count > 0:
        t.free_count -= 1
        slot = t.free[t.free_count]
    else:
        if t.used == t.capacity:
            capacity = t.capacity * 2 if t.capacity > 0 else 64
            if capacity > 1 << ID_SLOT_BITS:
                return -1
            items = <void **>realloc(t.items, capacity * sizeof(void *))
            if items == NULL:
                return -1
            t.items = items
            generations = <int32_t *>realloc(t.generations, capacity * sizeof(int32_t))
            if generations == NULL:
                return -1
            t.generations = generations
            unused = <int32_t *>realloc(t.free, capacity * sizeof(int32_t))
            if unused == NULL:
                return -1
            t.free = unused
            t.capacity = capacity
        slot = t.used
        t.used += 1
        t.generations[slot] = 1
    t.items[slot] = item
    return (<int64_t>t.generations[slot] << ID_SLOT_BITS) | slot


cdef inline void *id_find(const IdTable *t, int64_t id) noexcept nogil:
    cdef int64_t slot = id & ((1 << ID_SLOT_BITS) - 1)
    if id < 0 or slot >= t.used or t.generations[slot] != <int32_t>(id >> ID_SLOT_BITS):
        return NULL
    return t.items[slot]


cdef inline void id_remove(IdTable *t, int64_t id) noexcept nogil:
    cdef int64_t slot = id & ((1 << ID_SLOT_BITS) - 1)
    if id_find(t, id) == NULL:
        return
    t.items[slot] = NULL
    t.generations[slot] = (t.generations[slot] + 1) & 0x7FFFFF  # the reactor's index goes above
    if t.generations[slot] == 0:
        t.generations[slot] = 1
    t.free[t.free_count] = <int32_t>slot
    t.free_count += 1
