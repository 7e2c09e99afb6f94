"""TLS handshakes of accepted connections. Runs only on the owning reactor's thread.

A handshake costs as much as thousands of small requests. So connections are in epolls of their own until theirs is done,
and a pass spends BUDGET_NS on them, and at most one step more: twenty thousand that come at once delay others by that, and
do not fill the reactor's list of events. A connection has no memory of OpenSSL before its handshake begins. Those that have
begun go on first: otherwise many clients that come at once would all begin before the first is done. BEGUN_MAX may have
begun; then others wait, until one is done, or until the oldest is SLOW_MS old and is given up. One of a host that has few
does not wait: among LOOK_MAX that have sent something, that of the host with the fewest begins first, and takes the place of
one of the host with the most. A handshake must end within bowstring.authentication.timeout.ms.
"""
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int32_t, int64_t, uint32_t, uint8_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free
from libc.string cimport strstr
from bowstring._native.base.atomics cimport bump_i64
from bowstring._native.base.clock cimport monotonic_ns
from bowstring._native.server.connection cimport (
    connection_borrow_buffer, connection_condemn, connection_send, connection_set_phase, connection_touch)
from bowstring._native.server.connection_types cimport PHASE_CERTIFICATE, PHASE_OPEN, Connection
from bowstring._native.server.control_queue cimport control_send_certificate
from bowstring._native.server.reactor_types cimport Reactor
from bowstring._native.server.request_dispatch cimport cut_frames
from bowstring._native.server.tls_io cimport list_append, list_remove, tls_tell
from bowstring._native.server.tls_types cimport HANDSHAKES_TAG, HOST_GROUPS, ConnectionList, TlsWork
from bowstring._native.tls.stream_types cimport TLS_CLOSED, TLS_FAILED, TlsPort, TlsStatus

cdef extern from "server/sockets.h":
    int epoll_set(int epoll_fd, int op, int fd, uint32_t events, void *item) nogil
    int EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD
    uint32_t EPOLLIN, EPOLLOUT
    ssize_t recv(int fd, void *data, size_t n, int flags) nogil
    ctypedef union epoll_data_t:
        void *ptr
    cdef struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_wait(int epoll_fd, epoll_event *events, int n, int timeout_ms) nogil

cdef enum:
    BUDGET_NS = 1000000
    BEGUN_MAX = 1024                # of a reactor; each has about 45 KB
    SLOW_MS = 1000                  # several round trips around the world
    SAMPLE = 32                     # connections that one call of epoll_wait names
    LOOK_MAX = 512
    FEW = 8                         # handshakes of a host that nobody looks further for
    LOOK_MS = 20                    # between looks while others wait
    RECEIVE_BYTES = 16 * 1024       # larger than what a client without a certificate sends
    RECORD_HANDSHAKE = 22           # first byte of a TLS client's first record


cdef const char *cure_of(const char *why) noexcept nogil:
    """What to do about a reason of OpenSSL."""
    if strstr(why, b"unknown ca") != NULL or strstr(why, b"alert certificate unknown") != NULL:
        return b"the client does not trust this broker's certificate: set its ssl.truststore.location"
    if strstr(why, b"did not return a certificate") != NULL:
        return b"ssl.client.auth=required: the client must set ssl.keystore.location"
    if strstr(why, b"certificate verify failed") != NULL:
        return b"the client's certificate is not from an authority in ssl.truststore.location, or its time is over"
    if strstr(why, b"protocol") != NULL:
        return b"the client offers other versions than ssl.enabled.protocols"
    if strstr(why, b"no shared cipher") != NULL:
        return b"the client offers other ciphers than ssl.cipher.suites, or for keys of another kind"
    return b"see the client's log"


cdef void give_up(Connection *c, const char *event, const char *why) noexcept nogil:
    """Closes the connection at the end of this pass; until then it has no more events."""
    cdef Reactor *r = c.reactor
    if c.closing:
        return
    bump_i64(&r.tls_failures, 1)
    if event != NULL:
        tls_tell(c, event, why)
    epoll_set(r.tls.silent_fd if c.tls == NULL else r.tls.begun_fd, EPOLL_CTL_DEL, c.fd, 0, NULL)
    connection_condemn(c)


cdef bint begin(Connection *c) noexcept nogil:
    """Checks the first bytes, and opens the stream. False: the connection is given up."""
    cdef Reactor *r = c.reactor
    cdef TlsWork *work = r.tls
    cdef const TlsPort *port = r.plane.tls_ports[c.listener]
    if work.raw[0] != RECORD_HANDSHAKE:
        give_up(c, b"plaintext-on-tls", b"a client sent plain text to a TLS listener; set security.protocol=SSL "
                                        b"(or SASL_SSL) in the client, or use a listener without TLS")
        return False
    c.tls = port.calls.open(port, NULL, NULL)
    if c.tls == NULL:
        give_up(c, b"tls-no-memory", b"there is no memory for a TLS handshake")
        return False
    epoll_set(work.silent_fd, EPOLL_CTL_DEL, c.fd, 0, NULL)
    list_remove(&work.silent, c)
    list_append(&work.begun, c)
    work.begun_of[c.host_group] += 1
    c.handshake_from_ms = r.now_ms
    if epoll_set(work.begun_fd, EPOLL_CTL_ADD, c.fd, EPOLLIN, c) != 0:
        give_up(c, NULL, NULL)
        return False
    return True


cdef bint make_room(Reactor *r) noexcept nogil:
    """Whether another handshake may begin; gives a slow one up for it."""
    cdef Connection *oldest = r.tls.begun.head
    cdef int64_t ending = 0
    while oldest != NULL and oldest.closing:             # they leave the list at the end of the pass
        oldest = oldest.next_handshake
        ending += 1
    if r.tls.begun.count - ending < BEGUN_MAX:
        return True
    if r.now_ms - oldest.handshake_from_ms < SLOW_MS:
        return False
    give_up(oldest, b"tls-handshakes-full",
            b"too many TLS handshakes at once: the oldest is given up; see the addresses of the clients")
    return True


cdef bint take_room(Reactor *r, const Connection *c) noexcept nogil:
    """Whether the handshake of a host with few may begin although there is no room: one of the host with the most ends."""
    cdef TlsWork *work = r.tls
    cdef Connection *other = work.begun.head
    cdef int32_t i, most = 0
    for i in range(HOST_GROUPS):
        if work.begun_of[i] > work.begun_of[most]:
            most = i
    if work.begun_of[most] <= 2 * (work.begun_of[c.host_group] + 1):
        return False
    while other != NULL and (other.closing or other.host_group != most):
        other = other.next_handshake
    if other == NULL:
        return False
    give_up(other, b"tls-handshakes-full",
            b"too many TLS handshakes of one host at once: its oldest is given up; see the addresses of the clients")
    return True


cdef Connection *next_silent(Reactor *r) noexcept nogil:
    """The connection that begins next; NULL: none has sent anything. epoll names those that it has named last."""
    cdef epoll_event events[SAMPLE]
    cdef TlsWork *work = r.tls
    cdef Connection *c
    cdef Connection *found = NULL
    cdef int i, n, looked = 0
    while looked < LOOK_MAX:
        n = epoll_wait(work.silent_fd, events, SAMPLE, 0)
        for i in range(n):
            c = <Connection *>events[i].data.ptr
            if c.closing:
                epoll_set(work.silent_fd, EPOLL_CTL_DEL, c.fd, 0, NULL)
            elif found == NULL or work.begun_of[c.host_group] < work.begun_of[found.host_group]:
                found = c
        looked += max(n, 1)
        if n < SAMPLE or (found != NULL and work.begun_of[found.host_group] < FEW):
            break
    return found


cdef void look_for_others(Reactor *r) noexcept nogil:
    """While there is no room: begins a handshake of a host with few, if one waits."""
    cdef Connection *c
    if r.now_ms - r.tls.looked_ms < LOOK_MS:
        return
    r.tls.looked_ms = r.now_ms
    c = next_silent(r)
    if c != NULL and take_room(r, c):
        shake(c)


cdef void wait_for_room(Reactor *r, bint waits) noexcept nogil:
    """Has the reactor's epoll report silent connections, or not. Adding an epoll to another looks at all that it has."""
    if r.tls.waits != waits:
        r.tls.waits = waits
        epoll_set(r.epoll_fd, EPOLL_CTL_MOD, r.tls.silent_fd, 0 if waits else EPOLLIN, <void *>HANDSHAKES_TAG)


cdef void established(Connection *c) noexcept nogil:
    """The connection becomes one as others are; a client with a certificate waits for its principal."""
    cdef Reactor *r = c.reactor
    cdef uint8_t *der = NULL
    cdef int64_t n
    cdef bint unsent = c.tls.unsent.end > c.tls.unsent.start and not c.tls.tickets_wait
    bump_i64(&r.tls_handshakes, 1)
    if c.tls.resumed:
        bump_i64(&r.tls_resumed, 1)
    epoll_set(r.tls.begun_fd, EPOLL_CTL_DEL, c.fd, 0, NULL)
    list_remove(&r.tls.begun, c)
    r.tls.begun_of[c.host_group] -= 1
    c.handshaking = False
    c.reading = True
    c.writing = unsent
    if epoll_set(r.epoll_fd, EPOLL_CTL_ADD, c.fd, EPOLLIN | (EPOLLOUT if unsent else 0), c) != 0:
        connection_condemn(c)
        return
    if c.phase == PHASE_OPEN and r.plane.tls_ports[c.listener].asks_certificate:
        n = c.tls.calls.peer_certificate(c.tls, &der)
        if n != 0:
            connection_set_phase(c, PHASE_CERTIFICATE)
            if n < 0 or not control_send_certificate(c, der, n):    # it is not a client without a certificate
                connection_condemn(c)
        free(der)
    cut_frames(r, c)


cdef void shake(Connection *c) noexcept nogil:
    """Goes on with one handshake."""
    cdef Reactor *r = c.reactor
    cdef ssize_t n
    cdef int64_t produced = 0
    cdef TlsStatus status
    cdef char text[360]
    cdef const char *event = NULL
    if c.tls != NULL and c.tls.unsent.end > c.tls.unsent.start and not connection_send(c):
        give_up(c, NULL, NULL)
        return
    connection_touch(c)
    if not connection_borrow_buffer(c):
        give_up(c, NULL, NULL)
        return
    n = recv(c.fd, r.tls.raw, RECEIVE_BYTES, 0)
    if n <= 0:
        if n == 0 or (errno != EAGAIN and errno != EINTR):
            if c.tls != NULL:
                c.tls.peer_gone = True
                event = b"tls-aborted"
            give_up(c, event, b"the client closed the connection in the TLS handshake")
        return
    bump_i64(&r.received_bytes, n)
    c.last_active_ms = r.now_ms
    if c.tls == NULL and not begin(c):
        return
    status = c.tls.calls.receive(c.tls, r.tls.raw, n, c.buffer + c.end, c.capacity - c.end, &produced)
    c.end += produced
    connection_send(c)                                   # also an alert
    if status == TLS_FAILED:
        snprintf(text, sizeof(text), b"the TLS handshake failed: %s; %s", c.tls.why, cure_of(c.tls.why))
        give_up(c, b"tls-handshake-failed", text)
    elif status == TLS_CLOSED:
        give_up(c, NULL, NULL)
    elif c.tls.established and not c.closing:
        established(c)


cdef void handshakes_run(Reactor *r) noexcept nogil:
    cdef epoll_event event
    cdef Connection *c
    cdef TlsWork *work = r.tls
    cdef int64_t until_ns = monotonic_ns() + BUDGET_NS
    while True:
        if epoll_wait(work.begun_fd, &event, 1, 0) != 1:
            if work.waits:
                return
            c = next_silent(r)
            if c == NULL:
                return
            if not make_room(r) and not take_room(r, c):
                wait_for_room(r, True)
                return
        else:
            c = <Connection *>event.data.ptr
        if c.closing:
            epoll_set(work.begun_fd, EPOLL_CTL_DEL, c.fd, 0, NULL)
        else:
            shake(c)
        if monotonic_ns() >= until_ns:
            return


cdef void expire(Reactor *r, ConnectionList *list) noexcept nogil:
    cdef Connection *c = list.head
    while c != NULL and r.now_ms - c.handshake_from_ms > r.plane.authentication_max_ms:
        give_up(c, b"tls-timeout", b"the client has not ended the TLS handshake in bowstring.authentication.timeout.ms")
        c = c.next_handshake


cdef void handshakes_expire(Reactor *r) noexcept nogil:
    expire(r, &r.tls.silent)
    expire(r, &r.tls.begun)
    if r.tls.waits:
        if make_room(r):
            wait_for_room(r, False)
        else:
            look_for_others(r)


cdef int64_t handshakes_due_ms(const Reactor *r, int64_t due_ms) noexcept nogil:
    cdef int64_t limit = r.plane.authentication_max_ms + 1
    if r.tls.silent.head != NULL and (due_ms < 0 or r.tls.silent.head.handshake_from_ms + limit < due_ms):
        due_ms = r.tls.silent.head.handshake_from_ms + limit
    if r.tls.begun.head != NULL and (due_ms < 0 or r.tls.begun.head.handshake_from_ms + limit < due_ms):
        due_ms = r.tls.begun.head.handshake_from_ms + limit
    if r.tls.waits and r.tls.begun.head != NULL:
        due_ms = min(due_ms, r.tls.begun.head.handshake_from_ms + SLOW_MS)
        due_ms = min(due_ms, r.tls.looked_ms + LOOK_MS)
    return due_ms
