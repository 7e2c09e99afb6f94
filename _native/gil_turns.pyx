"""System calls of the clients' I/O threads, which say when they want the GIL back; see gil_turns.pxd."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport EINTR, errno
from libc.stdint cimport int32_t
from libc.string cimport memset
from bowstring._native.atomics cimport add_i32, load_i32

import os

cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    int c_poll "poll"(pollfd *fds, unsigned long count, int timeout_ms)
    enum:
        POLLIN

cdef extern from "<sys/socket.h>" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len
    struct msghdr:
        iovec *msg_iov
        size_t msg_iovlen
    ssize_t c_sendmsg "sendmsg"(int fd, const msghdr *message, int flags)
    enum:
        MSG_NOSIGNAL
        MSG_DONTWAIT

cdef extern from "<unistd.h>" nogil:
    int usleep(unsigned int us)

cdef enum:
    BUFFERS_MAX = 64
    TURN_STEP_US = 5
    TURN_STEPS = 20

# I/O threads that have come back from a system call and wait for the GIL.
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


def wait_readable(int descriptor, double timeout_s):
    """Waits until `descriptor`, which may be an epoll instance, has something; at most `timeout_s` seconds."""
    cdef pollfd one
    cdef int timeout_ms = <int>(timeout_s * 1000 + 0.999)
    one.fd = descriptor
    one.events = POLLIN
    one.revents = 0
    with nogil:
        c_poll(&one, 1, timeout_ms)
        add_i32(&wanting, 1)
    add_i32(&wanting, -1)


def sendmsg(int descriptor, list buffers not None):
    """Bytes that a non-blocking socket took of `buffers`, at most 64 of them. OSError as socket.sendmsg."""
    cdef Py_buffer views[BUFFERS_MAX]
    cdef iovec pieces[BUFFERS_MAX]
    cdef msghdr message
    cdef Py_ssize_t held = 0, i, sent
    cdef int failure = 0
    memset(&message, 0, sizeof(msghdr))
    try:
        for buffer in buffers[:BUFFERS_MAX]:
            PyObject_GetBuffer(buffer, &views[held], PyBUF_SIMPLE)
            pieces[held].iov_base = views[held].buf
            pieces[held].iov_len = views[held].len
            held += 1
        message.msg_iov = pieces
        message.msg_iovlen = held
        with nogil:
            while True:
                sent = c_sendmsg(descriptor, &message, MSG_NOSIGNAL | MSG_DONTWAIT)
                failure = errno if sent < 0 else 0
                if failure != EINTR:
                    break
            add_i32(&wanting, 1)
        add_i32(&wanting, -1)
    finally:
        for i in range(held):
            PyBuffer_Release(&views[i])
    if failure:
        raise OSError(failure, os.strerror(failure))
    return sent
