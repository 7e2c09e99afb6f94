"""Handles slow batches, see slow_batches.pxd."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from bowstring._native.base.atomics cimport add_i32, add_i64, cas_i64, full_fence, load_i32, load_i64, store_i32
from bowstring._native.record.batch cimport batch_parse
from bowstring._native.server.connection cimport connection_find, connection_hold, connection_resume
from bowstring._native.server.control_queue cimport control_send_batch
from bowstring._native.server.mailbox cimport wake
from bowstring._native.server.produce_reader cimport (
    ProduceReader, next_part, next_topic, produce_reader_begin, topic_of)
from bowstring._native.server.topic_table cimport topic_partition
from bowstring._native.server.partition_types cimport Topic

# ---------------------------------------------------------------- counting


cdef bint reserve(int64_t *counter, int64_t n, int64_t most) noexcept nogil:
    """Adds `n` to the counter unless that exceeds `most`. Any `n` fits if nothing else is counted."""
    cdef int64_t before
    while True:
        before = load_i64(counter)
        if before != 0 and before + n > most:
            return False
        if cas_i64(counter, before, before + n):
            return True


cdef void wake_parked(Plane *plane) noexcept nogil:
    cdef int32_t i
    full_fence()                                         # a thread that parks after this loads the count after parking
    if load_i32(&plane.slow_parked) > 0:
        for i in range(plane.reactor_count):
            if load_i32(&plane.reactors[i].parked_count) > 0:
                wake(plane.reactors[i].mailbox.event_fd)


cdef void slow_waiting_gone(Plane *plane, int64_t n) noexcept nogil:
    add_i64(&plane.slow_waiting_bytes, -n)
    wake_parked(plane)


cdef void slow_working_add(Plane *plane, int64_t n) noexcept nogil:
    add_i64(&plane.slow_working_bytes, n)
    if n < 0:
        full_fence()
        if load_i32(&plane.slow_job_waits):
            wake(plane.control_fd)


cdef bint slow_begin(Plane *plane, int64_t n) noexcept nogil:
    """Counts a job. If there is no room, returns False and wakes the control thread once there is some."""
    store_i32(&plane.slow_job_waits, 0)
    if reserve(&plane.slow_working_bytes, n, plane.slow_max_bytes):
        return True
    store_i32(&plane.slow_job_waits, 1)
    full_fence()
    if not reserve(&plane.slow_working_bytes, n, plane.slow_max_bytes):
        return False
    store_i32(&plane.slow_job_waits, 0)
    return True

# ---------------------------------------------------------------- sending batches


cdef bint slow_send(Reactor *r, ProducePart *part, const uint8_t *batch, int64_t n) noexcept nogil:
    cdef Plane *plane = r.plane
    cdef Connection *c = connection_find(r, part.request.connection_id)
    cdef int64_t cost = slow_cost(n)
    if not part.verifying:                               # only batches of its own producer follow it
        add_i32(&part.partition.slow_batches, 1)
    if r.slow_reserved >= cost:
        r.slow_reserved -= cost
    else:
        add_i64(&plane.slow_waiting_bytes, cost)
    if not control_send_batch(r, part, batch, n):
        if not part.verifying:
            add_i32(&part.partition.slow_batches, -1)
        slow_waiting_gone(plane, cost)
        return False
    if c != NULL:
        connection_hold(c, part.request.slot, cost // SLOW_HELD_SHARE)
        if part.verifying:                               # batches of other producers would overtake it
            c.unappended_to = NULL
        elif c.unappended == 0:
            c.unappended_to = part.partition
        elif c.unappended_to != part.partition:
            c.unappended_to = NULL
        c.unappended += 1
    return True


cdef void slow_finished(Reactor *r, ProducePart *part) noexcept nogil:
    cdef Connection *c = connection_find(r, part.request.connection_id)
    if c != NULL:
        c.unappended -= 1
        if c.unappended == 0:
            connection_resume(c)


cdef void slow_free(ProducePart *part) noexcept nogil:
    if part.owned != NULL:
        free(part.owned)
        part.owned = NULL
        if part.uncounted:
            part.uncounted = False
            return
        slow_working_add(part.request.reactor.plane, -part.entry.info.size_bytes)

# ---------------------------------------------------------------- waiting for room


cdef int64_t demand(Reactor *r, int16_t version, Reader body) noexcept nogil:
    """Returns the bytes to count for the slow batches of a Produce request; 0 for a malformed request, which is refused
    later."""
    cdef ProduceReader reader
    cdef Topic *topic
    cdef Partition *p
    cdef BatchInfo info
    cdef int64_t bytes = 0
    produce_reader_begin(&reader, body, version)
    while next_topic(&reader):
        topic = topic_of(&reader, &r.plane.table)
        while next_part(&reader):
            p = topic_partition(topic, reader.index)
            if (p != NULL and p.log != NULL and batch_parse(reader.batch, reader.batch_bytes, &info) == 0
                    and slow_needed(p, &info, r.wall_ms)):
                bytes += slow_cost(reader.batch_bytes)
    return 0 if reader.body.bad else bytes


cdef bint slow_overtakes(Reactor *r, const Connection *c, int16_t version, Reader body) noexcept nogil:
    cdef ProduceReader reader
    cdef Topic *topic
    if c.unappended_to == NULL:
        return True
    produce_reader_begin(&reader, body, version)
    while next_topic(&reader):
        topic = topic_of(&reader, &r.plane.table)
        while next_part(&reader):
            if topic_partition(topic, reader.index) != c.unappended_to:
                return True
    return reader.body.bad


cdef bint slow_parks(Reactor *r, Connection *c, int16_t version, Reader body) noexcept nogil:
    cdef int64_t bytes = demand(r, version, body)
    return bytes != 0 and slow_parks_for(r, c, bytes)


cdef bint slow_parks_for(Reactor *r, Connection *c, int64_t bytes) noexcept nogil:
    cdef Plane *plane = r.plane
    if load_i32(&plane.slow_parked) == 0 and reserve(&plane.slow_waiting_bytes, bytes, plane.slow_max_bytes):
        r.slow_reserved = bytes
        return False
    c.parked = True
    c.parked_bytes = bytes
    c.next_parked = NULL
    c.previous_parked = r.parked_tail
    if r.parked_tail == NULL:
        r.parked_head = c
    else:
        r.parked_tail.next_parked = c
    r.parked_tail = c
    store_i32(&r.parked_count, r.parked_count + 1)
    add_i32(&plane.slow_parked, 1)
    if r.parked_head == c:
        wake(r.mailbox.event_fd)                         # a thread that freed room before did not see this connection: check again
    return True


cdef void unpark(Reactor *r, Connection *c) noexcept nogil:
    cdef Plane *plane = r.plane
    c.parked = False
    if c.previous_parked != NULL:
        c.previous_parked.next_parked = c.next_parked
    else:
        r.parked_head = c.next_parked
    if c.next_parked != NULL:
        c.next_parked.previous_parked = c.previous_parked
    else:
        r.parked_tail = c.previous_parked
    store_i32(&r.parked_count, r.parked_count - 1)
    add_i32(&plane.slow_parked, -1)
    if load_i32(&plane.slow_turn) == r.index + 1:
        store_i32(&plane.slow_turn, 0)
        wake_parked(plane)


cdef Connection *slow_resume(Reactor *r) noexcept nogil:
    cdef Plane *plane = r.plane
    cdef Connection *c = r.parked_head
    cdef int32_t turn
    full_fence()                                         # after the counts of parked connections
    while c != NULL:
        if c.closing or c.refusing:
            unpark(r, c)                                 # its requests are no longer handled
            c = r.parked_head
            continue
        turn = load_i32(&plane.slow_turn)
        if turn != 0 and turn != r.index + 1:
            return NULL                                  # woken when that connection has its room
        if not reserve(&plane.slow_waiting_bytes, c.parked_bytes, plane.slow_max_bytes):
            store_i32(&plane.slow_turn, r.index + 1)
            return NULL
        r.slow_reserved = c.parked_bytes
        unpark(r, c)
        return c
    return NULL


cdef void slow_connection_closed(Connection *c) noexcept nogil:
    if c.parked:
        unpark(c.reactor, c)


cdef void slow_give_back(Reactor *r) noexcept nogil:
    cdef int64_t n = r.slow_reserved
    r.slow_reserved = 0
    if n > 0:
        slow_waiting_gone(r.plane, n)
