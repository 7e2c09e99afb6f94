"""Produce: parsed, checked, gathered per partition, written, answered."""
from bowstring._native.plane cimport Connection, ProducePart, Reactor, RequestHeader
from bowstring._native.wire cimport Reader

cdef bint produce_receive(Reactor *r, Connection *c, const RequestHeader *header, Reader *body) noexcept nogil
cdef void produce_flush(Reactor *r) noexcept nogil
cdef void produce_acknowledged(Reactor *r, ProducePart *part) noexcept nogil
cdef void produce_slow_batch_done(Reactor *r, ProducePart *part) noexcept nogil
cdef void produce_timed_out(Reactor *r, void *request) noexcept nogil
cdef void produce_abandon(Reactor *r) noexcept nogil
