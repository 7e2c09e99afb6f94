"""The tickets with which a client's later handshakes resume sessions, see tickets.pyx."""
from bowstring._native.tls.stream_types cimport TlsTickets

# A new cache with one reference; NULL when memory ran out.
cdef TlsTickets *tickets_new() noexcept nogil
cdef TlsTickets *tickets_retain(TlsTickets *tickets) noexcept nogil
# NULL is allowed.
cdef void tickets_release(TlsTickets *tickets) noexcept nogil

# Keeps a session (SSL_SESSION), which it owns from now on, for the peer of this name.
cdef void tickets_put(TlsTickets *tickets, const char *peer, void *session) noexcept nogil

# Removes and returns the newest session of a peer, which the caller owns; NULL: none.
cdef void *tickets_take(TlsTickets *tickets, const char *peer) noexcept nogil
