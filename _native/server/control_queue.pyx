"""The reactors' queue to the control thread, see control_queue.pxd."""
from libc.stdint cimport int64_t, uint8_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from bowstring._native.base.clock cimport monotonic_ns
from bowstring._native.server.mailbox cimport wake
from bowstring._native.server.connection_types cimport Connection
from bowstring._native.server.control_types cimport API_SASL_HANDSHAKE, CERTIFICATE_KEY, ControlMessage, RequestHeader
from bowstring._native.server.plane_types cimport EVENTS_KEPT, Plane, PlaneEvent
from bowstring._native.server.produce_types cimport ProducePart
from bowstring._native.server.reactor_types cimport REACTOR_SHIFT, Reactor
from bowstring._native.server.subject_types cimport NO_SUBJECT
from bowstring._native.server.subjects cimport subject_release, subject_retain
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock

cdef enum:
    API_SHARE_FETCH = 78            # its sessions end with the connection


cdef ControlMessage *message_new(int64_t client_id_bytes, const uint8_t *body, int64_t n) noexcept nogil:
    """Allocates one block: the message, space for the client id, the body."""
    cdef ControlMessage *m = <ControlMessage *>malloc(sizeof(ControlMessage) + client_id_bytes + n)
    if m == NULL:
        return NULL
    memset(m, 0, sizeof(ControlMessage))
    m.body = <uint8_t *>(m + 1) + client_id_bytes
    m.body_bytes = n
    m.subject = NO_SUBJECT
    m.received_ns = monotonic_ns()
    if n > 0:
        memcpy(m.body, body, n)
    return m


cdef void enqueue(Plane *plane, ControlMessage *m) noexcept nogil:
    cdef bint first
    pthread_mutex_lock(&plane.control_lock)
    first = plane.control_head == NULL
    if first:
        plane.control_head = m
    else:
        plane.control_tail.next = m
    plane.control_tail = m
    pthread_mutex_unlock(&plane.control_lock)
    if first:
        wake(plane.control_fd)


cdef bint control_send_request(
    Connection *c, const RequestHeader *header, int64_t slot, const uint8_t *body, int64_t n,
    int64_t counted_bytes) noexcept nogil:
    """Queues a copy of the request; False when memory ran out."""
    cdef int64_t id_bytes = header.client_id_length if header.client_id_length > 0 else 0
    cdef ControlMessage *m = message_new(id_bytes, body, n)
    if m == NULL:
        return False
    m.connection_id = (<int64_t>c.reactor.index << REACTOR_SHIFT) | c.id
    m.slot = slot
    m.counted_bytes = counted_bytes
    m.header = header[0]
    m.listener = c.listener
    memcpy(m.peer, c.peer, sizeof(m.peer))
    m.subject = c.subject
    m.phase = c.phase
    subject_retain(&c.reactor.plane.subjects, c.subject)
    if id_bytes > 0:
        memcpy(m + 1, header.client_id, id_bytes)
    m.header.client_id = <uint8_t *>(m + 1)
    if header.api_key == API_SHARE_FETCH or header.api_key == API_SASL_HANDSHAKE:
        c.tells_end = True
    enqueue(c.reactor.plane, m)
    return True


cdef void control_send_end(Connection *c) noexcept nogil:
    cdef ControlMessage *m = message_new(0, NULL, 0)
    if m == NULL:
        return
    m.connection_id = (<int64_t>c.reactor.index << REACTOR_SHIFT) | c.id
    m.ended = True
    enqueue(c.reactor.plane, m)


cdef bint control_send_certificate(Connection *c, const uint8_t *certificate, int64_t n) noexcept nogil:
    cdef RequestHeader header
    header.api_key = CERTIFICATE_KEY
    header.api_version = 0
    header.correlation_id = 0
    header.client_id_length = -1
    header.client_id = NULL
    return control_send_request(c, &header, -1, certificate, n, 0)


cdef void message_free(Plane *plane, ControlMessage *m) noexcept nogil:
    subject_release(&plane.subjects, m.subject)
    free(m)


cdef bint control_send_batch(Reactor *r, ProducePart *part, const uint8_t *batch, int64_t n) noexcept nogil:
    """Queues a copy of the batch; the result comes as MAIL_SLOW_BATCH. False when memory ran out."""
    cdef ControlMessage *m = message_new(0, batch, n)
    if m == NULL:
        return False
    m.part = part
    enqueue(r.plane, m)
    return True


cdef ControlMessage *control_take_all(Plane *plane) noexcept nogil:
    """Removes and returns the whole list, oldest first. The caller frees each message."""
    cdef ControlMessage *head
    pthread_mutex_lock(&plane.control_lock)
    head = plane.control_head
    plane.control_head = plane.control_tail = NULL
    pthread_mutex_unlock(&plane.control_lock)
    return head


cdef void plane_event(Plane *plane, int level, const char *name, const char *detail) noexcept nogil:
    cdef PlaneEvent *event
    pthread_mutex_lock(&plane.control_lock)
    if plane.event_count < EVENTS_KEPT:
        event = &plane.events[plane.event_count]
        event.level = level
        snprintf(event.name, sizeof(event.name), b"%s", name)
        snprintf(event.detail, sizeof(event.detail), b"%s", detail)
        plane.event_count += 1
    else:
        plane.events_dropped += 1
    pthread_mutex_unlock(&plane.control_lock)
    wake(plane.control_fd)
