"""Finds topics and partitions, counts references to them, and wakes requests that wait for a log to grow."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, strcmp
from bowstring._native.base.atomics cimport (
    add_i32, full_fence, load_i32, load_i64, load_pointer, store_i64, store_pointer)
from bowstring._native.record.schema_ids cimport schema_ids_release
from bowstring._native.server.mailbox cimport post, wake
from bowstring._native.server.fetch_types cimport Waiter
from bowstring._native.server.mail_types cimport MAIL_ACK, MAIL_WAKE_FETCH
from bowstring._native.server.partition_types cimport Partition, PendingList, Topic
from bowstring._native.server.plane_types cimport Plane, TopicTable
from bowstring._native.server.produce_types cimport ProducePart
from bowstring._native.server.reactor_types cimport Reactor
from bowstring._native.base.pthread cimport (
    pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock)

# ---------------------------------------------------------------- lookup


cdef uint32_t hash_bytes(const uint8_t *data, int64_t n) noexcept nogil:
    """FNV-1a. Keys are short, and a client that creates colliding topic names can do more harm by other means."""
    cdef uint32_t h = 2166136261u
    cdef int64_t i
    for i in range(n):
        h = (h ^ data[i]) * 16777619u
    return h


cdef Topic *topic_by_name(const TopicTable *table, const uint8_t *name, int32_t length) noexcept nogil:
    cdef Topic *topic
    if table.by_name == NULL or length < 0:
        return NULL
    topic = table.by_name[hash_bytes(name, length) & table.mask]
    while topic != NULL and (topic.name_length != length or memcmp(topic.name, name, length) != 0):
        topic = topic.next_by_name
    return topic


cdef Topic *topic_by_id(const TopicTable *table, const uint8_t *id) noexcept nogil:
    cdef Topic *topic
    if table.by_id == NULL:
        return NULL
    topic = table.by_id[hash_bytes(id, 16) & table.mask]
    while topic != NULL and memcmp(topic.id, id, 16) != 0:
        topic = topic.next_by_id
    return topic


cdef Partition *topic_partition(const Topic *topic, int32_t index) noexcept nogil:
    if topic == NULL or index < 0 or index >= topic.partition_count:
        return NULL
    return topic.partitions[index]

# ---------------------------------------------------------------- changing the table


cdef void link_topic(TopicTable *table, Topic *topic) noexcept nogil:
    cdef uint32_t h = hash_bytes(topic.name, topic.name_length) & table.mask
    topic.next_by_name = table.by_name[h]
    table.by_name[h] = topic
    h = hash_bytes(topic.id, 16) & table.mask
    topic.next_by_id = table.by_id[h]
    table.by_id[h] = topic


cdef bint table_grow(TopicTable *table) noexcept nogil:
    cdef uint32_t size = (table.mask + 1) * 2 if table.by_name != NULL else 64
    cdef TopicTable old = table[0]
    cdef Topic *topic
    cdef Topic *following
    cdef uint32_t i
    cdef Topic **by_name = <Topic **>calloc(size, sizeof(Topic *))
    cdef Topic **by_id = <Topic **>calloc(size, sizeof(Topic *))
    if by_name == NULL or by_id == NULL:
        free(by_name)
        free(by_id)
        return False
    table.by_name = by_name
    table.by_id = by_id
    table.mask = size - 1
    if old.by_name != NULL:
        for i in range(old.mask + 1):
            topic = old.by_name[i]
            while topic != NULL:
                following = topic.next_by_name
                link_topic(table, topic)
                topic = following
        free(old.by_name)
        free(old.by_id)
    return True


cdef bint is_internal(const uint8_t *name) noexcept nogil:
    """Whether clients may not produce to the topic (Kafka's internal topics)."""
    return (strcmp(<const char *>name, b"__consumer_offsets") == 0
            or strcmp(<const char *>name, b"__transaction_state") == 0
            or strcmp(<const char *>name, b"__share_group_state") == 0)


cdef Topic *topic_add(TopicTable *table, const uint8_t *name, int32_t length, const uint8_t *id) noexcept nogil:
    """Adds a topic, whose name must not be in the table. NULL when memory ran out."""
    cdef Topic *topic
    if (table.by_name == NULL or <uint32_t>table.count > table.mask) and not table_grow(table):
        return NULL
    topic = <Topic *>calloc(1, sizeof(Topic))
    if topic == NULL:
        return NULL
    topic.name = <uint8_t *>malloc(length + 1)
    if topic.name == NULL:
        free(topic)
        return NULL
    memcpy(topic.name, name, length)
    topic.name[length] = 0
    topic.name_length = length
    memcpy(topic.id, id, 16)
    table.serials += 1
    topic.serial = table.serials
    topic.internal = length > 2 and name[0] == c'_' and name[1] == c'_' and is_internal(topic.name)
    link_topic(table, topic)
    table.count += 1
    return topic


cdef bint topic_set_partition(Topic *topic, int32_t index, Partition *partition) noexcept nogil:
    cdef Partition **grown
    cdef int32_t i
    if index >= topic.partition_count:
        grown = <Partition **>realloc(topic.partitions, (index + 1) * sizeof(Partition *))
        if grown == NULL:
            return False
        for i in range(topic.partition_count, index + 1):
            grown[i] = NULL
        topic.partitions = grown
        topic.partition_count = index + 1
    topic.partitions[index] = partition
    return True


cdef void topic_remove(TopicTable *table, Topic *topic) noexcept nogil:
    """Unlinks and frees the topic. The caller frees its partitions."""
    cdef Topic **at = &table.by_name[hash_bytes(topic.name, topic.name_length) & table.mask]
    while at[0] != topic:
        at = &at[0].next_by_name
    at[0] = topic.next_by_name
    at = &table.by_id[hash_bytes(topic.id, 16) & table.mask]
    while at[0] != topic:
        at = &at[0].next_by_id
    at[0] = topic.next_by_id
    table.count -= 1
    schema_ids_release(topic.key_schemas)
    schema_ids_release(topic.value_schemas)
    free(topic.name)
    free(topic.partitions)
    free(topic)


cdef Partition *partition_new(Topic *topic, int32_t index, int32_t reactors) noexcept nogil:
    cdef Partition *p = <Partition *>calloc(1, sizeof(Partition))
    if p == NULL:
        return NULL
    p.pending = <PendingList *>calloc(reactors, sizeof(PendingList))
    if p.pending == NULL:
        free(p)
        return NULL
    p.topic = topic
    p.index = index
    p.refs = 1
    p.leader_id = -1
    pthread_mutex_init(&p.waiters_lock, NULL)
    pthread_mutex_init(&p.replicas_lock, NULL)
    pthread_mutex_init(&p.truncate_lock, NULL)
    return p


cdef void partition_free(Partition *p) noexcept nogil:
    pthread_mutex_destroy(&p.waiters_lock)
    pthread_mutex_destroy(&p.replicas_lock)
    pthread_mutex_destroy(&p.truncate_lock)
    free(p.replicas)
    free(p.pending)
    free(p)


cdef void partition_retain(Partition *p) noexcept nogil:
    add_i32(&p.refs, 1)


cdef void partition_release(Partition *p) noexcept nogil:
    """Decrements the count without freeing: the control thread frees the partition once the count is 0. See plane_types.pxd."""
    add_i32(&p.refs, -1)

# ---------------------------------------------------------------- waiters


cdef void waiter_add(Waiter *w, Partition *p) noexcept nogil:
    """Links `w`, which then holds a reference to `p`. The caller must then check the log again, or it may miss an append."""
    partition_retain(p)
    pthread_mutex_lock(&p.waiters_lock)
    w.partition = p
    w.previous = NULL
    w.next = p.fetch_waiters
    if w.next != NULL:
        w.next.previous = w
    store_pointer(<void **>&p.fetch_waiters, w)
    w.listed = True
    pthread_mutex_unlock(&p.waiters_lock)
    full_fence()                                         # before the caller's loads from the log


cdef void waiter_remove(Waiter *w) noexcept nogil:
    cdef Partition *p = w.partition
    if p == NULL:
        return
    pthread_mutex_lock(&p.waiters_lock)
    if w.listed:
        if w.previous != NULL:
            w.previous.next = w.next
        else:
            store_pointer(<void **>&p.fetch_waiters, w.next)
        if w.next != NULL:
            w.next.previous = w.previous
        w.listed = False
    w.partition = NULL
    pthread_mutex_unlock(&p.waiters_lock)
    partition_release(p)


cdef bint ack_waiter_add(ProducePart *part) noexcept nogil:
    """Adds a part that waits until the high watermark reaches part.required_offset; False when it already has."""
    cdef Partition *p = part.partition
    cdef bint waits
    pthread_mutex_lock(&p.waiters_lock)
    part.previous = NULL
    part.next = p.ack_waiters
    if part.next != NULL:
        part.next.previous = part
    store_pointer(<void **>&p.ack_waiters, part)
    part.listed = True
    full_fence()                                         # a thread that moves the high watermark now sees the non-empty list
    waits = load_i64(&p.log.high_watermark) < part.required_offset
    if not waits:
        ack_unlink(p, part)
    pthread_mutex_unlock(&p.waiters_lock)
    return waits


cdef void ack_unlink(Partition *p, ProducePart *part) noexcept nogil:
    if part.previous != NULL:
        part.previous.next = part.next
    else:
        store_pointer(<void **>&p.ack_waiters, part.next)
    if part.next != NULL:
        part.next.previous = part.previous
    part.next = part.previous = NULL
    part.listed = False


cdef bint ack_waiter_remove(ProducePart *part) noexcept nogil:
    """Removes a waiting part. False when its MAIL_ACK is already posted."""
    cdef Partition *p = part.partition
    cdef bint was
    pthread_mutex_lock(&p.waiters_lock)
    was = part.listed
    if was:
        ack_unlink(p, part)
    pthread_mutex_unlock(&p.waiters_lock)
    return was


cdef void partition_advanced(Partition *p, int64_t bytes, Reactor *here) noexcept nogil:
    """Wakes waiters after the log grew by `bytes`, its high watermark moved, or it was deleted.

    Fetches of the calling reactor go to its ready list, fetches of other reactors get a mail. Acks always go by mail, because
    their owner may be in the middle of the same pass.
    """
    cdef Waiter *w
    cdef ProducePart *part
    cdef ProducePart *following
    cdef int64_t high_watermark
    full_fence()
    if load_i64(&p.watched_offset) != 0:
        tell_watcher(p)
    if load_pointer(<void **>&p.fetch_waiters) == NULL and load_pointer(<void **>&p.ack_waiters) == NULL:
        return  # a waiter that is added after this line checks the log itself
    pthread_mutex_lock(&p.waiters_lock)
    w = p.fetch_waiters
    while w != NULL:
        if w.reactor == here:
            w.request.arrived_bytes += bytes
            if bytes == 0:
                w.request.missing_bytes = 0              # an offset or the partition's state has changed: evaluate
            if not w.request.ready:
                w.request.ready = True
                w.request.next_ready = here.ready_fetches
                here.ready_fetches = w.request
        else:
            post(&w.reactor.mailbox, MAIL_WAKE_FETCH, w.fetch_id, bytes, NULL)
        w = w.next
    part = p.ack_waiters
    high_watermark = -1                                  # nothing more will come: deleted, or led by another broker
    if not load_i32(&p.deleted) and load_i32(&p.is_leader) and p.log != NULL:
        high_watermark = load_i64(&p.log.high_watermark)
    while part != NULL:
        following = part.next
        if high_watermark < 0 or part.required_offset <= high_watermark:
            ack_unlink(p, part)
            post(&part.request.reactor.mailbox, MAIL_ACK, 0, 0, part)
        part = following
    pthread_mutex_unlock(&p.waiters_lock)

# ---------------------------------------------------------------- the control thread waits


cdef bint partition_watch(Plane *plane, Partition *p, int64_t offset) noexcept nogil:
    """Two may wait at a time: the lower offset stands. Whoever waits for the higher one is called too, and watches again."""
    cdef int64_t other
    pthread_mutex_lock(&plane.control_lock)
    p.watching = plane
    other = p.watched_offset
    if other == 0 or offset < other:
        store_i64(&p.watched_offset, offset)
    pthread_mutex_unlock(&plane.control_lock)
    full_fence()                                         # a thread that moves the high watermark now sees the offset
    if p.log == NULL or load_i64(&p.log.high_watermark) < offset:
        return True
    pthread_mutex_lock(&plane.control_lock)
    if p.watched_offset == offset:                       # else the other one is called, or watches the lower offset
        store_i64(&p.watched_offset, other)
    pthread_mutex_unlock(&plane.control_lock)
    return False


cdef void tell_watcher(Partition *p) noexcept nogil:
    """Wakes the control thread if what it waits for has come. Costs nothing where it does not wait."""
    cdef Plane *plane = p.watching
    cdef int64_t high_watermark = -1                     # nothing more will come
    cdef bint tells
    if not load_i32(&p.deleted) and load_i32(&p.is_leader) and p.log != NULL:
        high_watermark = load_i64(&p.log.high_watermark)
    if 0 <= high_watermark < load_i64(&p.watched_offset):
        return
    pthread_mutex_lock(&plane.control_lock)
    tells = p.watched_offset != 0 and (high_watermark < 0 or high_watermark >= p.watched_offset)
    if tells:
        store_i64(&p.watched_offset, 0)
        if not p.is_advanced:
            p.is_advanced = True
            partition_retain(p)
            p.next_advanced = plane.advanced
            plane.advanced = p
    pthread_mutex_unlock(&plane.control_lock)
    if tells:
        wake(plane.control_fd)


cdef Partition *partition_take_advanced(Plane *plane) noexcept nogil:
    cdef Partition *p
    pthread_mutex_lock(&plane.control_lock)
    p = plane.advanced
    if p != NULL:
        plane.advanced = p.next_advanced
        p.is_advanced = False
    pthread_mutex_unlock(&plane.control_lock)
    return p
