"""Produce: parses requests, checks batches, gathers them by partition, writes and answers them."""
from bowstring._native.server.connection_types cimport Connection
from bowstring._native.server.control_types cimport RequestHeader
from bowstring._native.server.produce_types cimport ProducePart
from bowstring._native.server.reactor_types cimport Reactor
from bowstring._native.wal.types cimport Wal
from bowstring._native.base.wire cimport Reader

cdef bint produce_receive(Reactor *r, Connection *c, const RequestHeader *header, Reader *body) noexcept nogil
# Returns the write-ahead log that is too full for the request's batches; NULL: the request need not wait. Changes nothing.
cdef Wal *produce_blocked(Reactor *r, const RequestHeader *header, Reader body) noexcept nogil
cdef void produce_flush(Reactor *r) noexcept nogil
# Continues with batches that earlier passes have deferred. Replies are flushed before and after it.
cdef void produce_continue(Reactor *r) noexcept nogil
cdef void produce_acknowledged(Reactor *r, ProducePart *part) noexcept nogil
cdef void produce_slow_batch_done(Reactor *r, ProducePart *part) noexcept nogil
cdef void produce_timed_out(Reactor *r, void *request) noexcept nogil
cdef void produce_abandon(Reactor *r) noexcept nogil
