"""Receives and sends on connections with TLS. Runs only on the owning reactor's thread.

Received bytes come into a buffer that all connections of the reactor share, and are decrypted from there into the
connection's own: nothing stays behind but a partial record. Replies are gathered (files by pread), encrypted into another
shared buffer and sent with few system calls. Both stay in the processor's cache. What the socket does not take is kept
with the connection, one such buffer at most, and nothing more is encrypted before it is sent.
"""
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int64_t, uint32_t, uint8_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy
from posix.unistd cimport close
from bowstring._native.base.atomics cimport bump_i64
from bowstring._native.disk.file_ops cimport read_range
from bowstring._native.server.chunks cimport chunk_pop
from bowstring._native.server.connection_types cimport Chunk, Connection
from bowstring._native.server.control_queue cimport plane_event
from bowstring._native.server.reactor_types cimport Reactor
from bowstring._native.server.tls_types cimport HANDSHAKES_TAG, ConnectionList, TlsWork
from bowstring._native.tls.stream_types cimport TLS_CLOSED, TLS_OK, TLS_SLACK, TlsBuffer, TlsStatus, TlsStream

cdef extern from "server/sockets.h":
    int epoll_set(int epoll_fd, int op, int fd, uint32_t events, void *item) nogil
    bint others_wait(int epoll_fd, const void *item) nogil
    int EPOLL_CTL_ADD
    uint32_t EPOLLIN
    ssize_t send(int fd, const void *data, size_t n, int flags) nogil
    ssize_t recv(int fd, void *data, size_t n, int flags) nogil
    int MSG_NOSIGNAL, MSG_DONTWAIT, MSG_MORE

cdef extern from "<sys/epoll.h>" nogil:
    int epoll_create1(int flags)
    int EPOLL_CLOEXEC

cdef enum:
    PLAIN_BYTES = 64 * 1024         # whole records: OpenSSL makes them of 16 KiB
    RECORD_BYTES = 16 * 1024        # a piece of this size is encrypted from where it is
    SEAL_BYTES = 128 * 1024         # to send with one call
    TLS_LOOK_BYTES = 256 * 1024     # to one connection, until it is looked whether others wait
    TLS_TURN_BYTES = 2 * 1024 * 1024    # to one connection, until timers and others go on in any case
    TELL_MS = 1000

# ---------------------------------------------------------------- life


cdef bint tls_work(Reactor *r) noexcept nogil:
    """Makes the reactor's part, once. False when memory or descriptors ran out."""
    cdef TlsWork *work
    if r.tls != NULL:
        return True
    work = <TlsWork *>calloc(1, sizeof(TlsWork))
    if work == NULL:
        return False
    work.silent_fd = epoll_create1(EPOLL_CLOEXEC)
    work.begun_fd = epoll_create1(EPOLL_CLOEXEC)
    work.raw = <uint8_t *>malloc(RAW_BYTES)
    work.plain = <uint8_t *>malloc(PLAIN_BYTES)
    r.tls = work
    if (work.raw == NULL or work.plain == NULL
            or epoll_set(r.epoll_fd, EPOLL_CTL_ADD, work.silent_fd, EPOLLIN, <void *>HANDSHAKES_TAG) != 0
            or epoll_set(r.epoll_fd, EPOLL_CTL_ADD, work.begun_fd, EPOLLIN, <void *>HANDSHAKES_TAG) != 0):
        tls_work_free(r)
        return False
    return True


cdef void tls_work_free(Reactor *r) noexcept nogil:
    if r.tls == NULL:
        return
    if r.tls.silent_fd >= 0:
        close(r.tls.silent_fd)
    if r.tls.begun_fd >= 0:
        close(r.tls.begun_fd)
    free(r.tls.raw)
    free(r.tls.plain)
    free(r.tls.sealed.data)
    free(r.tls)
    r.tls = NULL


cdef void list_append(ConnectionList *list, Connection *c) noexcept nogil:
    c.next_handshake = NULL
    c.previous_handshake = list.tail
    if list.tail == NULL:
        list.head = c
    else:
        list.tail.next_handshake = c
    list.tail = c
    list.count += 1


cdef void list_remove(ConnectionList *list, Connection *c) noexcept nogil:
    if c.previous_handshake == NULL:
        list.head = c.next_handshake
    else:
        c.previous_handshake.next_handshake = c.next_handshake
    if c.next_handshake == NULL:
        list.tail = c.previous_handshake
    else:
        c.next_handshake.previous_handshake = c.previous_handshake
    list.count -= 1


cdef bint tls_expect(Connection *c) noexcept nogil:
    cdef Reactor *r = c.reactor
    if c.listener < 0 or r.plane.tls_ports[c.listener] == NULL:
        return True
    if not tls_work(r):
        return False
    c.handshaking = True
    c.handshake_from_ms = r.now_ms
    list_append(&r.tls.silent, c)
    return True


cdef void tls_end(Connection *c) noexcept nogil:
    if c.handshaking:
        if c.tls != NULL:
            c.reactor.tls.begun_of[c.host_group] -= 1
        list_remove(&c.reactor.tls.begun if c.tls != NULL else &c.reactor.tls.silent, c)
        c.handshaking = False
    if c.tls != NULL:
        if not c.tls.peer_gone:
            c.tls.calls.close(c.tls)
            flush(c, &c.tls.unsent, 0)
        c.tls.calls.free(c.tls)
        c.tls = NULL


cdef void tls_tell(Connection *c, const char *event, const char *why) noexcept nogil:
    cdef char text[400]
    cdef TlsWork *work = c.reactor.tls
    if work.told_ms > 0 and c.reactor.now_ms - work.told_ms < TELL_MS:
        work.untold += 1
        return
    if work.untold > 0:
        snprintf(text, sizeof(text), b"%s: %s (and %lld more since the last report)", c.peer, why,
                 <long long>work.untold)
    else:
        snprintf(text, sizeof(text), b"%s: %s", c.peer, why)
    work.told_ms = c.reactor.now_ms
    work.untold = 0
    plane_event(c.reactor.plane, 1, event, text)

# ---------------------------------------------------------------- receiving


cdef int64_t tls_receive(Connection *c, bint *ended) noexcept nogil:
    cdef Reactor *r = c.reactor
    cdef int64_t room = c.capacity - c.end, produced = 0
    cdef ssize_t n
    cdef TlsStatus status
    if not tls_work(r):
        ended[0] = True
        return 0
    if room <= TLS_SLACK:                                # the end of this pass makes room
        return 0
    n = recv(c.fd, r.tls.raw, min(room - TLS_SLACK, RAW_BYTES), 0)
    if n <= 0:
        ended[0] = c.tls.peer_gone = n == 0 or (errno != EAGAIN and errno != EINTR)
        return 0
    status = c.tls.calls.receive(c.tls, r.tls.raw, n, c.buffer + c.end, room, &produced)
    c.end += produced
    if status != TLS_OK:
        ended[0] = True
        if status != TLS_CLOSED:
            tls_tell(c, b"tls-broken", c.tls.why)
    return n

# ---------------------------------------------------------------- sending


cdef int more_of(const Connection *c) noexcept nogil:
    """The flag that joins what is sent now with what comes next: else each call ends with a small segment."""
    return MSG_MORE if c.out_head != NULL else 0


cdef bint flush(Connection *c, TlsBuffer *buffer, int more) noexcept nogil:
    """Sends what the socket takes. `more`: see more_of(). False when the connection is broken."""
    cdef ssize_t sent
    while buffer.start < buffer.end:
        sent = send(c.fd, buffer.data + buffer.start, buffer.end - buffer.start, MSG_NOSIGNAL | MSG_DONTWAIT | more)
        if sent < 0:
            if errno == EINTR:
                continue
            return errno == EAGAIN
        buffer.start += sent
        bump_i64(&c.reactor.sent_bytes, sent)
        c.last_active_ms = c.reactor.now_ms
    return True


cdef bint flush_unsent(Connection *c) noexcept nogil:
    cdef TlsBuffer *unsent = &c.tls.unsent
    if not flush(c, unsent, more_of(c)):
        return False
    if unsent.start == unsent.end and unsent.data != NULL:
        free(unsent.data)
        unsent.data = NULL
        unsent.start = unsent.end = unsent.capacity = 0
    return True


cdef bint keep(Connection *c, const TlsBuffer *sealed) noexcept nogil:
    """Keeps what the socket did not take. `unsent` is empty before. False when memory ran out."""
    cdef TlsBuffer *unsent = &c.tls.unsent
    cdef int64_t n = sealed.end - sealed.start
    unsent.data = <uint8_t *>malloc(n)
    if unsent.data == NULL:
        return False
    memcpy(unsent.data, sealed.data + sealed.start, n)
    unsent.start = 0
    unsent.end = unsent.capacity = n
    return True


cdef int64_t take_bytes(Connection *c, uint8_t *into, int64_t room, bint *broken) noexcept nogil:
    """Moves bytes of the first chunk to `into`, or encrypts a large piece directly and returns 0."""
    cdef Chunk *chunk = c.out_head
    cdef int64_t n = chunk.end - chunk.position
    if room == PLAIN_BYTES and n >= RECORD_BYTES:
        n = min(n, PLAIN_BYTES)
        broken[0] = not c.tls.calls.encrypt(c.tls, chunk.data + chunk.position, n)
        chunk.position += n
        n = 0
    else:
        n = min(n, room)
        memcpy(into, chunk.data + chunk.position, n)
        chunk.position += n
    if chunk.position == chunk.end:
        chunk_pop(c)
    return n


cdef SendResult seal_some(Connection *c, uint8_t *plain, TlsBuffer *into) noexcept nogil:
    """Encrypts the next replies to the end of `into`, until it has SEAL_BYTES, or all. Gathers them in `plain`."""
    cdef SendResult result
    c.tls.sink = into
    result = seal_until(c, plain, into)
    c.tls.sink = &c.tls.unsent
    return result


cdef SendResult seal_until(Connection *c, uint8_t *plain, const TlsBuffer *into) noexcept nogil:
    cdef Chunk *chunk
    cdef int64_t filled = 0, n
    cdef bint broken = False
    while c.out_head != NULL and into.end < SEAL_BYTES:
        chunk = c.out_head
        if chunk.file == NULL:
            filled += take_bytes(c, plain + filled, PLAIN_BYTES - filled, &broken)
        else:
            n = read_range(chunk.file.fd, plain + filled,
                           min(chunk.end - chunk.position, PLAIN_BYTES - filled), chunk.position)
            if n <= 0:
                return SEND_SHORT_FILE if n == 0 else SEND_BROKEN
            filled += n
            chunk.position += n
            if chunk.position == chunk.end:
                chunk_pop(c)
        if filled == PLAIN_BYTES:
            broken |= not c.tls.calls.encrypt(c.tls, plain, filled)
            filled = 0
        if broken:
            return SEND_BROKEN
    if filled > 0 and not c.tls.calls.encrypt(c.tls, plain, filled):
        return SEND_BROKEN
    return SEND_DONE


cdef SendResult tls_send(Connection *c) noexcept nogil:
    cdef TlsWork *work
    cdef TlsStream *s = c.tls
    cdef SendResult result
    cdef int64_t left = TLS_TURN_BYTES, look = TLS_LOOK_BYTES
    if not tls_work(c.reactor):
        return SEND_BROKEN
    work = c.reactor.tls
    if s.tickets_wait:
        if c.out_head == NULL:
            return SEND_DONE
        s.tickets_wait = False
        result = seal_some(c, work.plain, &s.unsent)
        if result != SEND_DONE:
            return result
    if not flush_unsent(c):
        return SEND_BROKEN
    while s.unsent.end == s.unsent.start and c.out_head != NULL:
        if look <= 0:
            if left <= 0 or others_wait(c.reactor.epoll_fd, c):
                return SEND_LATER
            look = TLS_LOOK_BYTES
        work.sealed.start = work.sealed.end = 0
        result = seal_some(c, work.plain, &work.sealed)
        if result != SEND_DONE:
            return result
        left -= work.sealed.end
        look -= work.sealed.end
        if not flush(c, &work.sealed, more_of(c)):
            return SEND_BROKEN
        if work.sealed.start < work.sealed.end and not keep(c, &work.sealed):
            return SEND_BROKEN
    return SEND_DONE if s.unsent.end == s.unsent.start else SEND_LATER
