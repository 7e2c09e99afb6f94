"""Receives and sends on connections with TLS, see tls_io.pyx."""
from libc.stdint cimport int64_t
from bowstring._native.server.connection_types cimport Connection
from bowstring._native.server.reactor_types cimport Reactor
from bowstring._native.server.tls_types cimport ConnectionList

cdef enum:
    RAW_BYTES = 128 * 1024          # of TlsWork.raw

cdef enum SendResult:
    SEND_DONE                       # all is sent
    SEND_LATER                      # the socket is full, or others wait: go on when it takes more
    SEND_BROKEN                     # the connection must be closed
    SEND_SHORT_FILE                 # a file has fewer bytes than announced

# Prepares a new connection: a TLS listener's waits for the handshake. False when memory or descriptors ran out.
cdef bint tls_expect(Connection *c) noexcept nogil
# Sends close_notify and frees what the connection has of TLS, if anything.
cdef void tls_end(Connection *c) noexcept nogil
# Receives and decrypts to the end of the buffer, and returns the number of bytes that came. `ended`: no more will come.
cdef int64_t tls_receive(Connection *c, bint *ended) noexcept nogil
# Sends queued replies.
cdef SendResult tls_send(Connection *c) noexcept nogil
# Reports a failed handshake, or counts it when another was reported in the same second.
cdef void tls_tell(Connection *c, const char *event, const char *why) noexcept nogil
cdef bint tls_work(Reactor *r) noexcept nogil
cdef void tls_work_free(Reactor *r) noexcept nogil

cdef void list_append(ConnectionList *list, Connection *c) noexcept nogil
cdef void list_remove(ConnectionList *list, Connection *c) noexcept nogil
