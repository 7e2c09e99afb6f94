"""What reactors hand to the control thread: requests of every API but Produce and Fetch, and slow batches."""
from libc.stdint cimport int64_t, uint8_t
from bowstring._native.plane cimport Connection, ControlMessage, Plane, ProducePart, Reactor, RequestHeader

cdef bint control_send_request(
    Connection *c, const RequestHeader *header, int64_t slot, const uint8_t *body, int64_t n) noexcept nogil
cdef bint control_send_batch(Reactor *r, ProducePart *part, const uint8_t *batch, int64_t n) noexcept nogil
cdef ControlMessage *control_take_all(Plane *plane) noexcept nogil

# One line for the broker's log, written by the control thread
cdef void plane_event(Plane *plane, int level, const char *name, const char *detail) noexcept nogil
