"""Queues events of replicas for the control thread, see replica_events.pxd."""
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport malloc
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.server.mailbox cimport wake
from bowstring._native.server.topic_table cimport partition_retain


cdef void replica_event(Plane *plane, int32_t kind, Partition *p, int64_t a, int64_t b) noexcept nogil:
    cdef ReplicaEvent *event = <ReplicaEvent *>malloc(sizeof(ReplicaEvent))
    if event == NULL:
        return
    event.next = NULL
    event.kind = kind
    event.partition = p
    event.leader_epoch = p.leader_epoch
    event.a = a
    event.b = b
    partition_retain(p)
    pthread_mutex_lock(&plane.control_lock)
    if plane.replica_events == NULL:
        plane.replica_events = event
    else:
        plane.replica_events_tail.next = event
    plane.replica_events_tail = event
    pthread_mutex_unlock(&plane.control_lock)
    wake(plane.control_fd)


cdef ReplicaEvent *replica_events_take(Plane *plane) noexcept nogil:
    cdef ReplicaEvent *head
    pthread_mutex_lock(&plane.control_lock)
    head = plane.replica_events
    plane.replica_events = plane.replica_events_tail = NULL
    pthread_mutex_unlock(&plane.control_lock)
    return head


cdef bint dial_order(Plane *plane, int32_t reactor, int32_t leader_id, int32_t number, int64_t dial) noexcept nogil:
    cdef Dial *made = <Dial *>malloc(sizeof(Dial))
    if made == NULL:
        return False
    made.reactor = reactor
    made.leader_id = leader_id
    made.number = number
    made.dial = dial
    pthread_mutex_lock(&plane.control_lock)
    made.next = plane.dials
    plane.dials = made
    pthread_mutex_unlock(&plane.control_lock)
    wake(plane.control_fd)
    return True


cdef Dial *dials_take(Plane *plane) noexcept nogil:
    cdef Dial *head
    pthread_mutex_lock(&plane.control_lock)
    head = plane.dials
    plane.dials = NULL
    pthread_mutex_unlock(&plane.control_lock)
    return head
