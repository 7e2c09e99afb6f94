"""Gives the reports of access control to Python, see access_reports.pxd."""
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from bowstring._native.base.atomics cimport load_i64
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.server.access cimport access_events_take
from bowstring._native.server.access_types cimport ACCESS_KINDS, AccessEvent
from bowstring._native.server.subject_types cimport Subject
from bowstring._native.server.subjects cimport subject_at, subject_release


cdef tuple taken_access(Plane *plane):
    cdef AccessEvent *event = access_events_take(plane) if plane.access.events != NULL else NULL
    cdef AccessEvent *following
    cdef Subject *subject
    cdef list found = []
    cdef int64_t dropped = 0
    while event != NULL:
        following = event.next
        subject = subject_at(&plane.subjects, event.subject)
        found.append((subject.principal[:subject.principal_length].decode("utf-8", "replace"),
                      (<bytes>subject.host).decode("ascii", "replace"), event.kind,
                      event.name[:event.name_length].decode("utf-8", "replace"), bool(event.allowed)))
        subject_release(&plane.subjects, event.subject)
        free(event)
        event = following
    if found:
        pthread_mutex_lock(&plane.control_lock)
        dropped = plane.access.events_dropped
        plane.access.events_dropped = 0
        pthread_mutex_unlock(&plane.control_lock)
    return found, dropped


cdef tuple denied_access(Plane *plane):
    cdef int i, kind
    cdef list totals = [0] * ACCESS_KINDS
    for i in range(plane.reactor_count):
        for kind in range(ACCESS_KINDS):
            totals[kind] += load_i64(&plane.reactors[i].denied[kind])
    return tuple(totals)


cdef void access_free(Plane *plane):
    """Frees the reports that nobody took. The threads have ended."""
    cdef AccessEvent *event = plane.access.events
    cdef AccessEvent *following
    while event != NULL:
        following = event.next
        free(event)
        event = following
    plane.access.events = NULL
