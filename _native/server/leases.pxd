"""Answers requests by leases; see lease_types.pxd."""
from bowstring._native.base.wire cimport Reader
from bowstring._native.server.connection_types cimport Connection
from bowstring._native.server.control_types cimport RequestHeader
from bowstring._native.server.lease_types cimport Lease
from bowstring._native.server.reactor_types cimport Reactor

# NULL: none.
cdef void lease_release(Lease *lease) noexcept nogil
# Replaces the lease of a connection, and takes over the caller's reference.
cdef void lease_give(Connection *c, Lease *lease) noexcept nogil
# Answers a request that the connection's lease is for; False: the control thread must.
cdef bint lease_answer(Reactor *r, Connection *c, const RequestHeader *header, const Reader *body) noexcept nogil
