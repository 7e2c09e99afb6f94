"""Encodes Produce responses."""
from bowstring._native.server.produce_types cimport ProducePart, ProduceRequest
from bowstring._native.server.reactor_types cimport Reactor
from bowstring._native.base.wire cimport Writer

# Encodes a response with length and header; sets writer.failed when memory ran out.
cdef void produce_encode(Writer *w, const ProduceRequest *request) noexcept nogil

# For a refused part: keeps at most as many listed records as a response may have, and counts their memory until the
# response is sent.
cdef void record_errors_hold(Reactor *r, ProducePart *part) noexcept nogil
cdef void record_errors_free(ProduceRequest *request) noexcept nogil
