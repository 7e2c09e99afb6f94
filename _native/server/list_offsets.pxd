"""Answers ListOffsets on a reactor."""
from bowstring._native.base.wire cimport Reader
from bowstring._native.server.connection_types cimport Connection
from bowstring._native.server.control_types cimport RequestHeader
from bowstring._native.server.reactor_types cimport Reactor

# Answers a request for the ends of few partitions that this broker leads, which is the usual one. False, with nothing
# done: the control thread must, which has the errors, and the searches by time.
cdef bint list_offsets(Reactor *r, Connection *c, const RequestHeader *header, const Reader *body) noexcept nogil
