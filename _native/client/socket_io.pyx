"""Makes the system calls of a client's I/O thread, see socket_io.pxd."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memset
from bowstring._native.base.atomics cimport add_i32, load_i32
from bowstring._native.base.clock cimport monotonic_ns

import os

cdef extern from "<sched.h>" nogil:
    int sched_yield()

cdef extern from "<sys/epoll.h>" nogil:
    ctypedef union epoll_data_t:
        int fd
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_wait(int epoll_fd, epoll_event *events, int n, int timeout_ms)

cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    int c_poll "poll"(pollfd *fds, unsigned long count, int timeout_ms)
    enum:
        POLLIN

cdef extern from "<sys/socket.h>" nogil:
    ssize_t c_recv "recv"(int fd, void *data, size_t n, int flags)
    struct iovec:
        void *iov_base
        size_t iov_len
    struct msghdr:
        iovec *msg_iov
        size_t msg_iovlen
    ssize_t c_sendmsg "sendmsg"(int fd, const msghdr *message, int flags)
    ssize_t c_send "send"(int fd, const void *data, size_t n, int flags)
    enum:
        MSG_NOSIGNAL
        MSG_DONTWAIT

cdef extern from "<unistd.h>" nogil:
    int usleep(unsigned int us)

cdef enum:
    BUFFERS_MAX = 64
    EVENTS_MAX = 64
    SMALL_BYTES = 4096             # sent with the GIL held: reacquiring it takes longer than sendmsg()
    SPIN_NS = 60000
    SHORT_NS = 90000               # SPIN_NS plus a wake-up
    TAKEN_NS = 20000               # a sched_yield() that takes this long gave the processor to another thread
    REST_NS = 10000000
    CREDIT_MAX = 4
    LOOK_COST = 2
    TURN_STEP_US = 5
    TURN_STEPS = 20
    PATIENCE_MS = 1                # to wait for the next piece of a response
    PATIENCE_NS = 10000000         # to wait for all of it, before other connections are served

# How many I/O threads returned from a system call and wait for the GIL.
cdef int32_t wanting = 0


cdef bint turn_wanted() noexcept nogil:
    return load_i32(&wanting) != 0


cdef void give_turn() noexcept:
    cdef int step
    with nogil:
        for step in range(TURN_STEPS):
            if load_i32(&wanting) == 0:
                break
            usleep(TURN_STEP_US)


cdef class Poller:
    """Waits for an epoll without the GIL.

    A sleeping thread must be woken. On a virtual machine that is an interrupt to another processor, which takes as long
    as a broker's work for a small request. So a thread whose last waits were short polls for SPIN_NS before it sleeps.
    It polls only while that is useful: a short wait earns one credit, polling in vain costs two. And only while the
    processor is free: it yields between polls, and when another thread took the processor, it does not poll for REST_NS.
    """

    def __init__(self, int descriptor):
        self.descriptor = descriptor
        self.alone = len(os.sched_getaffinity(0)) == 1

    cpdef list lend(self, double until, turn):
        """As wait(), until a time of the monotonic clock, with `turn` released: a lock that the caller holds. A thread
        that takes it owns what the caller owns. Sleeps without polling."""
        cdef double now = monotonic_ns() / 1e9
        until = min(until, self.alarm)
        if until <= now:
            return self.wait(0.0)
        self.wakes_at = until
        turn.release()
        try:
            return self.wait(until - now, True)
        finally:
            turn.acquire()

    cpdef list wait(self, double timeout_s, bint patient=False):
        """(descriptor, events) of each ready descriptor. Waits for the first one at most `timeout_s` seconds, and not
        beyond the alarm.

        Args:
            patient: sleep without polling.
        """
        cdef epoll_event events[EVENTS_MAX]
        cdef int timeout_ms, count, i
        cdef long long began_ns
        if timeout_s > 0:
            timeout_s = min(timeout_s, self.alarm - monotonic_ns() / 1e9)
        timeout_ms = 0 if timeout_s <= 0 else <int>(timeout_s * 1000 + 0.999)
        if timeout_ms == 0:
            count = epoll_wait(self.descriptor, events, EVENTS_MAX, 0)
        else:
            with nogil:
                began_ns = monotonic_ns()
                count = 0
                if not patient and not self.alone and self.credit > 0 and began_ns >= self.rest_until_ns:
                    count = look(self, events, began_ns)
                if count == 0:
                    count = epoll_wait(self.descriptor, events, EVENTS_MAX, timeout_ms)
                if self.credit < CREDIT_MAX and monotonic_ns() - began_ns < SHORT_NS:
                    self.credit += 1
                add_i32(&wanting, 1)
            add_i32(&wanting, -1)
        return [(events[i].data.fd, events[i].events) for i in range(count)]


cdef int look(Poller poller, epoll_event *events, long long began_ns) noexcept nogil:
    """Polls with epoll_wait() for SPIN_NS."""
    cdef long long now_ns = began_ns, before_ns
    cdef int count
    while now_ns - began_ns < SPIN_NS:
        count = epoll_wait(poller.descriptor, events, EVENTS_MAX, 0)
        if count != 0:
            return count
        before_ns = now_ns
        sched_yield()
        now_ns = monotonic_ns()
        if now_ns - before_ns > TAKEN_NS:
            poller.rest_until_ns = now_ns + REST_NS
            break
    poller.credit -= LOOK_COST
    return 0


cpdef int send_queue(int descriptor, out, bint keep_gil=False) except -1:
    """Sends the buffers of a deque to a non-blocking socket and removes what the socket took.

    Keeps the GIL for a few bytes, and with `keep_gil` always.

    Raises:
        OSError: as socket.sendmsg(), but not for a socket that is full.
    """
    cdef iovec pieces[BUFFERS_MAX]
    cdef Py_ssize_t held, sent, i
    while out:
        held = send_some(descriptor, out, keep_gil, pieces, &sent)
        if sent < 0:
            return 0
        for i in range(held):
            if <Py_ssize_t>pieces[i].iov_len > sent:
                out[0] = out[0][sent:]
                return 0                                 # the socket is full
            sent -= pieces[i].iov_len
            out.popleft()
    return 0


cdef int send_message(int descriptor, const msghdr *message, Py_ssize_t *sent) noexcept nogil:
    """One sendmsg(2); returns 0 or errno."""
    while True:
        sent[0] = c_sendmsg(descriptor, message, MSG_NOSIGNAL | MSG_DONTWAIT)
        if sent[0] >= 0:
            return 0
        if errno != EINTR:
            return errno


cdef Py_ssize_t send_some(int descriptor, object out, bint keep_gil, iovec *pieces, Py_ssize_t *sent) except -1:
    """Sends the first buffers with one system call and returns their count; `sent` is -1 if the socket is full."""
    cdef Py_buffer views[BUFFERS_MAX]
    cdef msghdr message
    cdef Py_ssize_t held = 0, i, size = 0
    cdef int failure = 0
    memset(&message, 0, sizeof(msghdr))
    try:
        for buffer in out:
            if held == BUFFERS_MAX:
                break
            PyObject_GetBuffer(buffer, &views[held], PyBUF_SIMPLE)
            pieces[held].iov_base = views[held].buf
            pieces[held].iov_len = views[held].len
            size += views[held].len
            held += 1
        message.msg_iov = pieces
        message.msg_iovlen = held
        if keep_gil or size <= SMALL_BYTES:
            failure = send_message(descriptor, &message, sent)
        else:
            with nogil:
                failure = send_message(descriptor, &message, sent)
                add_i32(&wanting, 1)
            add_i32(&wanting, -1)
    finally:
        for i in range(held):
            PyBuffer_Release(&views[i])
    if failure and failure != EAGAIN:
        raise OSError(failure, os.strerror(failure))
    return held


cpdef Py_ssize_t receive_some(int descriptor, buffer, Py_ssize_t at) except -2:
    """Receives what has come into `buffer` from `at` on. Keeps the GIL: reacquiring it takes longer than recv().

    Returns:
        Bytes received; -1: none now.

    Raises:
        EOFError: the peer closed the connection. OSError: it is broken.
    """
    cdef Py_buffer view
    cdef ssize_t received
    cdef int failure = 0
    PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
    received = c_recv(descriptor, <char *>view.buf + at, view.len - at, MSG_DONTWAIT)
    failure = errno if received < 0 else 0
    PyBuffer_Release(&view)
    if received == 0:
        raise EOFError
    if failure and failure != EAGAIN and failure != EINTR:
        raise OSError(failure, os.strerror(failure))
    return received


def receive_rest(int descriptor, buffer not None, Py_ssize_t at):
    """Receives into `buffer` from `at` on without the GIL, and waits a moment for the rest: pieces of a large response
    come faster than a thread can be woken for each.

    Returns:
        The end of what the buffer holds.

    Raises:
        EOFError: the peer closed the connection. OSError: it is broken.
    """
    cdef Py_buffer view
    cdef pollfd one
    cdef ssize_t received = 1
    cdef int failure = 0
    cdef long long until_ns = monotonic_ns() + PATIENCE_NS
    one.fd = descriptor
    one.events = POLLIN
    one.revents = 0
    PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
    try:
        with nogil:
            while at < view.len:
                received = c_recv(descriptor, <char *>view.buf + at, view.len - at, MSG_DONTWAIT)
                failure = errno if received < 0 else 0
                if received > 0:
                    at += received
                elif failure != EAGAIN or c_poll(&one, 1, PATIENCE_MS) <= 0:
                    break
                if monotonic_ns() > until_ns:
                    break
            add_i32(&wanting, 1)
        add_i32(&wanting, -1)
    finally:
        PyBuffer_Release(&view)
    if received == 0:
        raise EOFError
    if failure and failure != EAGAIN and failure != EINTR:
        raise OSError(failure, os.strerror(failure))
    return at


# ------------------------------------------------------------ for other modules


cdef void gil_wanted() noexcept nogil:
    add_i32(&wanting, 1)


cdef void gil_back() noexcept nogil:
    add_i32(&wanting, -1)


cdef int recv_now(int descriptor, void *data, Py_ssize_t size, Py_ssize_t *received) noexcept nogil:
    received[0] = c_recv(descriptor, data, size, MSG_DONTWAIT)
    return errno if received[0] < 0 else 0


cdef int send_now(int descriptor, const void *data, Py_ssize_t size, Py_ssize_t *sent) noexcept nogil:
    while True:
        sent[0] = c_send(descriptor, data, size, MSG_NOSIGNAL | MSG_DONTWAIT)
        if sent[0] >= 0:
            return 0
        if errno != EINTR:
            return errno


cdef bint wait_readable(int descriptor) noexcept nogil:
    cdef pollfd one
    one.fd = descriptor
    one.events = POLLIN
    one.revents = 0
    return c_poll(&one, 1, PATIENCE_MS) > 0
