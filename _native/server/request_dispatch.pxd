"""Cuts frames out of a receive buffer and calls the handler of each frame's API key."""
from bowstring._native.server.types cimport Connection, Reactor

cdef void cut_frames(Reactor *r, Connection *c) noexcept nogil
