"""The reactor's loop: epoll, frames, dispatch, mail, timers.

One pass: receive from every ready socket, cut frames, handle them; write the batches gathered; answer the
fetches that were waiting for them; send replies; settle buffers. The table lock is held through a pass and
never while sleeping.
"""
from libc.errno cimport EAGAIN, ECONNABORTED, EINTR, EMFILE, ENFILE, errno
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memset
from posix.unistd cimport close, read
from bowstring._native.atomics cimport bump_i64
from bowstring._native.clock cimport monotonic_ms, wall_clock_ms
from bowstring._native.commit_queue cimport commits_free, commits_waiting
from bowstring._native.connection cimport (
    buffer_pool_free, connection_answer, connection_borrow_buffer, connection_close, connection_condemn, connection_find,
    connection_open, connection_send, connection_settle_buffer, connection_touch, connection_watch, chunks_free)
from bowstring._native.control cimport plane_event
from bowstring._native.fetch cimport (
    fetch_connection_closed, fetch_serve_ready, fetch_timed_out, fetch_woken)
from bowstring._native.fetch_session cimport session_remove
from bowstring._native.frames cimport cut_frames
from bowstring._native.idtable cimport id_find
from bowstring._native.mailbox cimport post, pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.pacing cimport pacer_gather, pacer_init, pacer_received
from bowstring._native.plane cimport (
    Chunk, Connection, FetchRequest, FetchSession, FLUSH_BYTES, Mail, MAIL_ACK, MAIL_CLOSE, MAIL_CONNECTION,
    MAIL_REPLY, MAIL_SLOW_BATCH, MAIL_STOP, MAIL_WAKE_FETCH, Plane, ProducePart, pthread_mutex_t,
    pthread_rwlock_t, pthread_t, Reactor, RequestHeader, Timer)
from bowstring._native.produce cimport (
    produce_abandon, produce_acknowledged, produce_flush, produce_slow_batch_done, produce_timed_out)
from bowstring._native.timers cimport timer_pop
from bowstring._native.wire cimport writer_free

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
    static void epoll_remove(int epoll_fd, int fd) { epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL); }
    static int accept_connection(int fd) { return accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC); }
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
    uint32_t EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP
    void epoll_remove(int epoll_fd, int fd) nogil
    int accept_connection(int fd) nogil
    int new_eventfd() nogil
    int new_epoll() nogil
    ssize_t recv(int fd, void *data, size_t n, int flags) nogil
    int pthread_join(pthread_t thread, void **result) nogil
    int pthread_mutex_init(pthread_mutex_t *m, void *attributes) nogil
    int pthread_mutex_destroy(pthread_mutex_t *m) nogil
    int pthread_rwlock_rdlock(pthread_rwlock_t *l) nogil
    int pthread_rwlock_unlock(pthread_rwlock_t *l) nogil

cdef extern from "threads.h" nogil:
    int start_thread(pthread_t *thread, void *(*run)(void *) noexcept nogil, void *argument, const char *name)
    void ask_short_slice()

cdef enum:
    EVENTS = 256
    LISTENER_TAG = 1                # listeners are known to epoll as (index << 1) | 1, the mailbox as NULL
    EXACT_MIN_BYTES = 32768         # a frame's rest of this size is received without what follows it
    IDLE_CHECK_MAX_MS = 10000
    ACCEPT_REST_MS = 100
    SCRATCH_KEEP_BYTES = 1 << 20

# ---------------------------------------------------------------- receiving


cdef void receive(Reactor *r, Connection *c) noexcept nogil:
    """One recv: up to the buffer's end, or just the rest of a large frame."""
    cdef int64_t room, have, need
    cdef ssize_t n
    cdef const uint8_t *at
    if not connection_borrow_buffer(c):
        connection_condemn(c)
        return
    connection_touch(c)
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
    c.last_active_ms = r.now_ms
    bump_i64(&r.received_bytes, n)
    pacer_received(&r.pacer, c.fd, n)
    cut_frames(r, c)


# ---------------------------------------------------------------- accepting


cdef void accept_all(Reactor *r, int32_t listener) noexcept nogil:
    """Reactor 0 accepts for all and deals in turn."""
    cdef Plane *plane = r.plane
    cdef Reactor *to
    cdef int fd
    while True:
        fd = accept_connection(plane.listeners[listener])
        if fd < 0:
            if errno == EMFILE or errno == ENFILE:
                out_of_files(plane)
                if not shed(plane.listeners[listener]):
                    rest_listeners(r)
            elif errno != EAGAIN and errno != EINTR and errno != ECONNABORTED:
                rest_listeners(r)
            return
        if fd > plane.connection_fd_max:
            out_of_files(plane)
            close(fd)
            continue
        to = &plane.reactors[plane.next_reactor]
        plane.next_reactor = (plane.next_reactor + 1) % plane.reactor_count
        if to == r:
            connection_open(r, fd, listener)
        elif not post(&to.mailbox, MAIL_CONNECTION, fd, listener, NULL):
            close(fd)


cdef void out_of_files(Plane *plane) noexcept nogil:
    plane_event(plane, 2, b"out-of-files", b"no file descriptor left for a new connection; raise ulimit -n")


cdef void rest_listeners(Reactor *r) noexcept nogil:
    """Accepting fails and will fail again at once: epoll would report the listeners without end."""
    cdef int32_t i
    for i in range(r.plane.listener_count):
        epoll_remove(r.epoll_fd, r.plane.listeners[i])
    r.accept_again_ms = r.now_ms + ACCEPT_REST_MS


cdef bint watch_listeners(Reactor *r) noexcept nogil:
    cdef int32_t i
    r.accept_again_ms = 0
    for i in range(r.plane.listener_count):
        if epoll_add(r.epoll_fd, r.plane.listeners[i], <void *>(<uint64_t>i << 1 | LISTENER_TAG)) != 0:
            return False
    return True


cdef extern from *:
    """
    #include <fcntl.h>
    #include <sys/resource.h>
    #include <unistd.h>
    /* Out of descriptors: gives one up to accept and drop the caller, who then does not wait in vain.
       Shared by the planes of a process, so it is taken and put back in one step. */
    static int spare_fd = -1;
    static void keep_spare(void) {
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        int none = -1;
        if (fd >= 0 && !__atomic_compare_exchange_n(&spare_fd, &none, fd, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            close(fd);
    }
    static int shed(int listener) {
        int spare = __atomic_exchange_n(&spare_fd, -1, __ATOMIC_ACQ_REL);
        int fd;
        if (spare >= 0)
            close(spare);
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            close(fd);
        keep_spare();
        return fd >= 0;
    }
    /* Descriptors are given out lowest first, so the largest of a connection says how many are taken. An eighth
       of what the process may have is left to the logs: without a file, an append takes its log out of service. */
    static int largest_connection_fd(void) {
        struct rlimit limit;
        if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > 0x7FFFFFFF)
            return 0x7FFFFFFF;
        return (int)(limit.rlim_cur - limit.rlim_cur / 8);
    }
    """
    bint shed(int listener) nogil
    void keep_spare() nogil
    int largest_connection_fd() nogil

# ---------------------------------------------------------------- mail and timers


cdef void handle_mail(Reactor *r, Mail *mail) noexcept nogil:
    cdef Connection *c
    if mail.kind == MAIL_CONNECTION:
        connection_open(r, <int>mail.a, <int32_t>mail.b)
    elif mail.kind == MAIL_REPLY:
        c = connection_find(r, mail.a)
        if c == NULL:
            chunks_free(<Chunk *>mail.data)
        elif mail.data == NULL:
            connection_condemn(c)
        else:
            connection_answer(c, mail.b, <Chunk *>mail.data)
    elif mail.kind == MAIL_CLOSE:
        c = connection_find(r, mail.a)
        if c != NULL:
            connection_condemn(c)
    elif mail.kind == MAIL_WAKE_FETCH:
        fetch_woken(r, mail.a, mail.b)
    elif mail.kind == MAIL_ACK:
        produce_acknowledged(r, <ProducePart *>mail.data)
    elif mail.kind == MAIL_SLOW_BATCH:
        produce_slow_batch_done(r, <ProducePart *>mail.data)
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
    """connections.max.idle.ms: connections with nothing in flight and nothing heard are closed."""
    cdef int32_t i
    cdef Connection *c
    for i in range(r.connections.used):
        c = <Connection *>r.connections.items[i]
        if (c != NULL and r.now_ms - c.last_active_ms > r.plane.connections_max_idle_ms
                and c.head_slot == c.tail_slot):
            connection_condemn(c)
    r.idle_check_due_ms = r.now_ms + idle_check_ms(r)


cdef int64_t idle_check_ms(const Reactor *r) noexcept nogil:
    """How often to look: a connection is closed at most a tenth later than it should be."""
    cdef int64_t tenth = r.plane.connections_max_idle_ms // 10 + 1
    return tenth if tenth < IDLE_CHECK_MAX_MS else IDLE_CHECK_MAX_MS


cdef int sleep_ms(Reactor *r) noexcept nogil:
    """Until the next timer; for ever when there is nothing to wait for but sockets."""
    cdef int64_t due = -1
    if r.timers.count > 0:
        due = r.timers.items[0].due_ms
    if r.connections_open > 0 and r.plane.connections_max_idle_ms > 0:
        if r.idle_check_due_ms < r.now_ms:
            r.idle_check_due_ms = r.now_ms + idle_check_ms(r)
        if due < 0 or r.idle_check_due_ms < due:
            due = r.idle_check_due_ms
    if r.accept_again_ms > 0 and (due < 0 or r.accept_again_ms < due):
        due = r.accept_again_ms
    if due < 0:
        return -1
    due -= r.now_ms
    return <int>(due if due > 0 else 0)

# ---------------------------------------------------------------- the loop


cdef void settle(Reactor *r, bint last) noexcept nogil:
    """Write, answer, send; then buffers may move. Connections go only at the end of the pass (`last`): until
    then events still to be handled may point to them."""
    cdef int32_t i, kept = 0
    cdef Connection *c
    produce_flush(r)
    fetch_serve_ready(r)
    for i in range(r.to_flush_count - 1, -1, -1):        # records for readers before their writers' acknowledgements
        c = r.to_flush[i]
        c.in_flush_list = False
        connection_send(c)
    r.to_flush_count = 0
    for i in range(r.touched_count):
        c = r.touched[i]
        if not c.closing:
            connection_settle_buffer(c)
            connection_watch(c)
        if not c.closing:
            c.touched = False
        elif last:
            fetch_connection_closed(c)
            connection_close(c)
        else:
            r.touched[kept] = c
            kept += 1
    r.touched_count = kept


cdef void one_pass(Reactor *r, epoll_event *events, int n) noexcept nogil:
    cdef int i
    cdef uint64_t tag
    cdef Connection *c
    cdef bint mail = False
    for i in range(n):
        tag = <uint64_t>events[i].data.ptr
        if tag == 0:
            mail = True
        elif tag & LISTENER_TAG:
            accept_all(r, <int32_t>(tag >> 1))
        else:
            c = <Connection *>events[i].data.ptr
            if events[i].events & EPOLLOUT:
                connection_send(c)
            if events[i].events & EPOLLIN:
                receive(r, c)
            elif events[i].events & (EPOLLERR | EPOLLHUP):
                connection_condemn(c)
            if r.pending_bytes >= FLUSH_BYTES:
                settle(r, False)
    if mail:
        open_mailbox(r)
    run_timers(r)
    if r.idle_check_due_ms > 0 and r.now_ms >= r.idle_check_due_ms:
        close_idle(r)
    if r.accept_again_ms > 0 and r.now_ms >= r.accept_again_ms and not watch_listeners(r):
        rest_listeners(r)
    settle(r, True)
    if r.scratch.capacity > SCRATCH_KEEP_BYTES:
        writer_free(&r.scratch)                          # one huge reply is no reason to keep its memory


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
        pacer_gather(&r.pacer, FLUSH_BYTES, r.mailbox.event_fd if commits_waiting(r) else -1)
    return NULL

# ---------------------------------------------------------------- life


cdef bint reactor_init(Reactor *r, Plane *plane, int index) noexcept nogil:
    """False (errno set) when the kernel refused a descriptor."""
    memset(r, 0, sizeof(Reactor))
    r.plane = plane
    r.index = index
    r.now_ms = monotonic_ms()
    r.wall_ms = wall_clock_ms()
    r.session_seed = <uint32_t>(r.wall_ms * 2654435761u) ^ <uint32_t>index
    pthread_mutex_init(&r.mailbox.lock, NULL)
    pacer_init(&r.pacer)
    keep_spare()
    r.epoll_fd = new_epoll()
    r.mailbox.event_fd = new_eventfd()
    if r.epoll_fd < 0 or r.mailbox.event_fd < 0:
        return False
    return epoll_add(r.epoll_fd, r.mailbox.event_fd, NULL) == 0


cdef bint reactor_start(Reactor *r) noexcept nogil:
    cdef char name[16]
    if r.index == 0:
        r.plane.connection_fd_max = largest_connection_fd()
        if not watch_listeners(r):
            return False
    r.running = True
    snprintf(name, sizeof(name), b"reactor-%d", r.index)
    if start_thread(&r.thread, run, r, name) != 0:
        r.running = False
        return False
    return True


cdef void reactor_stop(Reactor *r) noexcept nogil:
    """Ends the loop after the pass at hand and waits for the thread."""
    if r.thread != 0:
        post(&r.mailbox, MAIL_STOP, 0, 0, NULL)
        pthread_join(r.thread, NULL)
        r.thread = 0


cdef void reactor_close_connections(Reactor *r) noexcept nogil:
    """Once the thread has ended: clients learn at once that nobody answers any more."""
    cdef int32_t i
    cdef Connection *c
    for i in range(r.connections.used):
        c = <Connection *>r.connections.items[i]
        if c != NULL:
            fetch_connection_closed(c)
            connection_close(c)


cdef void drop_mails(Reactor *r) noexcept nogil:
    """What came too late."""
    cdef int32_t i
    for i in range(r.mailbox.count):
        if r.mailbox.mails[i].kind == MAIL_REPLY:
            chunks_free(<Chunk *>r.mailbox.mails[i].data)
        elif r.mailbox.mails[i].kind == MAIL_CONNECTION:
            close(<int>r.mailbox.mails[i].a)
    free(r.mailbox.mails)


cdef void reactor_free(Reactor *r) noexcept nogil:
    """The thread has ended."""
    cdef int32_t i
    reactor_close_connections(r)
    produce_abandon(r)
    drop_mails(r)
    if r.sessions != NULL:
        for i in range(1024):
            while r.sessions[i] != NULL:
                session_remove(r, r.sessions[i])
        free(r.sessions)
    buffer_pool_free(r)
    close(r.epoll_fd)
    close(r.mailbox.event_fd)
    pthread_mutex_destroy(&r.mailbox.lock)
    commits_free(r)
    free(r.connections.items)
    free(r.connections.generations)
    free(r.connections.free)
    free(r.fetches.items)
    free(r.fetches.generations)
    free(r.fetches.free)
    free(r.produces.items)
    free(r.produces.generations)
    free(r.produces.free)
    free(r.timers.items)
    free(r.dirty)
    free(r.entries)
    free(r.touched)
    free(r.to_flush)
    writer_free(&r.scratch)
