"""Frames cut out of a receive buffer, and each handed to what its API key names."""
from bowstring._native.plane cimport Connection, Reactor

cdef void cut_frames(Reactor *r, Connection *c) noexcept nogil
