"""Runs a reactor's loop: epoll, frames, mail, timers."""
from bowstring._native.server.plane_types cimport Plane
from bowstring._native.server.reactor_types cimport Reactor

cdef bint reactor_init(Reactor *r, Plane *plane, int index) noexcept nogil
cdef bint reactor_start(Reactor *r) noexcept nogil
cdef bint reactor_accept(Reactor *r) noexcept nogil
cdef void reactor_stop(Reactor *r) noexcept nogil
cdef void reactor_close_connections(Reactor *r) noexcept nogil
cdef void reactor_free(Reactor *r) noexcept nogil
