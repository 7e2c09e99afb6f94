"""Fetch: parses and evaluates requests, and answers or parks them."""
from libc.stdint cimport int64_t
from bowstring._native.server.connection_types cimport Connection
from bowstring._native.server.control_types cimport RequestHeader
from bowstring._native.server.fetch_types cimport FetchRequest
from bowstring._native.server.reactor_types cimport Reactor
from bowstring._native.base.wire cimport Reader

cdef bint fetch_receive(Reactor *r, Connection *c, const RequestHeader *header, Reader *body) noexcept nogil
cdef void fetch_serve_ready(Reactor *r) noexcept nogil
cdef void fetch_woken(Reactor *r, int64_t fetch_id, int64_t bytes) noexcept nogil
cdef void fetch_access_changed(Reactor *r) noexcept nogil
cdef void fetch_timed_out(Reactor *r, FetchRequest *request) noexcept nogil
cdef void fetch_connection_closed(Connection *c) noexcept nogil
