"""The reactors' queue to the control thread: requests of all APIs but Produce and Fetch, slow batches, events."""
from libc.stdint cimport int64_t, uint8_t
from bowstring._native.server.connection_types cimport Connection
from bowstring._native.server.control_types cimport ControlMessage, RequestHeader
from bowstring._native.server.plane_types cimport Plane
from bowstring._native.server.produce_types cimport ProducePart
from bowstring._native.server.reactor_types cimport Reactor

cdef bint control_send_request(
    Connection *c, const RequestHeader *header, int64_t slot, const uint8_t *body, int64_t n,
    int64_t counted_bytes) noexcept nogil
cdef bint control_send_batch(Reactor *r, ProducePart *part, const uint8_t *batch, int64_t n) noexcept nogil
# Reports that a connection has ended, behind its requests; not without memory.
cdef void control_send_end(Connection *c) noexcept nogil
# Passes on the certificate (DER) of a TLS client; the connection is to be in PHASE_CERTIFICATE, which MAIL_ADMIT ends.
cdef bint control_send_certificate(Connection *c, const uint8_t *certificate, int64_t n) noexcept nogil
cdef void message_free(Plane *plane, ControlMessage *m) noexcept nogil
cdef ControlMessage *control_take_all(Plane *plane) noexcept nogil

# Queues a line for the broker's log. `level`: 0 info, 1 warning, 2 error.
cdef void plane_event(Plane *plane, int level, const char *name, const char *detail) noexcept nogil
