"""Accepts connections on reactor 0 and assigns them to the reactors, within the limits of accept_limits.pxd."""
from libc.stdint cimport int32_t
from bowstring._native.server.accept_types cimport HostEntry
from bowstring._native.server.reactor_types cimport Reactor

cdef enum:
    LISTENER_TAG = 1                # epoll's data of a listener is (index << 1) | 1

cdef bint watch_listener(Reactor *r, int32_t i) noexcept nogil
cdef void accept_all(Reactor *r, int32_t listener) noexcept nogil
# Does what is due: listeners accept again, connections that came too fast are served, or closed.
cdef void accept_resume(Reactor *r) noexcept nogil
# Opens a connection that was accepted for this reactor. It counts for its host until it ends.
cdef void open_accepted(Reactor *r, int fd, int32_t listener, HostEntry *host) noexcept nogil
cdef void acceptor_free(Reactor *r) noexcept nogil
