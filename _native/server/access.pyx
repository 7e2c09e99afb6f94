"""Looks rules up for connections, remembers the decisions, and reports them, see access.pxd."""
from libc.stdint cimport int32_t, int64_t, int8_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy
from bowstring._native.access.acl_table cimport (
    OPERATION_CLUSTER_ACTION, OPERATION_READ, OPERATION_WRITE, RESOURCE_CLUSTER, RESOURCE_TOPIC,
    RESOURCE_TRANSACTIONAL_ID, AclSubject, acl_decide, acl_subject)
from bowstring._native.base.atomics cimport bump_i64
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.server.access_types cimport (
    ACCESS_EVENTS_MAX, ACCESS_FOLLOW, ACCESS_TRANSACTION, ACCESS_WRITE, CLUSTER_SERIAL, DECISIONS,
    AccessDecision)
from bowstring._native.server.mailbox cimport wake
from bowstring._native.server.subject_types cimport NO_SUBJECT, Subject
from bowstring._native.server.subjects cimport subject_at, subject_release, subject_retain

cdef enum:
    MINUTE_MS = 60000
    NO_MINUTE = -1


cdef struct Asked:
    # A question, with Kafka's numbers.
    AccessKind kind
    int8_t operation
    int8_t type
    int32_t subject
    int64_t serial                  # 0: the decision is not remembered
    const uint8_t *name
    int32_t length


cdef void report(Reactor *r, const Asked *asked, bint allowed) noexcept nogil:
    """Queues a report for the control thread; too many are only counted."""
    cdef Plane *plane = r.plane
    cdef AccessEvent *event = <AccessEvent *>malloc(sizeof(AccessEvent) + asked.length)
    if event == NULL:
        return
    event.next = NULL
    event.subject = asked.subject
    event.kind = asked.kind
    event.allowed = allowed
    event.name_length = asked.length
    event.name = <char *>(event + 1)
    memcpy(event.name, asked.name, asked.length)
    subject_retain(&plane.subjects, event.subject)
    pthread_mutex_lock(&plane.control_lock)
    if plane.access.event_count >= ACCESS_EVENTS_MAX:
        plane.access.events_dropped += 1
        pthread_mutex_unlock(&plane.control_lock)
        subject_release(&plane.subjects, event.subject)
        free(event)
        return
    if plane.access.events == NULL:
        plane.access.events = event
    else:
        plane.access.events_tail.next = event
    plane.access.events_tail = event
    plane.access.event_count += 1
    pthread_mutex_unlock(&plane.control_lock)
    wake(plane.control_fd)


cdef AccessEvent *access_events_take(Plane *plane) noexcept nogil:
    cdef AccessEvent *head
    pthread_mutex_lock(&plane.control_lock)
    head = plane.access.events
    plane.access.events = plane.access.events_tail = NULL
    plane.access.event_count = 0
    pthread_mutex_unlock(&plane.control_lock)
    return head


cdef AccessDecision *place(Reactor *r, const Asked *asked) noexcept nogil:
    """Returns where the decision is remembered; NULL: nowhere."""
    cdef uint64_t h
    if asked.serial == 0:
        return NULL
    if r.decisions == NULL:
        r.decisions = <AccessDecision *>calloc(DECISIONS, sizeof(AccessDecision))
        if r.decisions == NULL:
            return NULL
    h = (<uint64_t>asked.serial * 31 + <uint64_t>asked.subject) * 4 + <uint64_t>asked.kind
    return &r.decisions[(h * <uint64_t>0x9E3779B97F4A7C15) >> 53]


cdef bint decided(Reactor *r, const Asked *asked) noexcept nogil:
    cdef Plane *plane = r.plane
    cdef Subject *subject
    cdef AclSubject whom
    cdef AccessDecision *known
    cdef int32_t minute = <int32_t>(r.now_ms // MINUTE_MS)
    cdef bint allowed, is_new
    if asked.subject == NO_SUBJECT:
        bump_i64(&r.denied[<int>asked.kind], 1)               # there was no memory to note who it is
        return False
    subject = subject_at(&plane.subjects, asked.subject)
    known = place(r, asked)
    if (known != NULL and known.serial == asked.serial and known.subject == asked.subject
            and known.kind == asked.kind and known.generation == plane.access.generation
            and known.subject_generation == subject.generation):
        allowed = known.allowed
        is_new = known.minute != minute
    else:
        acl_subject(plane.access.rules, <const uint8_t *>subject.principal, subject.principal_length, subject.host, &whom)
        allowed = acl_decide(plane.access.rules, &whom, asked.operation, asked.type, asked.name, asked.length)
        is_new = True
        if known != NULL:
            known.serial = asked.serial
            known.subject = asked.subject
            known.subject_generation = subject.generation
            known.generation = plane.access.generation
            known.kind = asked.kind
            known.allowed = allowed
            known.minute = NO_MINUTE
    if not allowed:
        bump_i64(&r.denied[<int>asked.kind], 1)
    if is_new and (not allowed or plane.access.reports_allowed):
        if known != NULL:
            known.minute = minute
        report(r, asked, allowed)
    return allowed


cdef bint topic_allowed(Reactor *r, int32_t subject, AccessKind kind, const Topic *topic, const uint8_t *name,
                        int32_t length) noexcept nogil:
    cdef Asked asked
    asked.kind = kind
    asked.operation = OPERATION_WRITE if kind == ACCESS_WRITE else OPERATION_READ
    asked.type = RESOURCE_TOPIC
    asked.subject = subject
    asked.serial = 0
    asked.name = name
    asked.length = length
    if topic != NULL:
        asked.serial = topic.serial
        asked.name = topic.name
        asked.length = topic.name_length
    return decided(r, &asked)


cdef bint transaction_allowed(Reactor *r, int32_t subject, const uint8_t *name, int32_t length) noexcept nogil:
    cdef Asked asked
    asked.kind = ACCESS_TRANSACTION
    asked.operation = OPERATION_WRITE
    asked.type = RESOURCE_TRANSACTIONAL_ID
    asked.subject = subject
    asked.serial = 0
    asked.name = name
    asked.length = length
    return decided(r, &asked)


cdef bint follow_allowed(Reactor *r, int32_t subject) noexcept nogil:
    cdef Asked asked
    asked.kind = ACCESS_FOLLOW
    asked.operation = OPERATION_CLUSTER_ACTION
    asked.type = RESOURCE_CLUSTER
    asked.subject = subject
    asked.serial = CLUSTER_SERIAL
    asked.name = <const uint8_t *>b"kafka-cluster"
    asked.length = 13
    return decided(r, &asked)
