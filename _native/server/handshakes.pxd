"""TLS handshakes of accepted connections, see handshakes.pyx."""
from libc.stdint cimport int64_t
from bowstring._native.server.reactor_types cimport Reactor

# Handles events of TlsWork.epoll_fd, for a limited time.
cdef void handshakes_run(Reactor *r) noexcept nogil
# Closes connections whose handshake takes too long.
cdef void handshakes_expire(Reactor *r) noexcept nogil
# The earlier one of `due_ms` (-1: never) and the time of the next handshakes_expire().
cdef int64_t handshakes_due_ms(const Reactor *r, int64_t due_ms) noexcept nogil
