"""Accepts connections, see acceptor.pxd. Runs on reactor 0, but for open_accepted."""
from libc.errno cimport EAGAIN, ECONNABORTED, EINTR, EMFILE, ENFILE, errno
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free
from posix.unistd cimport close
from bowstring._native.base.atomics cimport load_i32
from bowstring._native.disk.descriptors cimport (
    descriptors_lend, descriptors_refill, descriptors_refused, descriptors_short)
from bowstring._native.server.accept_limits cimport (
    accept_begins, accept_decide, accept_ended, accept_paced, accept_resumes)
from bowstring._native.server.accept_types cimport (
    ACCEPT_LATER, ACCEPT_REFUSE_LATER, ACCEPT_SERVE, HOST_BYTES, HostEntry, ListenerLimits, Verdict)
from bowstring._native.server.connection cimport connection_open
from bowstring._native.server.connection_types cimport Connection
from bowstring._native.server.mail_types cimport MAIL_CONNECTION
from bowstring._native.server.mailbox cimport post, wake
from bowstring._native.server.plane_types cimport Plane
from bowstring._native.server.reactor_types cimport Reactor
from bowstring._native.server.timers cimport timer_add, timer_pop

cdef extern from *:
    """
    #include <sys/epoll.h>
    #include <sys/socket.h>

    static int listener_add(int epoll_fd, int fd, void *item) {
        struct epoll_event e;
        e.events = EPOLLIN;
        e.data.ptr = item;
        return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
    }
    static void listener_remove(int epoll_fd, int fd) { epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL); }
    static int accept_connection(int fd) { return accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC); }
    """
    int listener_add(int epoll_fd, int fd, void *item) nogil
    void listener_remove(int epoll_fd, int fd) nogil
    int accept_connection(int fd) nogil

cdef enum:
    ACCEPT_REST_MS = 100


cdef void accept_all(Reactor *r, int32_t listener) noexcept nogil:
    """Accepts the connections of a listener that wait, and assigns them to the reactors in turn."""
    cdef Plane *plane = r.plane
    cdef ListenerLimits *limits = &plane.accept.listeners[listener]
    cdef int64_t wait_ms
    cdef int fd
    while not limits.resting:
        if descriptors_short() and not descriptors_refill():     # they are for files
            if refuse(plane.listeners[listener]):
                continue
            if errno != EAGAIN:
                rest_listeners(r)
            return
        if not accept_begins(&plane.accept, listener):
            rest(r, listener)
            return
        fd = accept_connection(plane.listeners[listener])
        if fd < 0:
            if errno == EMFILE or errno == ENFILE:
                descriptors_lend(-errno)
                if refuse(plane.listeners[listener]):
                    continue
                rest_listeners(r)
            elif errno != EAGAIN and errno != EINTR and errno != ECONNABORTED:
                rest_listeners(r)
            return
        if accept_paced(&plane.accept, listener, r.now_ms, &wait_ms) == ACCEPT_LATER:
            limits.held_fd = fd
            limits.held_until_ms = r.now_ms + wait_ms
            rest(r, listener)
            set_due(r)
        else:
            take_in(r, fd, listener)


cdef void take_in(Reactor *r, int fd, int32_t listener) noexcept nogil:
    """Serves an accepted connection, or closes it, if its host has too many."""
    cdef Plane *plane = r.plane
    cdef HostEntry *host = NULL
    cdef Reactor *to
    cdef int64_t wait_ms = 0
    cdef Verdict verdict = accept_decide(&plane.accept, listener, fd, r.now_ms, &host, &wait_ms)
    if verdict == ACCEPT_REFUSE_LATER and timer_add(&r.refusals, r.now_ms + wait_ms, fd):
        set_due(r)
        return
    if verdict != ACCEPT_SERVE:
        close(fd)
        return
    if load_i32(&plane.accept.excess) > 0:
        wake_all(plane)
    to = &plane.reactors[plane.next_reactor]
    plane.next_reactor = (plane.next_reactor + 1) % plane.reactor_count
    if to == r:
        open_accepted(r, fd, listener, host)
    elif not post(&to.mailbox, MAIL_CONNECTION, fd, listener, host):
        accept_ended(&plane.accept, listener, host, False)
        close(fd)


cdef uint8_t host_group(const uint8_t *host) noexcept nogil:
    """The group of an address: hosts of a group share their place among TLS handshakes."""
    cdef uint32_t h = 2166136261
    cdef int i
    for i in range(HOST_BYTES):
        h = (h ^ host[i]) * 16777619
    return <uint8_t>(h ^ (h >> 8) ^ (h >> 16) ^ (h >> 24))


cdef void open_accepted(Reactor *r, int fd, int32_t listener, HostEntry *host) noexcept nogil:
    cdef Connection *c = connection_open(r, fd, listener)
    if c != NULL:
        c.host = host
        if host != NULL:
            c.host_group = host_group(host.host)
    elif accept_ended(&r.plane.accept, listener, host, False):
        wake(r.plane.reactors[0].mailbox.event_fd)


cdef void wake_all(Plane *plane) noexcept nogil:
    cdef int32_t i
    for i in range(plane.reactor_count):
        wake(plane.reactors[i].mailbox.event_fd)


cdef bint refuse(int listener) noexcept nogil:
    """Accepts a connection and closes it, so that the client does not wait. False: there is none, or no descriptor for it;
    errno says which."""
    cdef int fd = accept_connection(listener)
    if fd < 0 and descriptors_lend(-errno):
        fd = accept_connection(listener)
    if fd < 0:
        return False
    close(fd)
    descriptors_refused()
    return True

# ---------------------------------------------------------------- listeners that rest


cdef bint watch_listener(Reactor *r, int32_t i) noexcept nogil:
    return listener_add(r.epoll_fd, r.plane.listeners[i], <void *>(<uint64_t>i << 1 | LISTENER_TAG)) == 0


cdef void rest(Reactor *r, int32_t listener) noexcept nogil:
    """Stops accepting on one listener, which waits for its rate or for the end of a connection."""
    r.plane.accept.listeners[listener].resting = True
    listener_remove(r.epoll_fd, r.plane.listeners[listener])


cdef void rest_listeners(Reactor *r) noexcept nogil:
    """Pauses accepting after an error that would repeat at once: epoll would report it again and again."""
    cdef int32_t i
    for i in range(r.plane.listener_count):
        listener_remove(r.epoll_fd, r.plane.listeners[i])
    r.accept_again_ms = r.now_ms + ACCEPT_REST_MS
    set_due(r)


cdef bint watch_listeners(Reactor *r) noexcept nogil:
    cdef int32_t i
    r.accept_again_ms = 0
    for i in range(r.plane.listener_count):
        if not r.plane.accept.listeners[i].resting and not watch_listener(r, i):
            return False
    return True


cdef void set_due(Reactor *r) noexcept nogil:
    """Sets when accept_resume() has something to do."""
    cdef int64_t due = r.accept_again_ms
    cdef ListenerLimits *limits
    cdef int32_t i
    if r.refusals.count > 0 and (due == 0 or r.refusals.items[0].due_ms < due):
        due = r.refusals.items[0].due_ms
    for i in range(r.plane.listener_count):
        limits = &r.plane.accept.listeners[i]
        if limits.held_until_ms > 0 and (due == 0 or limits.held_until_ms < due):
            due = limits.held_until_ms
    r.accept_due_ms = due


cdef void accept_resume(Reactor *r) noexcept nogil:
    cdef int32_t i
    while r.refusals.count > 0 and r.refusals.items[0].due_ms <= r.now_ms:
        close(<int>timer_pop(&r.refusals).id)
    for i in range(r.plane.listener_count):
        if r.plane.accept.listeners[i].resting:
            resume(r, i)
    if 0 < r.accept_again_ms <= r.now_ms and not watch_listeners(r):
        rest_listeners(r)
    set_due(r)


cdef void resume(Reactor *r, int32_t listener) noexcept nogil:
    """Lets a listener accept again, if it may; first it serves the connection that it holds."""
    cdef ListenerLimits *limits = &r.plane.accept.listeners[listener]
    cdef int fd = limits.held_fd
    if limits.held_until_ms > r.now_ms:
        return
    if limits.held_until_ms > 0:                         # its time is over; now it waits as others for room
        limits.held_until_ms = 0
        if not accept_begins(&r.plane.accept, listener):
            return
    elif not accept_resumes(&r.plane.accept, listener):
        return
    limits.resting = False
    limits.held_fd = -1
    if fd >= 0:
        take_in(r, fd, listener)
    if r.accept_again_ms == 0 and not watch_listener(r, listener):
        rest_listeners(r)


cdef void acceptor_free(Reactor *r) noexcept nogil:
    """Closes what was accepted and not served."""
    cdef int32_t i
    for i in range(r.refusals.count):
        close(<int>r.refusals.items[i].id)
    free(r.refusals.items)
    if r.plane != NULL and r.index == 0 and r.plane.accept.listeners != NULL:
        for i in range(r.plane.listener_count):
            if r.plane.accept.listeners[i].held_fd >= 0:
                close(r.plane.accept.listeners[i].held_fd)
