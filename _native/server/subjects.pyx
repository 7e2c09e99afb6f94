"""Interns subjects, see subjects.pxd."""
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset, strlen, strrchr
from bowstring._native.base.atomics cimport add_i32, load_i32, store_i32
from bowstring._native.base.pthread cimport (
    pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock)
from bowstring._native.server.connection_limits cimport PEER_BYTES
from bowstring._native.server.subject_types cimport NO_SUBJECT, SUBJECT_BLOCKS

cdef enum:
    BUCKETS_MIN = 64


cdef bint subjects_init(SubjectTable *table) noexcept nogil:
    memset(table, 0, sizeof(SubjectTable))
    table.free_head = NO_SUBJECT
    pthread_mutex_init(&table.lock, NULL)
    return grow_buckets(table, BUCKETS_MIN)


cdef void subjects_free(SubjectTable *table) noexcept nogil:
    cdef int32_t i
    for i in range(table.used):
        free(subject_at(table, i).principal)
    for i in range(SUBJECT_BLOCKS):
        free(table.blocks[i])
    free(table.buckets)
    pthread_mutex_destroy(&table.lock)


cdef bint grow_buckets(SubjectTable *table, uint32_t count) noexcept nogil:
    cdef int32_t *buckets = <int32_t *>malloc(count * sizeof(int32_t))
    cdef int32_t i
    cdef Subject *each
    if buckets == NULL:
        return False
    memset(buckets, 0xFF, count * sizeof(int32_t))       # NO_SUBJECT
    for i in range(table.used):
        each = subject_at(table, i)
        if each.principal != NULL:
            each.next = buckets[each.hash & (count - 1)]
            buckets[each.hash & (count - 1)] = i
    free(table.buckets)
    table.buckets = buckets
    table.mask = count - 1
    return True


cdef uint32_t hash_of(const char *principal, int32_t length, const char *host, int32_t host_length) noexcept nogil:
    """FNV-1a with a final mix."""
    cdef uint32_t h = 2166136261u
    cdef int32_t i
    for i in range(length):
        h = (h ^ <uint8_t>principal[i]) * 16777619u
    for i in range(host_length):
        h = (h ^ <uint8_t>host[i]) * 16777619u
    return h ^ (h >> 15)


cdef int32_t find(const SubjectTable *table, uint32_t h, const char *principal, int32_t length,
                  const char *host, int32_t host_length) noexcept nogil:
    cdef int32_t i = table.buckets[h & table.mask]
    cdef const Subject *each
    while i != NO_SUBJECT:
        each = subject_at(table, i)
        if (each.hash == h and each.principal_length == length and memcmp(each.principal, principal, length) == 0
                and memcmp(each.host, host, host_length) == 0 and each.host[host_length] == 0):
            return i
        i = each.next
    return NO_SUBJECT


cdef int32_t unused(SubjectTable *table) noexcept nogil:
    """Returns the index of a free entry; NO_SUBJECT when there is none."""
    cdef int32_t i = table.free_head, block
    if i != NO_SUBJECT:
        table.free_head = subject_at(table, i).next
        return i
    block = table.used // SUBJECT_BLOCK
    if block == SUBJECT_BLOCKS:
        return NO_SUBJECT
    if table.blocks[block] == NULL:
        table.blocks[block] = <Subject *>calloc(SUBJECT_BLOCK, sizeof(Subject))
        if table.blocks[block] == NULL:
            return NO_SUBJECT
    i = table.used
    table.used += 1
    return i


cdef int32_t add(SubjectTable *table, uint32_t h, const char *principal, int32_t length,
                 const char *host, int32_t host_length) noexcept nogil:
    cdef char *copy
    cdef Subject *entry
    cdef int32_t i
    if <uint32_t>table.count > table.mask:
        grow_buckets(table, (table.mask + 1) * 2)        # without memory the chains get longer
    copy = <char *>malloc(length + 1)
    i = unused(table) if copy != NULL else NO_SUBJECT
    if i == NO_SUBJECT:
        free(copy)
        return NO_SUBJECT
    memcpy(copy, principal, length)
    copy[length] = 0
    entry = subject_at(table, i)
    entry.principal = copy
    entry.principal_length = length
    memcpy(entry.host, host, host_length)
    entry.host[host_length] = 0
    entry.hash = h
    entry.next = table.buckets[h & table.mask]
    table.buckets[h & table.mask] = i
    table.count += 1
    store_i32(&entry.refs, 1)
    return i


cdef int32_t subject_intern(SubjectTable *table, const char *principal, int32_t length, const char *peer) noexcept nogil:
    cdef const char *colon = strrchr(peer, b":")
    cdef int32_t host_length = <int32_t>(colon - peer if colon != NULL else strlen(peer))
    cdef uint32_t h
    cdef int32_t i
    if host_length >= PEER_BYTES:
        host_length = PEER_BYTES - 1
    h = hash_of(principal, length, peer, host_length)
    pthread_mutex_lock(&table.lock)
    i = find(table, h, principal, length, peer, host_length)
    if i != NO_SUBJECT:
        add_i32(&subject_at(table, i).refs, 1)
    else:
        i = add(table, h, principal, length, peer, host_length)
    pthread_mutex_unlock(&table.lock)
    return i


cdef void subject_retain(SubjectTable *table, int32_t index) noexcept nogil:
    if index != NO_SUBJECT:
        add_i32(&subject_at(table, index).refs, 1)


cdef void subject_release(SubjectTable *table, int32_t index) noexcept nogil:
    cdef Subject *entry
    cdef int32_t *at
    if index == NO_SUBJECT:
        return
    entry = subject_at(table, index)
    if add_i32(&entry.refs, -1) > 0:
        return
    pthread_mutex_lock(&table.lock)
    if entry.principal != NULL and load_i32(&entry.refs) == 0:   # else it was interned, or freed, meanwhile
        at = &table.buckets[entry.hash & table.mask]
        while at[0] != index:
            at = &subject_at(table, at[0]).next
        at[0] = entry.next
        free(entry.principal)
        entry.principal = NULL
        entry.generation += 1
        entry.next = table.free_head
        table.free_head = index
        table.count -= 1
    pthread_mutex_unlock(&table.lock)
