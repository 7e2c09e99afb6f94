"""Queues the work that a reactor does once appends are on the medium, see commit_queue.pxd."""
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free, malloc
from bowstring._native.base.atomics cimport full_fence, load_i32, load_i64, store_i32
from bowstring._native.wal.group_commit cimport wal_begin, wal_ended, wal_full, wal_kick
from bowstring._native.wal.segment_files cimport reactor_ring, reactor_ring_close
from bowstring._native.wal.types cimport WAL_LEADS, WAL_WAITS

cdef enum:
    FIRST_CAPACITY = 64


cdef CommitQueue *commit_queue(Reactor *r, Wal *wal) noexcept nogil:
    cdef CommitQueue *queue = r.commits
    while queue != NULL and queue.wal != wal:
        queue = queue.next
    if queue == NULL:
        queue = <CommitQueue *>calloc(1, sizeof(CommitQueue))
        if queue == NULL:
            return NULL
        queue.wal = wal
        queue.next = r.commits
        r.commits = queue
        if r.ring == NULL:
            r.ring = reactor_ring(&wal.device, r.mailbox.event_fd)
    return queue


cdef bint leads(const Reactor *r, const Wal *wal) noexcept nogil:
    """Whether the reactor begins writes of this log. With several logs, one may be without io_uring."""
    return r.ring != NULL and wal.device.ring != NULL


cdef bint grow(CommitQueue *queue) noexcept nogil:
    cdef int32_t capacity = queue.capacity * 2 if queue.capacity > 0 else FIRST_CAPACITY
    cdef CommitItem *items = <CommitItem *>malloc(capacity * sizeof(CommitItem))
    cdef int32_t i
    if items == NULL:
        return False
    for i in range(queue.count):
        items[i] = queue.items[(queue.head + i) & (queue.capacity - 1)]
    free(queue.items)
    queue.items = items
    queue.head = 0
    queue.capacity = capacity
    return True


cdef bint commit_push(CommitQueue *queue, int64_t frame, Partition *p, int64_t end_offset, int64_t bytes,
                      ProducePart *part) noexcept nogil:
    cdef CommitItem *item
    if queue.count == queue.capacity and not grow(queue):
        return False
    item = &queue.items[(queue.head + queue.count) & (queue.capacity - 1)]
    item.frame = frame
    item.partition = p
    item.end_offset = end_offset
    item.cuts = load_i64(&p.log.cuts) if p != NULL else 0
    item.bytes = bytes
    item.part = part
    queue.count += 1
    queue.behind = True
    return True


cdef bint commit_pop(Reactor *r, CommitQueue *queue, CommitItem *item, bint *failed) noexcept nogil:
    cdef int64_t frame
    if queue.count == 0:
        return False
    frame = queue.items[queue.head].frame
    if load_i64(&queue.wal.durable_frame) < frame and not load_i32(&queue.wal.failed):
        store_i32(&queue.wal.waiting[r.index], WAL_LEADS if leads(r, queue.wal) else WAL_WAITS)
        full_fence()                                     # who ends a group stores durable_frame, then loads `waiting`
        if load_i64(&queue.wal.durable_frame) < frame and not load_i32(&queue.wal.failed):
            return False
    item[0] = queue.items[queue.head]
    failed[0] = load_i64(&queue.wal.durable_frame) < frame
    queue.head = (queue.head + 1) & (queue.capacity - 1)
    queue.count -= 1
    return True


cdef void commits_begin(Reactor *r) noexcept nogil:
    cdef CommitQueue *queue = r.commits
    while queue != NULL:
        if leads(r, queue.wal):
            wal_begin(queue.wal, r.ring)
        elif queue.behind:
            wal_kick(queue.wal)
        queue.behind = False
        queue = queue.next


cdef void commits_collect(Reactor *r) noexcept nogil:
    while wal_ended(r.ring, r.index, False):
        pass


cdef void commits_stop(Reactor *r) noexcept nogil:
    cdef CommitQueue *queue = r.commits
    if r.ring != NULL:
        while wal_ended(r.ring, r.index, True):
            pass
        reactor_ring_close(r.ring)
        r.ring = NULL
    while queue != NULL:
        store_i32(&queue.wal.waiting[r.index], 0)        # it leads no more
        wal_kick(queue.wal)
        queue = queue.next


cdef bint commits_full(const Reactor *r) noexcept nogil:
    cdef const CommitQueue *queue = r.commits
    while queue != NULL:
        if wal_full(queue.wal):
            return True
        queue = queue.next
    return False


cdef bint commit_await_room(Reactor *r, Wal *wal) noexcept nogil:
    if load_i32(&wal.waiting[r.index]) != WAL_LEADS:
        store_i32(&wal.waiting[r.index], WAL_WAITS)
    full_fence()                                         # who ends a group makes room, then loads `waiting`
    return wal_full(wal)


cdef bint commits_waiting(const Reactor *r) noexcept nogil:
    cdef const CommitQueue *queue = r.commits
    while queue != NULL:
        if queue.count > 0:
            return True
        queue = queue.next
    return False


cdef void commits_free(Reactor *r) noexcept nogil:
    cdef CommitQueue *queue
    while r.commits != NULL:
        queue = r.commits
        r.commits = queue.next
        free(queue.items)
        free(queue)
