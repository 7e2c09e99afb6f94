"""Runs a reactor's loop: epoll, frames, mail, timers.

One pass: receive from every ready socket, cut frames, handle them; write the batches gathered; answer the
fetches that were waiting for them; send replies; fit buffers. The table lock is held through a pass and
never while sleeping.
"""
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free
from libc.string cimport memset
from posix.unistd cimport close, read
from bowstring._native.base.atomics cimport bump_i64, load_i32
from bowstring._native.base.clock cimport monotonic_ms, wall_clock_ms
from bowstring._native.disk.descriptors cimport descriptors_refill
from bowstring._native.server.accept_limits cimport accept_claim
from bowstring._native.server.accept_types cimport HostEntry
from bowstring._native.server.acceptor cimport (
    LISTENER_TAG, accept_all, accept_resume, acceptor_free, open_accepted, watch_listener)
from bowstring._native.server.commit_queue cimport (
    commit_await_room, commit_pending, commits_collect, commits_free, commits_stop, commits_waiting)
from bowstring._native.server.chunks cimport chunks_free
from bowstring._native.server.connection cimport (
    buffer_pool_free, connection_answer, connection_borrow_buffer, connection_close, connection_condemn,
    connection_fail, connection_find, connection_finish, connection_fit_buffer, connection_full, connection_hung_up,
    connection_mute, connection_send, connection_set_phase, connection_stall, connection_touch, connection_unmute,
    connection_watch)
from bowstring._native.server.fetch cimport (
    fetch_access_changed, fetch_connection_closed, fetch_serve_ready, fetch_timed_out, fetch_woken)
from bowstring._native.server.fetch_session cimport session_remove
from bowstring._native.server.fetcher cimport (
    fetcher_disconnected, fetcher_linked, fetcher_received, fetchers_free, fetchers_order, fetchers_run, link_drop)
from bowstring._native.server.followed_partitions cimport order_drop, part_truncated, truncate_drop
from bowstring._native.server.request_dispatch cimport cut_frames
from bowstring._native.server.handshakes cimport handshakes_due_ms, handshakes_expire, handshakes_run
from bowstring._native.server.id_table cimport id_find
from bowstring._native.server.leases cimport lease_give, lease_release
from bowstring._native.server.lease_types cimport Lease
from bowstring._native.server.mailbox cimport post, wake
from bowstring._native.server.pacing cimport pacer_gather, pacer_init, pacer_received
from bowstring._native.server.connection_limits cimport FLUSH_BYTES
from bowstring._native.server.connection_types cimport (
    PHASE_CERTIFICATE, PHASE_OPEN, STALL_NONE, STALL_SYNC, STALL_WAL, Chunk, Connection, Stall)
from bowstring._native.server.fetch_types cimport FetchRequest
from bowstring._native.server.follow_types cimport FollowLink, FollowOrder, TruncateJob
from bowstring._native.server.mail_types cimport (
    MAIL_ACCESS, MAIL_ACK, MAIL_ADMIT, MAIL_CLOSE, MAIL_CONNECTION, MAIL_FINISH, MAIL_FOLLOW, MAIL_LEASE, MAIL_LINK,
    MAIL_MUTE, MAIL_REPLY, MAIL_SKIP, MAIL_SLOW_BATCH, MAIL_STOP, MAIL_TRUNCATED, MAIL_WAKE_FETCH, Admission, Mail)
from bowstring._native.server.plane_types cimport Plane
from bowstring._native.server.produce_types cimport ProducePart
from bowstring._native.server.reactor_types cimport SESSION_BUCKETS, Reactor, Timer
from bowstring._native.server.produce cimport (
    produce_abandon, produce_acknowledged, produce_continue, produce_flush, produce_slow_batch_done, produce_timed_out)
from bowstring._native.base.pthread cimport (
    pthread_join, pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock,
    pthread_rwlock_rdlock, pthread_rwlock_unlock)
from bowstring._native.server.slow_batches cimport slow_connection_closed, slow_resume
from bowstring._native.base.threads cimport ask_short_slice, start_thread
from bowstring._native.server.subject_types cimport NO_SUBJECT
from bowstring._native.server.subjects cimport subject_intern, subject_release
from bowstring._native.server.timers cimport ids_in_use, timer_pop
from bowstring._native.server.tls_io cimport tls_receive, tls_work_free
from bowstring._native.server.tls_types cimport HANDSHAKES_TAG
from bowstring._native.wal.types cimport Wal
from bowstring._native.base.wire cimport writer_free

cdef extern from *:
    """
    #include <pthread.h>
    #include <sys/epoll.h>
    #include <sys/eventfd.h>
    #include <sys/socket.h>

    static int epoll_add(int epoll_fd, int fd, void *item) {
        struct epoll_event e;
        e.events = EPOLLIN;
        e.data.ptr = item;
        return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
    }
    static int new_eventfd(void) { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }
    static int new_epoll(void) { return epoll_create1(EPOLL_CLOEXEC); }
    """
    cdef union epoll_data_t:
        void *ptr
    cdef struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_wait(int epoll_fd, epoll_event *events, int n, int timeout_ms) nogil
    int epoll_add(int epoll_fd, int fd, void *item) nogil
    uint32_t EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP, EPOLLRDHUP
    int new_eventfd() nogil
    int new_epoll() nogil
    ssize_t recv(int fd, void *data, size_t n, int flags) nogil

cdef enum:
    EVENTS = 256
    EXACT_MIN_BYTES = 32768         # the rest of a frame of this size is received without later bytes
    IDLE_CHECK_MAX_MS = 10000
    SCRATCH_KEEP_BYTES = 1 << 20

# ---------------------------------------------------------------- receiving


cdef void receive(Reactor *r, Connection *c) noexcept nogil:
    """Calls recv() once: up to the end of the buffer, or only the rest of a large frame."""
    cdef int64_t room, have, need
    cdef ssize_t n
    cdef const uint8_t *at
    if not connection_borrow_buffer(c):
        connection_condemn(c)
        return
    connection_touch(c)
    if c.tls != NULL:
        receive_tls(r, c)
        return
    room = c.capacity - c.end
    have = c.end - c.start
    if have >= 4:
        at = c.buffer + c.start
        need = 4 + ((<int64_t>at[0] << 24) | (at[1] << 16) | (at[2] << 8) | at[3]) - have
        if EXACT_MIN_BYTES <= need < room:
            room = need
    n = recv(c.fd, c.buffer + c.end, room, 0)
    if n <= 0:
        if n == 0 or (errno != EAGAIN and errno != EINTR):
            c.closing = True
        return
    c.end += n
    received(r, c, n)


cdef void receive_tls(Reactor *r, Connection *c) noexcept nogil:
    """Does the same for a connection with TLS. The peer's last requests count, although it has closed its side."""
    cdef bint ended = False
    cdef int64_t n = tls_receive(c, &ended)
    if n > 0:
        received(r, c, n)
    if ended:
        c.closing = True
    elif c.tls.unsent.end > c.tls.unsent.start and not c.tls.tickets_wait:
        connection_send(c)


cdef void received(Reactor *r, Connection *c, int64_t n) noexcept nogil:
    """Handles what the buffer has, after `n` bytes came from the socket. Where all of it is handled, the next connection
    gets the buffer while it is in the processor's cache; batches of this pass lie in theirs until they are written."""
    c.last_active_ms = r.now_ms
    bump_i64(&r.received_bytes, n)
    pacer_received(&r.pacer, c.fd, n)
    if c.fetcher != NULL:
        fetcher_received(r, c)
        return
    cut_frames(r, c)
    if c.start == c.end and r.pending_bytes == 0:
        connection_fit_buffer(c)


# ---------------------------------------------------------------- mail and timers


cdef void admit(Reactor *r, Connection *c, int64_t lifetime_ms, Admission *whom) noexcept nogil:
    """Ends the authentication phase of a connection, which belongs to the principal from now on."""
    cdef int32_t subject
    cdef bint waits
    if c == NULL or c.closing:
        free(whom)
        return
    subject = subject_intern(&r.plane.subjects, whom.principal, whom.length, c.peer)
    free(whom)
    if subject == NO_SUBJECT:
        connection_condemn(c)
        return
    subject_release(&r.plane.subjects, c.subject)
    lease_give(c, NULL)                                  # it was decided for the one before
    waits = c.phase == PHASE_CERTIFICATE
    c.subject = subject
    c.admitted_ms = r.now_ms
    c.session_ends_ms = r.now_ms + lifetime_ms if lifetime_ms > 0 else 0
    connection_set_phase(c, PHASE_OPEN)
    if waits:
        connection_touch(c)
        cut_frames(r, c)


cdef void handle_mail(Reactor *r, Mail *mail) noexcept nogil:
    cdef Connection *c
    if mail.kind == MAIL_CONNECTION:
        open_accepted(r, <int>mail.a, <int32_t>mail.b, <HostEntry *>mail.data)
    elif mail.kind == MAIL_REPLY:
        c = connection_find(r, mail.a)
        if c == NULL:
            chunks_free(<Chunk *>mail.data)
        elif mail.data == NULL:
            connection_condemn(c)
        else:
            connection_answer(c, mail.b, <Chunk *>mail.data)
    elif mail.kind == MAIL_SKIP:
        c = connection_find(r, mail.a)
        if c != NULL:
            connection_answer(c, mail.b, NULL)
    elif mail.kind == MAIL_MUTE:
        c = connection_find(r, mail.a)
        if c != NULL:
            connection_mute(c, mail.b)
    elif mail.kind == MAIL_CLOSE:
        c = connection_find(r, mail.a)
        if c != NULL:
            connection_condemn(c)
    elif mail.kind == MAIL_FINISH:
        c = connection_find(r, mail.a)
        if c != NULL:
            connection_finish(c)
    elif mail.kind == MAIL_LEASE:
        c = connection_find(r, mail.a)
        if c == NULL:
            lease_release(<Lease *>mail.data)
        else:
            lease_give(c, <Lease *>mail.data)
    elif mail.kind == MAIL_ADMIT:
        admit(r, connection_find(r, mail.a), mail.b, <Admission *>mail.data)
    elif mail.kind == MAIL_WAKE_FETCH:
        fetch_woken(r, mail.a, mail.b)
    elif mail.kind == MAIL_ACK:
        produce_acknowledged(r, <ProducePart *>mail.data)
    elif mail.kind == MAIL_SLOW_BATCH:
        produce_slow_batch_done(r, <ProducePart *>mail.data)
    elif mail.kind == MAIL_FOLLOW:
        fetchers_order(r, <FollowOrder *>mail.data)
    elif mail.kind == MAIL_TRUNCATED:
        part_truncated(r, <TruncateJob *>mail.data)
    elif mail.kind == MAIL_LINK:
        fetcher_linked(r, <FollowLink *>mail.data)
    elif mail.kind == MAIL_ACCESS:
        fetch_access_changed(r)
    elif mail.kind == MAIL_STOP:
        r.running = False


cdef void open_mailbox(Reactor *r) noexcept nogil:
    cdef uint64_t count
    cdef Mail *mails
    cdef int32_t n, i
    read(r.mailbox.event_fd, &count, 8)
    pthread_mutex_lock(&r.mailbox.lock)
    mails = r.mailbox.mails
    n = r.mailbox.count
    r.mailbox.mails = NULL
    r.mailbox.count = r.mailbox.capacity = 0
    pthread_mutex_unlock(&r.mailbox.lock)
    for i in range(n):
        handle_mail(r, &mails[i])
    free(mails)


cdef void run_timers(Reactor *r) noexcept nogil:
    cdef Timer timer
    cdef void *found
    while r.timers.count > 0 and r.timers.items[0].due_ms <= r.now_ms:
        timer = timer_pop(&r.timers)
        if timer.id > 0:
            found = id_find(&r.fetches, timer.id)
            if found != NULL:
                fetch_timed_out(r, <FetchRequest *>found)
        else:
            found = id_find(&r.produces, -timer.id)
            if found != NULL:
                produce_timed_out(r, found)


cdef void close_idle(Reactor *r) noexcept nogil:
    """connections.max.idle.ms: closes connections without requests in flight and without traffic. A throttle is no
    idle time, but for a client that has left: it may last for days."""
    cdef int32_t i
    cdef Connection *c
    for i in range(r.connections.used):
        c = <Connection *>r.connections.items[i]
        if c == NULL:
            continue
        if (0 < r.plane.connections_max_idle_ms < r.now_ms - c.last_active_ms
                and c.head_slot == c.tail_slot and not c.parked and not c.stalled
                and (c.muted_until_ms == 0 or c.ends_later) and c.fetcher == NULL):
            connection_condemn(c)
        elif c.phase != PHASE_OPEN and r.now_ms - c.phase_from_ms > r.plane.authentication_max_ms:
            connection_fail(c, b"authentication-timeout",
                            b"the client has not authenticated in bowstring.authentication.timeout.ms")
    r.idle_check_due_ms = r.now_ms + idle_check_ms(r)


cdef void give_way(Reactor *r) noexcept nogil:
    """max.connections: ends those that had no traffic for the longest time, as brokers have made new ones."""
    cdef Connection *idlest
    cdef Connection *c
    cdef int32_t i
    while True:
        idlest = NULL
        for i in range(r.connections.used):
            c = <Connection *>r.connections.items[i]
            if (c != NULL and c.host != NULL and not c.closing and not r.plane.accept.listeners[c.listener].protected
                    and (idlest == NULL or c.last_active_ms < idlest.last_active_ms)):
                idlest = c
        if idlest == NULL or not accept_claim(&r.plane.accept):
            return
        idlest.gives_way = True
        connection_condemn(idlest)


cdef int64_t idle_check_ms(const Reactor *r) noexcept nogil:
    """How often to check: a connection closes at most a tenth of its idle time late."""
    cdef int64_t due = IDLE_CHECK_MAX_MS
    if r.plane.connections_max_idle_ms > 0:
        due = min(due, r.plane.connections_max_idle_ms // 10 + 1)
    return min(due, r.plane.authentication_max_ms // 10 + 1) if r.unauthenticated > 0 else due


cdef int sleep_ms(Reactor *r) noexcept nogil:
    """Time until the next timer or the next request of a connection; -1 (forever) when only sockets can wake the
    reactor."""
    cdef int64_t due = -1
    if r.resume_tail != NULL or r.deferred_head != NULL:
        return 0
    if r.timers.count > 0:
        due = r.timers.items[0].due_ms
    if r.unauthenticated > 0 or (r.connections_open > 0 and r.plane.connections_max_idle_ms > 0):
        if r.idle_check_due_ms < r.now_ms or r.idle_check_due_ms > r.now_ms + idle_check_ms(r):
            r.idle_check_due_ms = r.now_ms + idle_check_ms(r)
        if due < 0 or r.idle_check_due_ms < due:
            due = r.idle_check_due_ms
    if r.mutes.count > 0 and (due < 0 or r.mutes.items[0].due_ms < due):
        due = r.mutes.items[0].due_ms
    if r.accept_due_ms > 0 and (due < 0 or r.accept_due_ms < due):
        due = r.accept_due_ms
    if r.tls != NULL:
        due = handshakes_due_ms(r, due)
    if r.follow_due_ms > 0 and (due < 0 or r.follow_due_ms < due):
        due = r.follow_due_ms
    if due < 0:
        return -1
    due -= r.now_ms
    return <int>(due if due > 0 else 0)

# ---------------------------------------------------------------- the loop


cdef void end_connection(Connection *c) noexcept nogil:
    if c.fetcher != NULL:
        fetcher_disconnected(c)
    fetch_connection_closed(c)
    slow_connection_closed(c)
    connection_close(c)


cdef void flush_pass(Reactor *r, bint last) noexcept nogil:
    """Writes batches, answers requests and sends replies; then buffers may move. Connections are closed only at the end of
    the pass (`last`): until then unhandled events may point to them."""
    cdef int32_t i, kept = 0
    cdef Connection *c
    produce_flush(r)
    if r.fetchers != NULL:
        fetchers_run(r)
    fetch_serve_ready(r)
    for i in range(r.to_flush_count - 1, -1, -1):        # readers get records before their writers get acknowledgements
        c = r.to_flush[i]
        c.in_flush_list = False
        connection_send(c)
    r.to_flush_count = 0
    for i in range(r.touched_count):
        c = r.touched[i]
        if not c.closing:
            connection_fit_buffer(c)
            connection_watch(c)
        if not c.closing:
            c.touched = False
        elif last:
            end_connection(c)
        else:
            r.touched[kept] = c
            kept += 1
    r.touched_count = kept


cdef bint holds_up(const Connection *c, Stall why) noexcept nogil:
    """Whether the connection's own reason for stalling remains."""
    if why == STALL_SYNC:
        return commit_pending(c.unsynced, c.unsynced_frame)
    return connection_full(c)


cdef void look_again(Reactor *r) noexcept nogil:
    """Continues connections at the end of a pass that the sent replies have unstalled, because epoll reports no event
    for them."""
    cdef int32_t i
    for i in range(r.stalled_count):
        if r.stalled[i].stalled != STALL_WAL and not holds_up(r.stalled[i], <Stall>r.stalled[i].stalled):
            wake(r.mailbox.event_fd)
            return


cdef void resume_stalled(Reactor *r) noexcept nogil:
    """Retries the requests of stalled connections, the longest stalled first. Those that must still wait stay on the
    list, which is rebuilt in place."""
    cdef int32_t i, n = r.stalled_count
    cdef Connection *c
    cdef Wal *wal
    cdef Stall why
    r.stalled_count = 0
    for i in range(n):
        c = r.stalled[i]
        why = <Stall>c.stalled
        wal = c.stalled_on
        r.stalled_on_wals -= why == STALL_WAL
        c.stalled = STALL_NONE
        c.stalled_on = NULL
        if commit_await_room(r, wal) if why == STALL_WAL else holds_up(c, why):
            connection_stall(c, why, wal)
        elif not c.closing:
            connection_touch(c)
            cut_frames(r, c)
            if r.pending_bytes >= FLUSH_BYTES:
                flush_pass(r, False)


cdef void resume_ordered(Reactor *r) noexcept nogil:
    """Continues connections whose requests waited for earlier ones. Those that come onto the list meanwhile go on in the
    next pass, so that others get their turn."""
    cdef Connection *last = r.resume_tail
    cdef Connection *c = NULL
    while c != last:
        c = r.resume_head
        r.resume_head = c.next_resume
        if r.resume_head == NULL:
            r.resume_tail = NULL
        c.stalled = STALL_NONE
        if c.closing:
            continue
        connection_touch(c)
        cut_frames(r, c)
        if r.pending_bytes >= FLUSH_BYTES:
            flush_pass(r, False)


cdef void resume_parked(Reactor *r) noexcept nogil:
    """Continues connections whose requests waited for room (slow_batches.pxd)."""
    cdef Connection *c = slow_resume(r)
    while c != NULL:
        connection_touch(c)
        cut_frames(r, c)
        c = slow_resume(r)


cdef void resume_muted(Reactor *r) noexcept nogil:
    """Continues connections that have waited for their quotas."""
    cdef Connection *c = connection_unmute(r)
    while c != NULL:
        connection_touch(c)
        cut_frames(r, c)
        if r.pending_bytes >= FLUSH_BYTES:
            flush_pass(r, False)
        c = connection_unmute(r)


cdef void one_pass(Reactor *r, epoll_event *events, int n) noexcept nogil:
    cdef int i
    cdef uint64_t tag
    cdef Connection *c
    cdef bint mail = False
    r.pass_cost = 0
    for i in range(n):
        tag = <uint64_t>events[i].data.ptr
        if tag == 0:
            mail = True
        elif tag & LISTENER_TAG:
            if tag == HANDSHAKES_TAG:
                handshakes_run(r)
            else:
                accept_all(r, <int32_t>(tag >> 1))
        else:
            c = <Connection *>events[i].data.ptr
            if events[i].events & EPOLLOUT:
                connection_send(c)
            if events[i].events & EPOLLIN:
                receive(r, c)
            elif events[i].events & (EPOLLERR | EPOLLHUP):
                connection_condemn(c)
            elif events[i].events & EPOLLRDHUP:
                connection_hung_up(c)
            if r.pending_bytes >= FLUSH_BYTES:
                flush_pass(r, False)
    if mail:
        open_mailbox(r)
    if r.ring != NULL:
        commits_collect(r)
    if r.resume_tail != NULL:
        resume_ordered(r)
    if r.stalled_count > 0:
        resume_stalled(r)
    run_timers(r)
    if r.mutes.count > 0:
        resume_muted(r)
    if r.parked_count > 0:
        resume_parked(r)
    if r.idle_check_due_ms > 0 and r.now_ms >= r.idle_check_due_ms:
        close_idle(r)
    if r.index == 0:
        if 0 < r.accept_due_ms <= r.now_ms or load_i32(&r.plane.accept.waiting) > 0:
            accept_resume(r)
    if load_i32(&r.plane.accept.excess) > 0:
        give_way(r)
    if r.tls != NULL:
        handshakes_expire(r)
    flush_pass(r, True)
    if r.deferred_head != NULL:
        produce_continue(r)
        flush_pass(r, True)
    if r.stalled_count > r.stalled_on_wals:
        look_again(r)
    if r.scratch.capacity > SCRATCH_KEEP_BYTES:
        writer_free(&r.scratch)                          # do not keep the memory of one huge reply


cdef bint replicates(const Reactor *r) noexcept nogil:
    """Whether producers wait for replicas: for this reactor's fetches from leaders, or for its followers. Sleeping would
    delay their acknowledgements more than gathering saves."""
    return r.fetchers != NULL or (ids_in_use(&r.produces) > 0 and not commits_waiting(r))


cdef void *run(void *argument) noexcept nogil:
    cdef Reactor *r = <Reactor *>argument
    cdef epoll_event events[EVENTS]
    cdef int n
    ask_short_slice()
    while r.running:
        r.now_ms = monotonic_ms()
        n = epoll_wait(r.epoll_fd, events, EVENTS, sleep_ms(r))
        if n < 0:
            n = 0
        pthread_rwlock_rdlock(&r.plane.table_lock)
        r.now_ms = monotonic_ms()
        r.wall_ms = wall_clock_ms()
        one_pass(r, events, n)
        pthread_rwlock_unlock(&r.plane.table_lock)
        if r.resume_tail == NULL and r.deferred_head == NULL and not replicates(r):
            pacer_gather(&r.pacer, FLUSH_BYTES,
                         r.mailbox.event_fd if commits_waiting(r) or r.stalled_on_wals > 0 else -1)
    commits_stop(r)
    return NULL

# ---------------------------------------------------------------- life


cdef bint reactor_init(Reactor *r, Plane *plane, int index) noexcept nogil:
    """Initializes a reactor. False, with errno set, when the kernel refuses a file descriptor."""
    memset(r, 0, sizeof(Reactor))
    r.plane = plane
    r.index = index
    r.now_ms = monotonic_ms()
    r.wall_ms = wall_clock_ms()
    r.session_seed = <uint32_t>(r.wall_ms * 2654435761u) ^ <uint32_t>index
    pthread_mutex_init(&r.mailbox.lock, NULL)
    pacer_init(&r.pacer)
    descriptors_refill()
    r.epoll_fd = new_epoll()
    r.mailbox.event_fd = new_eventfd()
    if r.epoll_fd < 0 or r.mailbox.event_fd < 0:
        return False
    return epoll_add(r.epoll_fd, r.mailbox.event_fd, NULL) == 0


cdef bint reactor_start(Reactor *r) noexcept nogil:
    cdef char name[16]
    r.running = True
    snprintf(name, sizeof(name), b"reactor-%d", r.index)
    if start_thread(&r.thread, run, r, name) != 0:
        r.running = False
        return False
    return True


cdef bint reactor_accept(Reactor *r) noexcept nogil:
    """Has reactor 0 accept connections. Call it from the control thread, once the sockets listen: epoll would report one
    that does not yet again and again. Before, no other thread watches them."""
    cdef int32_t i
    for i in range(r.plane.listener_count):
        if not watch_listener(r, i):
            return False
    return True


cdef void reactor_stop(Reactor *r) noexcept nogil:
    """Ends the loop after the current pass and waits for the thread."""
    if r.thread != 0:
        post(&r.mailbox, MAIL_STOP, 0, 0, NULL)
        pthread_join(r.thread, NULL)
        r.thread = 0


cdef void reactor_close_connections(Reactor *r) noexcept nogil:
    """Closes all connections after the thread has ended, so that clients notice at once."""
    cdef int32_t i
    cdef Connection *c
    for i in range(r.connections.used):
        c = <Connection *>r.connections.items[i]
        if c != NULL:
            end_connection(c)


cdef void drop_mails(Reactor *r) noexcept nogil:
    """Frees mail that arrived too late."""
    cdef int32_t i
    for i in range(r.mailbox.count):
        if r.mailbox.mails[i].kind == MAIL_REPLY:
            chunks_free(<Chunk *>r.mailbox.mails[i].data)
        elif r.mailbox.mails[i].kind == MAIL_ADMIT:
            free(r.mailbox.mails[i].data)
        elif r.mailbox.mails[i].kind == MAIL_LEASE:
            lease_release(<Lease *>r.mailbox.mails[i].data)
        elif r.mailbox.mails[i].kind == MAIL_CONNECTION:
            close(<int>r.mailbox.mails[i].a)
        elif r.mailbox.mails[i].kind == MAIL_FOLLOW:
            order_drop(<FollowOrder *>r.mailbox.mails[i].data)
        elif r.mailbox.mails[i].kind == MAIL_TRUNCATED:
            truncate_drop(<TruncateJob *>r.mailbox.mails[i].data)
        elif r.mailbox.mails[i].kind == MAIL_LINK:
            link_drop(<FollowLink *>r.mailbox.mails[i].data)
    free(r.mailbox.mails)


cdef void reactor_free(Reactor *r) noexcept nogil:
    """Frees everything after the thread has ended."""
    cdef int32_t i
    reactor_close_connections(r)
    produce_abandon(r)
    drop_mails(r)
    fetchers_free(r)
    if r.sessions != NULL:
        for i in range(SESSION_BUCKETS):
            while r.sessions[i] != NULL:
                session_remove(r, r.sessions[i])
        free(r.sessions)
    buffer_pool_free(r)
    tls_work_free(r)
    close(r.epoll_fd)
    close(r.mailbox.event_fd)
    pthread_mutex_destroy(&r.mailbox.lock)
    commits_free(r)
    free(r.connections.items)
    free(r.connections.generations)
    free(r.connections.free)
    free(r.decisions)
    free(r.fetches.items)
    free(r.fetches.generations)
    free(r.fetches.free)
    free(r.produces.items)
    free(r.produces.generations)
    free(r.produces.free)
    free(r.timers.items)
    free(r.mutes.items)
    acceptor_free(r)
    free(r.dirty)
    free(r.entries)
    free(r.touched)
    free(r.to_flush)
    free(r.stalled)
    writer_free(&r.scratch)
