"""Cuts frames out of a receive buffer and calls the handler of each frame's API key."""
from bowstring._native.server.connection_types cimport Connection
from bowstring._native.server.reactor_types cimport Reactor

cdef void cut_frames(Reactor *r, Connection *c) noexcept nogil
