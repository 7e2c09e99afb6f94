"""The tickets with which a client's later handshakes resume sessions (RFC 5077; RFC 8446, section 2.2).

A cache belongs to one client context, so a ticket is only used with the keys, trust and settings that it was got with. Each
is used once: an observer could otherwise link connections (RFC 8446, appendix C.4). Streams of several threads share it.
"""
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memmove, strcmp, strdup
from bowstring._native.base.pthread cimport (
    pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock)
from bowstring._native.tls.openssl cimport openssl
from bowstring._native.tls.stream_types cimport TICKETS_MAX, Ticket, TlsTickets


cdef TlsTickets *tickets_new() noexcept nogil:
    cdef TlsTickets *tickets = <TlsTickets *>calloc(1, sizeof(TlsTickets))
    if tickets != NULL:
        pthread_mutex_init(&tickets.lock, NULL)
        tickets.references = 1
    return tickets


cdef TlsTickets *tickets_retain(TlsTickets *tickets) noexcept nogil:
    pthread_mutex_lock(&tickets.lock)
    tickets.references += 1
    pthread_mutex_unlock(&tickets.lock)
    return tickets


cdef void tickets_release(TlsTickets *tickets) noexcept nogil:
    cdef bint last
    if tickets == NULL:
        return
    pthread_mutex_lock(&tickets.lock)
    tickets.references -= 1
    last = tickets.references == 0
    pthread_mutex_unlock(&tickets.lock)
    if not last:
        return
    while tickets.count > 0:
        openssl.SSL_SESSION_free(take(tickets, tickets.count - 1))
    pthread_mutex_destroy(&tickets.lock)
    free(tickets)


cdef void *take(TlsTickets *tickets, int32_t i) noexcept nogil:
    cdef void *session = tickets.items[i].session
    free(tickets.items[i].peer)
    tickets.count -= 1
    memmove(&tickets.items[i], &tickets.items[i + 1], (tickets.count - i) * sizeof(Ticket))
    return session


cdef void tickets_put(TlsTickets *tickets, const char *peer, void *session) noexcept nogil:
    cdef char *name = strdup(peer)
    cdef void *oldest = NULL
    if name == NULL:
        openssl.SSL_SESSION_free(session)
        return
    pthread_mutex_lock(&tickets.lock)
    if tickets.count == TICKETS_MAX:
        oldest = take(tickets, 0)
    tickets.items[tickets.count] = Ticket(name, session)
    tickets.count += 1
    pthread_mutex_unlock(&tickets.lock)
    if oldest != NULL:
        openssl.SSL_SESSION_free(oldest)


cdef void *tickets_take(TlsTickets *tickets, const char *peer) noexcept nogil:
    cdef void *session = NULL
    cdef int32_t i
    pthread_mutex_lock(&tickets.lock)
    for i in range(tickets.count - 1, -1, -1):
        if strcmp(tickets.items[i].peer, peer) == 0:
            session = take(tickets, i)
            break
    pthread_mutex_unlock(&tickets.lock)
    return session
