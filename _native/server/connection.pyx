"""Handles connections: receive buffers, the order of replies, sending. Runs only on the owning reactor's thread.

A connection has a receive buffer only while the buffer has unread bytes, so ten thousand idle connections cost no
buffers. Replies are sent in the order of the requests. The slot of a Produce that must wait stays unready: later ones
are processed, and their replies queue behind that slot.
"""
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memmove
from posix.unistd cimport close
from bowstring._native.base.atomics cimport bump_i64
from bowstring._native.base.clock cimport monotonic_ns
from bowstring._native.disk.staged_tail cimport TailView, tail_view, view_release
from bowstring._native.server.accept_limits cimport accept_ended
from bowstring._native.server.client_quotas cimport (
    quota_client_release, quota_percent, quota_record, quotas_on)
from bowstring._native.server.chunks cimport chunk_bytes, chunk_pop, chunks_free
from bowstring._native.server.control_queue cimport control_send_end, plane_event
from bowstring._native.server.leases cimport lease_release
from bowstring._native.server.mailbox cimport wake
from bowstring._native.server.id_table cimport id_add, id_find, id_remove
from bowstring._native.server.connection_limits cimport HELD_BYTES_MAX, RECEIVE_BUFFER_BYTES
from bowstring._native.server.connection_types cimport (
    PHASE_AUTHENTICATING, PHASE_CERTIFICATE, PHASE_OPEN, STALL_NONE, STALL_ORDER, STALL_READY, STALL_WAL, Chunk, Connection,
    Phase, Slot, Stall)
from bowstring._native.server.reactor_types cimport POOL_CLASSES, POOL_KEEP_MAX, BufferPool, Reactor, Timer, TimerHeap
from bowstring._native.server.subject_types cimport NO_SUBJECT
from bowstring._native.server.subjects cimport subject_intern, subject_release
from bowstring._native.server.quota_types cimport QUOTA_REQUEST
from bowstring._native.server.timers cimport timer_add, timer_pop
from bowstring._native.server.tls_io cimport (
    SEND_BROKEN, SEND_SHORT_FILE, SendResult, tls_end, tls_expect, tls_send)
from bowstring._native.tls.stream_types cimport TLS_SLACK
from bowstring._native.wal.types cimport Wal

cdef extern from "server/sockets.h":
    void name_peer(int fd, char *out, size_t size) nogil
    void set_nodelay(int fd) nogil
    int epoll_set(int epoll_fd, int op, int fd, uint32_t events, void *item) nogil
    bint others_wait(int epoll_fd, const void *item) nogil
    int EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL
    uint32_t EPOLLIN, EPOLLOUT, EPOLLRDHUP
    cdef struct iovec:
        void *iov_base
        size_t iov_len
    cdef struct msghdr:
        iovec *msg_iov
        size_t msg_iovlen
    void clear_message(msghdr *m) nogil
    ssize_t send(int fd, const void *data, size_t n, int flags) nogil
    int shutdown(int fd, int how) nogil
    int SHUT_RDWR
    ssize_t recv(int fd, void *data, size_t n, int flags) nogil
    int MSG_PEEK
    ssize_t sendmsg(int fd, const msghdr *m, int flags) nogil
    ssize_t sendfile(int out_fd, int in_fd, int64_t *offset, size_t n) nogil
    int MSG_NOSIGNAL, MSG_MORE, MSG_DONTWAIT
    void *mmap(void *addr, size_t n, int prot, int flags, int fd, int64_t offset) nogil
    int munmap(void *addr, size_t n) nogil
    int PROT_READ, PROT_WRITE, MAP_PRIVATE, MAP_ANONYMOUS
    void *MAP_FAILED

cdef enum:
    POOL_KEEP_BYTES = 4 * 1024 * 1024   # of each size class
    CHUNK_BYTES = 4000
    SLOTS_MAX = 1024                    # a connection with this many unanswered requests is not read from
    OUT_BYTES_MAX = 1024 * 1024         # nor one with this many bytes of queued replies
    UNSENT_BYTES_MAX = 256 * 1024       # nor one with this many encrypted bytes: more than one turn leaves
    IOVECS = 32
    LOOK_BYTES = 256 * 1024             # of files to one connection, until it is looked whether others wait
    TURN_BYTES = 4 * 1024 * 1024        # of files to one connection, until timers and others go on in any case
    UNREAD_BYTES = 64
    CLOSE_NOTIFY_BYTES = 31             # at most, of a TLS client that says goodbye: less than any request takes

# ---------------------------------------------------------------- receive buffers


cdef int buffer_class(int64_t n) noexcept nogil:
    cdef int k = 0
    while (<int64_t>RECEIVE_BUFFER_BYTES << k) < n and k < POOL_CLASSES - 1:
        k += 1
    return k


cdef uint8_t *buffer_take(BufferPool *pool, int64_t n, int64_t *capacity) noexcept nogil:
    """Returns a buffer of at least `n` bytes (frames beyond the largest class get one of their own size)."""
    cdef int k = buffer_class(n)
    cdef void *data
    capacity[0] = <int64_t>RECEIVE_BUFFER_BYTES << k
    if capacity[0] < n:
        capacity[0] = (n + 4095) & ~<int64_t>4095
    elif pool.count[k] > 0:
        pool.count[k] -= 1
        return pool.free[k][pool.count[k]]
    data = mmap(NULL, capacity[0], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    return NULL if data == MAP_FAILED else <uint8_t *>data


cdef void buffer_give(BufferPool *pool, uint8_t *data, int64_t capacity) noexcept nogil:
    cdef int k = buffer_class(capacity)
    cdef int64_t keep = POOL_KEEP_BYTES // (<int64_t>RECEIVE_BUFFER_BYTES << k)
    if keep > POOL_KEEP_MAX:
        keep = POOL_KEEP_MAX
    if (<int64_t>RECEIVE_BUFFER_BYTES << k) == capacity and pool.count[k] < keep:
        pool.free[k][pool.count[k]] = data
        pool.count[k] += 1
    else:
        munmap(data, capacity)


cdef void buffer_pool_free(Reactor *reactor) noexcept nogil:
    cdef int k
    for k in range(POOL_CLASSES):
        while reactor.pool.count[k] > 0:
            reactor.pool.count[k] -= 1
            munmap(reactor.pool.free[k][reactor.pool.count[k]], <int64_t>RECEIVE_BUFFER_BYTES << k)


cdef bint connection_borrow_buffer(Connection *c) noexcept nogil:
    """Ensures that the connection has a receive buffer; False when memory ran out."""
    if c.buffer == NULL:
        c.buffer = buffer_take(&c.reactor.pool, RECEIVE_BUFFER_BYTES, &c.capacity)
        c.start = c.end = 0
    return c.buffer != NULL


cdef void connection_fit_buffer(Connection *c) noexcept nogil:
    """Call it after the pass's batches are written: returns an empty buffer to the pool, or makes room for the rest of a
    frame. TLS needs room for what comes in the same record, too."""
    cdef int64_t have = c.end - c.start, need = 4, capacity, spare = TLS_SLACK + 1 if c.tls != NULL else 0
    cdef uint8_t *data
    cdef const uint8_t *at = c.buffer + c.start
    if c.buffer == NULL:
        return
    if have == 0:
        buffer_give(&c.reactor.pool, c.buffer, c.capacity)
        c.buffer = NULL
        c.capacity = c.start = c.end = 0
        return
    if have >= 4:
        need = 4 + ((<int64_t>at[0] << 24) | (at[1] << 16) | (at[2] << 8) | at[3])
        if c.fetcher == NULL:                            # a connection that waits may have a size that will be refused
            need = min(need, 4 + c.reactor.plane.request_max_bytes)
    need = max(need, have if spare > 0 else 0) + spare
    if need > c.capacity:
        data = buffer_take(&c.reactor.pool, need, &capacity)
        if data == NULL:
            c.closing = True
            return
        memcpy(data, at, have)
        buffer_give(&c.reactor.pool, c.buffer, c.capacity)
        c.buffer = data
        c.capacity = capacity
    elif c.start + need > c.capacity or c.capacity - c.end < c.capacity // 4:
        memmove(c.buffer, at, have)
    else:
        return
    c.start = 0
    c.end = have

# ---------------------------------------------------------------- reply order


cdef int64_t connection_open_slot(Connection *c) noexcept nogil:
    """Opens a reply slot for the request just read and returns its number; -1 when memory ran out."""
    cdef int64_t capacity, i
    cdef Slot *slots
    if c.tail_slot - c.head_slot == c.slot_capacity:
        capacity = c.slot_capacity * 2 if c.slot_capacity > 0 else 8
        slots = <Slot *>calloc(capacity, sizeof(Slot))
        if slots == NULL:
            return -1
        for i in range(c.head_slot, c.tail_slot):
            slots[i & (capacity - 1)] = c.slots[i & (c.slot_capacity - 1)]
        free(c.slots)
        c.slots = slots
        c.slot_capacity = capacity
    i = c.tail_slot
    c.tail_slot += 1
    c.slots[i & (c.slot_capacity - 1)] = Slot(0, 0, NULL, 0)
    c.requests += 1
    return i


cdef void want_flush(Connection *c) noexcept nogil:
    cdef Reactor *r = c.reactor
    if c.in_flush_list or c.writing:
        return
    r.to_flush[r.to_flush_count] = c
    r.to_flush_count += 1
    c.in_flush_list = True


cdef void queue_out(Connection *c, Chunk *head) noexcept nogil:
    cdef Chunk *chunk = head
    want_flush(c)                                        # also without bytes: the connection may be read from again
    if head == NULL:
        return
    if c.out_tail == NULL:
        c.out_head = head
    else:
        c.out_tail.next = head
    while True:
        c.out_bytes += sizeof(Chunk) + chunk.capacity
        if chunk.next == NULL:
            break
        chunk = chunk.next
    c.out_tail = chunk


cdef void release_ready(Connection *c) noexcept nogil:
    cdef Slot *slot
    while c.head_slot < c.tail_slot:
        slot = &c.slots[c.head_slot & (c.slot_capacity - 1)]
        if not slot.ready:
            return
        c.head_slot += 1
        if slot.ends:
            c.ending = True
            return
        queue_out(c, slot.head)
    connection_resume(c)


cdef void connection_answer(Connection *c, int64_t slot, Chunk *head) noexcept nogil:
    """Sets the reply of a slot (NULL: no reply) and queues all replies that are next in order."""
    cdef Slot *s
    if slot < c.head_slot or slot >= c.tail_slot:
        chunks_free(head)
        return
    s = &c.slots[slot & (c.slot_capacity - 1)]
    s.ready = True
    s.head = head
    c.held_bytes -= s.held_bytes
    s.held_bytes = 0
    want_flush(c)                                        # the connection may be read from again
    release_ready(c)


cdef void connection_hold(Connection *c, int64_t slot, int64_t n) noexcept nogil:
    """Counts `n` more bytes for the request of this slot until it is answered."""
    c.slots[slot & (c.slot_capacity - 1)].held_bytes += n
    c.held_bytes += n


cdef void connection_answer_bytes(Connection *c, int64_t slot, const void *data, int64_t n) noexcept nogil:
    """Sets a short reply of a slot. If it is next in order, it is copied after the reply before it."""
    cdef Chunk *tail = c.out_tail
    cdef Chunk *chunk
    cdef Slot *s
    if slot == c.head_slot and tail != NULL and tail.file == NULL and tail.capacity - tail.end >= n:
        memcpy(tail.data + tail.end, data, n)
        tail.end += n
        s = &c.slots[slot & (c.slot_capacity - 1)]
        s.ready = True
        s.head = NULL
        c.held_bytes -= s.held_bytes
        s.held_bytes = 0
        want_flush(c)
        release_ready(c)
        return
    chunk = chunk_bytes(n if n > CHUNK_BYTES or slot != c.head_slot else CHUNK_BYTES)
    if chunk == NULL:
        connection_condemn(c)
        return
    memcpy(chunk.data, data, n)
    chunk.end = n
    connection_answer(c, slot, chunk)


cdef Connection *connection_find(Reactor *reactor, int64_t id) noexcept nogil:
    return <Connection *>id_find(&reactor.connections, id)

# ---------------------------------------------------------------- sending


cdef bint send_bytes(Connection *c) noexcept nogil:
    """Sends the byte chunks at the head of the queue. False: the socket is full (or failed: closing)."""
    cdef iovec parts[IOVECS]
    cdef msghdr message
    cdef Chunk *chunk = c.out_head
    cdef size_t n = 0
    cdef ssize_t sent
    cdef int64_t total = 0, part
    while chunk != NULL and chunk.file == NULL and n < IOVECS:
        parts[n].iov_base = chunk.data + chunk.position
        parts[n].iov_len = chunk.end - chunk.position
        total += chunk.end - chunk.position
        n += 1
        chunk = chunk.next
    clear_message(&message)
    message.msg_iov = parts
    message.msg_iovlen = n
    sent = sendmsg(c.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT | (MSG_MORE if chunk != NULL else 0))
    if sent < 0:
        if errno != EAGAIN and errno != EINTR:
            connection_condemn(c)
        return False
    bump_i64(&c.reactor.sent_bytes, sent)
    c.last_active_ms = c.reactor.now_ms
    total -= sent
    while sent > 0 or (c.out_head != NULL and c.out_head.file == NULL
                       and c.out_head.position == c.out_head.end):
        chunk = c.out_head
        part = chunk.end - chunk.position
        if part > sent:
            chunk.position += sent
            break
        sent -= part
        chunk_pop(c)
    return total == 0


cdef ssize_t send_range(Connection *c, const Chunk *chunk, int64_t most) noexcept nogil:
    """Sends at most so many bytes from the file, or from its staged tail. As sendfile: fewer bytes than requested are no
    error."""
    cdef TailView view
    cdef int64_t offset = chunk.position, size_bytes = min(chunk.end - chunk.position, most)
    cdef int64_t staged_from = tail_view(&chunk.file.tail, offset, size_bytes, &view)
    cdef ssize_t sent
    if view.chunk != NULL:
        sent = send(c.fd, view.data, view.size_bytes, MSG_NOSIGNAL | MSG_DONTWAIT | (
            MSG_MORE if chunk.next != NULL or view.size_bytes < chunk.end - chunk.position else 0))
        view_release(&view)
        return sent
    if size_bytes > staged_from - offset > 0:
        size_bytes = staged_from - offset
    return sendfile(c.fd, chunk.file.fd, &offset, size_bytes)


cdef struct Turn:
    int64_t left                    # bytes until it ends in any case
    int64_t look                    # bytes until it is looked whether others wait


cdef bint send_file(Connection *c, Turn *turn) noexcept nogil:
    """Sends the file chunk at the head of the queue, until the connection's turn is over."""
    cdef Chunk *chunk = c.out_head
    cdef ssize_t sent
    while chunk.position < chunk.end:
        if turn.look <= 0:
            if turn.left <= 0 or others_wait(c.reactor.epoll_fd, c):
                return False
            turn.look = LOOK_BYTES
        sent = send_range(c, chunk, turn.look)
        if sent > 0:
            chunk.position += sent
            turn.look -= sent
            turn.left -= sent
            bump_i64(&c.reactor.sent_bytes, sent)
            c.last_active_ms = c.reactor.now_ms
        elif sent == 0:
            fail_short_file(c)
            return False
        elif errno != EINTR:
            if errno != EAGAIN:
                connection_condemn(c)
            return False
    chunk_pop(c)
    return True


cdef void send_tls(Connection *c) noexcept nogil:
    cdef SendResult result = tls_send(c)
    if result == SEND_SHORT_FILE:
        fail_short_file(c)
    elif result == SEND_BROKEN:
        connection_condemn(c)


cdef bint tls_unsent(const Connection *c) noexcept nogil:
    """Whether encrypted bytes wait for room in the socket."""
    return c.tls != NULL and c.tls.unsent.end > c.tls.unsent.start and not c.tls.tickets_wait


cdef void fail_short_file(Connection *c) noexcept nogil:
    connection_fail(c, b"segment-truncated",
                    b"a segment file is shorter than a fetch response announced; check the disk")


cdef bint connection_send(Connection *c) noexcept nogil:
    """Sends queued replies until the socket is full or the connection's turn is over; then epoll reports it at the next pass.
    False once the connection must be closed."""
    cdef int64_t started_ns
    if c.quota == NULL or not quotas_on(&c.reactor.plane.quotas, QUOTA_REQUEST):
        return send_queued(c)
    started_ns = monotonic_ns()
    send_queued(c)
    quota_record(c.quota, QUOTA_REQUEST, quota_percent(monotonic_ns() - started_ns), c.reactor.now_ms)
    return not c.closing


cdef bint send_queued(Connection *c) noexcept nogil:
    cdef Turn turn = Turn(TURN_BYTES, LOOK_BYTES)
    if c.tls != NULL:
        send_tls(c)
    while c.out_head != NULL and not c.closing and c.tls == NULL:
        if c.out_head.file != NULL:
            if not send_file(c, &turn):
                break
        elif not send_bytes(c):
            break
    if c.ending and c.out_head == NULL and not tls_unsent(c):
        connection_condemn(c)
    connection_watch(c)
    return not c.closing


cdef bint connection_full(const Connection *c) noexcept nogil:
    return (c.tail_slot - c.head_slot >= SLOTS_MAX or c.out_bytes >= OUT_BYTES_MAX or c.held_bytes >= HELD_BYTES_MAX)


cdef int epoll_of(const Connection *c) noexcept nogil:
    if c.handshaking:
        return c.reactor.tls.silent_fd if c.tls == NULL else c.reactor.tls.begun_fd
    return c.reactor.epoll_fd


cdef void connection_watch(Connection *c) noexcept nogil:
    """Sets the events that epoll watches. A client that does not receive its replies is not read from. The end of a
    connection whose Fetch waits must be seen although a request behind it stops the reading: that request is dropped. So
    must that of a muted one, which would keep its descriptor."""
    cdef bint reading = (not c.closing and not c.refusing and not c.parked and not c.stalled
                         and c.muted_until_ms == 0 and not connection_full(c)
                         and c.phase != PHASE_CERTIFICATE
                         and (c.tls == NULL or c.tls.unsent.end - c.tls.unsent.start < UNSENT_BYTES_MAX))
    cdef bint writing = (c.out_head != NULL or tls_unsent(c)) and not c.closing
    cdef bint hangup = not c.closing and ((c.stalled == STALL_ORDER and c.fetch != NULL)
                                          or (c.muted_until_ms != 0 and not c.ends_later))
    if reading != c.reading or writing != c.writing or hangup != c.watches_hangup:
        c.reading = reading
        c.writing = writing
        c.watches_hangup = hangup
        epoll_set(epoll_of(c), EPOLL_CTL_MOD, c.fd,
                  (EPOLLIN if reading else 0) | (EPOLLOUT if writing else 0) | (EPOLLRDHUP if hangup else 0), c)

# ---------------------------------------------------------------- life


cdef bint reserve_lists(Reactor *r) noexcept nogil:
    """Makes room for one more connection in the lists of a pass, so that adding to them never fails."""
    cdef Connection **grown
    cdef int32_t capacity = r.touched_capacity * 2 + 64
    if r.connections_open < r.touched_capacity:
        return True
    grown = <Connection **>realloc(r.to_flush, capacity * sizeof(Connection *))
    if grown == NULL:
        return False
    r.to_flush = grown
    grown = <Connection **>realloc(r.touched, capacity * sizeof(Connection *))
    if grown == NULL:
        return False
    r.touched = grown
    grown = <Connection **>realloc(r.stalled, capacity * sizeof(Connection *))
    if grown == NULL:
        return False
    r.stalled = grown
    r.touched_capacity = capacity
    return True


cdef Connection *connection_open(Reactor *reactor, int fd, int32_t listener) noexcept nogil:
    """Creates a connection that owns `fd`. NULL, with fd closed, when memory ran out or epoll accepts no more sockets."""
    cdef Connection *c = <Connection *>calloc(1, sizeof(Connection))
    if c == NULL or not reserve_lists(reactor):
        close(fd)
        free(c)
        return NULL
    c.fd = fd
    c.reactor = reactor
    c.listener = listener
    c.id = id_add(&reactor.connections, c)
    if c.id < 0:
        close(fd)
        free(c)
        return NULL
    c.reading = True
    c.last_active_ms = reactor.now_ms
    set_nodelay(fd)
    name_peer(fd, c.peer, sizeof(c.peer))
    c.subject = NO_SUBJECT
    if not identify(c) or not tls_expect(c) or epoll_set(epoll_of(c), EPOLL_CTL_ADD, fd, EPOLLIN, c) != 0:
        tls_end(c)
        subject_release(&reactor.plane.subjects, c.subject)
        id_remove(&reactor.connections, c.id)
        close(fd)
        free(c)
        return NULL
    if listener >= 0 and reactor.plane.authenticates[listener]:
        connection_set_phase(c, PHASE_AUTHENTICATING)
    bump_i64(&reactor.connections_open, 1)
    bump_i64(&reactor.connections_accepted, 1)
    return c


cdef bint identify(Connection *c) noexcept nogil:
    """Makes an accepted connection that of User:ANONYMOUS at its host."""
    if c.listener < 0:
        return True
    c.subject = subject_intern(&c.reactor.plane.subjects, b"User:ANONYMOUS", 14, c.peer)
    return c.subject != NO_SUBJECT


cdef void connection_set_phase(Connection *c, Phase phase) noexcept nogil:
    cdef Reactor *r = c.reactor
    r.unauthenticated += (phase != PHASE_OPEN) - (c.phase != PHASE_OPEN)
    if c.phase == PHASE_OPEN:
        c.phase_from_ms = r.now_ms
    c.phase = phase


cdef void connection_close(Connection *c) noexcept nogil:
    """Frees everything but waiting fetches, which fetch_connection_closed() has removed before."""
    cdef int64_t i
    cdef Reactor *r = c.reactor
    id_remove(&r.connections, c.id)
    if c.tells_end:
        control_send_end(c)
    connection_set_phase(c, PHASE_OPEN)
    subject_release(&r.plane.subjects, c.subject)
    # A process that another thread forks has the socket too, until it runs its own program. Then close() alone neither
    # ends the connection nor the events that name `c`.
    epoll_set(epoll_of(c), EPOLL_CTL_DEL, c.fd, 0, NULL)
    tls_end(c)
    shutdown(c.fd, SHUT_RDWR)
    close(c.fd)
    connection_unstall(c)
    for i in range(c.head_slot, c.tail_slot):
        if c.slots[i & (c.slot_capacity - 1)].ready:
            chunks_free(c.slots[i & (c.slot_capacity - 1)].head)
    chunks_free(c.out_head)
    if c.buffer != NULL:
        buffer_give(&r.pool, c.buffer, c.capacity)
    quota_client_release(c.quota)
    lease_release(c.lease)
    if c.host != NULL and accept_ended(&r.plane.accept, c.listener, c.host, c.gives_way):
        wake(r.plane.reactors[0].mailbox.event_fd)
    free(c.slots)
    free(c)
    bump_i64(&r.connections_open, -1)


cdef void connection_touch(Connection *c) noexcept nogil:
    """Adds the connection to those whose buffer or end this pass handles after the flush."""
    cdef Reactor *r = c.reactor
    if not c.touched:
        r.touched[r.touched_count] = c
        r.touched_count += 1
        c.touched = True


cdef void connection_stall(Connection *c, Stall why, Wal *wal) noexcept nogil:
    """Accepts no more requests from the connection for now. This pass stops reading from it."""
    cdef Reactor *r = c.reactor
    if why != STALL_ORDER:
        r.stalled[r.stalled_count] = c
        r.stalled_count += 1
        r.stalled_on_wals += why == STALL_WAL
    c.stalled = why
    c.stalled_on = wal
    connection_touch(c)


cdef void connection_resume(Connection *c) noexcept nogil:
    cdef Reactor *r = c.reactor
    if c.stalled != STALL_ORDER:
        return
    c.stalled = STALL_READY
    c.next_resume = NULL
    if r.resume_tail == NULL:
        r.resume_head = c
    else:
        r.resume_tail.next_resume = c
    r.resume_tail = c


cdef void resume_remove(Connection *c) noexcept nogil:
    cdef Reactor *r = c.reactor
    cdef Connection *previous = NULL
    cdef Connection *each = r.resume_head
    while each != c:
        previous = each
        each = each.next_resume
    if previous == NULL:
        r.resume_head = c.next_resume
    else:
        previous.next_resume = c.next_resume
    if r.resume_tail == c:
        r.resume_tail = previous


cdef void connection_unstall(Connection *c) noexcept nogil:
    """Removes it from the reactor's lists of stalled connections."""
    cdef Reactor *r = c.reactor
    cdef int32_t i, kept = 0
    if c.stalled == STALL_NONE or c.stalled == STALL_ORDER:
        return
    if c.stalled == STALL_READY:
        resume_remove(c)
        return
    for i in range(r.stalled_count):
        if r.stalled[i] != c:
            r.stalled[kept] = r.stalled[i]
            kept += 1
    r.stalled_count = kept
    r.stalled_on_wals -= c.stalled == STALL_WAL
    c.stalled = STALL_NONE
    c.stalled_on = NULL


cdef void connection_mute(Connection *c, int64_t throttle_ms) noexcept nogil:
    """Reads no further requests for a time; a longer time that has begun stays."""
    cdef Reactor *r = c.reactor
    cdef int64_t until_ms = r.now_ms + throttle_ms
    if throttle_ms <= 0 or until_ms <= c.muted_until_ms:
        return
    sweep_mutes(r)
    if timer_add(&r.mutes, until_ms, c.id):              # out of memory: it is read from
        c.muted_until_ms = until_ms
        connection_touch(c)


cdef void sweep_mutes(Reactor *r) noexcept nogil:
    """Before the full heap grows, removes what is no longer due for a connection: one that closes may have had long."""
    cdef TimerHeap *h = &r.mutes
    cdef int32_t i, n = h.count
    cdef Timer timer
    cdef Connection *c
    if n < h.capacity:
        return
    h.count = 0
    for i in range(n):                                   # timers move to or before their old position
        timer = h.items[i]
        c = connection_find(r, timer.id)
        if c != NULL and c.muted_until_ms == timer.due_ms:
            timer_add(h, timer.due_ms, timer.id)


cdef Connection *connection_unmute(Reactor *r) noexcept nogil:
    cdef Timer timer
    cdef Connection *c
    while r.mutes.count > 0 and r.mutes.items[0].due_ms <= r.now_ms:
        timer = timer_pop(&r.mutes)
        c = connection_find(r, timer.id)
        if c != NULL and c.muted_until_ms == timer.due_ms:
            c.muted_until_ms = 0
            c.last_active_ms = r.now_ms                  # the time was the broker's
            if not c.closing:
                return c
    return NULL


cdef void connection_hung_up(Connection *c) noexcept nogil:
    """The client has closed its side while it is not read from. A muted one that has sent requests before is read when
    its time is over, as in Kafka: a producer without acks does not wait for answers. From now on it is idle."""
    cdef uint8_t found[UNREAD_BYTES]
    cdef ssize_t n
    if c.muted_until_ms != 0:
        n = recv(c.fd, found, UNREAD_BYTES, MSG_PEEK | MSG_DONTWAIT)
        if c.end > c.start or n > (CLOSE_NOTIFY_BYTES if c.tls != NULL else 0):
            c.ends_later = True
            c.last_active_ms = c.reactor.now_ms
            connection_watch(c)
            return
    connection_condemn(c)


cdef void connection_condemn(Connection *c) noexcept nogil:
    """Closes the connection at the end of this pass."""
    c.closing = True
    connection_touch(c)


cdef void connection_fail(Connection *c, const char *event, const char *detail) noexcept nogil:
    """Closes the connection at the end of this pass and queues a line for the log."""
    if not c.closing:
        connection_condemn(c)
        tell(c, event, detail)


cdef void tell(Connection *c, const char *event, const char *detail) noexcept nogil:
    cdef char text[160]
    snprintf(text, sizeof(text), b"%s: %s", c.peer, detail)
    plane_event(c.reactor.plane, 1, event, text)


cdef void connection_finish(Connection *c) noexcept nogil:
    cdef int64_t slot
    if c.closing or c.refusing:
        return
    slot = connection_open_slot(c)
    if slot < 0:
        connection_condemn(c)
        return
    c.refusing = True
    c.slots[slot & (c.slot_capacity - 1)].ends = True
    connection_touch(c)
    connection_answer(c, slot, NULL)


cdef void connection_end(Connection *c, int64_t slot, const char *event, const char *detail) noexcept nogil:
    """Closes the connection instead of answering the request of this slot (-1: a new slot), once earlier requests are
    answered: Kafka answers those before it reads this one."""
    if c.closing or (c.refusing and slot < c.head_slot):
        return
    if slot < 0:
        slot = connection_open_slot(c)
    if slot < c.head_slot:
        connection_fail(c, event, detail)
        return
    c.refusing = True                                    # perhaps already, for a later request: that end waits for this one
    c.slots[slot & (c.slot_capacity - 1)].ends = True
    connection_touch(c)
    connection_answer(c, slot, NULL)
    tell(c, event, detail)
