"""TLS of a client's connection after its handshake: encrypts what is sent, decrypts what is received.

The methods do what the functions of the same names in socket_io.pyx do for plain sockets, so that a connection with TLS is
used like one without. A buffer leaves the queue when all of its ciphertext is written: an empty queue means that the system
has everything. Received bytes are decrypted straight into the caller's memory where it has room for a record more.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_SetName
from libc.errno cimport EAGAIN, EINTR, EPROTO
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from bowstring._native.base.clock cimport monotonic_ns
from bowstring._native.client.socket_io cimport gil_back, gil_wanted, recv_now, send_now, wait_readable
from bowstring._native.tls.stream_types cimport TLS_CLOSED, TLS_FAILED, TLS_RECORD_BYTES, TLS_SLACK, TlsStatus, TlsStream

import os

cdef enum:
    RAW_BYTES = 65536
    REST_BYTES = 82944                   # RAW_BYTES + TLS_SLACK
    TAKEN_MAX = 131072                   # plain text that is encrypted before it is written
    BUFFERS_AT_ONCE = 64
    KEEP_BYTES = 2048                    # encrypted with the GIL held
    WHOLE_NS = 10000000                  # to wait for all of a response, before other connections are served
    END = -1                             # instead of an errno: the peer has closed the connection


cdef class TlsChannel:
    """TLS of one connection. Belongs to one thread at a time.

    Args:
        descriptor: a non-blocking socket.
        stream: what TlsSession.release() has returned after the handshake.
    """

    def __init__(self, int descriptor, stream not None):
        self.descriptor = descriptor
        self.stream = <TlsStream *>PyCapsule_GetPointer(stream, "bowstring.tls.stream")
        PyCapsule_SetName(stream, "taken")
        self.raw = <uint8_t *>malloc(RAW_BYTES)
        self.record = <uint8_t *>malloc(TLS_RECORD_BYTES)
        if self.raw == NULL or self.record == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.stream != NULL:
            self.stream.calls.free(self.stream)
        free(self.raw)
        free(self.rest)
        free(self.record)

    # ------------------------------------------------------------ out

    cpdef int send_queue(self, out, bint keep_gil=False) except -1:
        """As send_queue of socket_io.pyx."""
        while True:
            self.write_unsent(keep_gil)
            if self.stream.unsent.start < self.stream.unsent.end:
                return 0                                 # the socket is full
            self.drop_taken(out)
            if not out:
                return 0
            self.encrypt_some(out, keep_gil)

    cdef int drop_taken(self, out) except -1:
        """Removes from the queue what is written."""
        while self.taken_buffers > 0:
            out.popleft()
            self.taken_buffers -= 1
        if self.taken_bytes > 0:
            out[0] = out[0][self.taken_bytes:]
            self.taken_bytes = 0
        return 0

    cdef int encrypt_some(self, out, bint keep_gil) except -1:
        """Encrypts the head of the queue."""
        cdef Py_buffer views[BUFFERS_AT_ONCE]
        cdef Py_ssize_t sizes[BUFFERS_AT_ONCE]
        cdef Py_ssize_t held = 0, size = 0, i
        cdef bint ok = True
        try:
            for buffer in out:
                if held == BUFFERS_AT_ONCE or size >= TAKEN_MAX:
                    break
                PyObject_GetBuffer(buffer, &views[held], PyBUF_SIMPLE)
                sizes[held] = min(views[held].len, TAKEN_MAX - size)
                size += sizes[held]
                held += 1
            if keep_gil or size <= KEEP_BYTES:
                for i in range(held):
                    ok = ok and self.add(<const uint8_t *>views[i].buf, sizes[i])
                ok = ok and self.add(NULL, 0)
            else:
                with nogil:
                    for i in range(held):
                        ok = ok and self.add(<const uint8_t *>views[i].buf, sizes[i])
                    ok = ok and self.add(NULL, 0)
                    gil_wanted()
                gil_back()
            self.taken_buffers = held
            if held and sizes[held - 1] < views[held - 1].len:
                self.taken_buffers = held - 1
                self.taken_bytes = sizes[held - 1]
        finally:
            for i in range(held):
                PyBuffer_Release(&views[i])
        if not ok:
            self.fail(EPROTO)
        return 0

    cdef bint add(self, const uint8_t *data, Py_ssize_t size) noexcept nogil:
        """Encrypts plain text in full records; the rest waits for more. Without data it is encrypted."""
        cdef Py_ssize_t n
        if data == NULL:
            n, self.record_bytes = self.record_bytes, 0
            return n == 0 or self.stream.calls.encrypt(self.stream, self.record, n)
        while size > 0:
            if self.record_bytes == 0 and size >= TLS_RECORD_BYTES:
                n = size - size % TLS_RECORD_BYTES
                if not self.stream.calls.encrypt(self.stream, data, n):
                    return False
            else:
                n = min(size, TLS_RECORD_BYTES - self.record_bytes)
                memcpy(self.record + self.record_bytes, data, n)
                self.record_bytes += n
                if self.record_bytes == TLS_RECORD_BYTES:
                    self.record_bytes = 0
                    if not self.stream.calls.encrypt(self.stream, self.record, TLS_RECORD_BYTES):
                        return False
            data += n
            size -= n
        return True

    cdef int write_unsent(self, bint keep_gil) except -1:
        """Writes ciphertext, as far as the socket takes it."""
        cdef Py_ssize_t size = self.stream.unsent.end - self.stream.unsent.start, sent = 0
        cdef const uint8_t *data = self.stream.unsent.data + self.stream.unsent.start
        cdef int failure = 0
        if size == 0:
            return 0
        if keep_gil or size <= KEEP_BYTES:
            failure = send_now(self.descriptor, data, size, &sent)
        else:
            with nogil:
                failure = send_now(self.descriptor, data, size, &sent)
                gil_wanted()
            gil_back()
        if failure and failure != EAGAIN:
            raise OSError(failure, os.strerror(failure))
        if not failure:
            self.stream.unsent.start += sent
            if self.stream.unsent.start == self.stream.unsent.end:
                self.stream.unsent.start = self.stream.unsent.end = 0
        return 0

    # ------------------------------------------------------------ in

    cpdef Py_ssize_t receive_some(self, buffer, Py_ssize_t at) except -2:
        """As receive_some of socket_io.pyx. Less than the buffer has room for means that no plain text is kept here."""
        cdef Py_buffer view
        cdef Py_ssize_t got = 0, n
        cdef int failure = 0
        PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
        got = self.take_rest(<uint8_t *>view.buf + at, view.len - at)
        while view.len - at - got > 0 and not failure:
            n = self.decrypt(<uint8_t *>view.buf + at + got, view.len - at - got, &failure)
            got += n
            if n < TLS_RECORD_BYTES:
                break
        PyBuffer_Release(&view)
        if got > 0:
            return got                                   # a failure comes again
        if failure and failure != EAGAIN and failure != EINTR:
            self.fail(failure)
        return -1

    def receive_rest(self, buffer not None, Py_ssize_t at):
        """As receive_rest of socket_io.pyx."""
        cdef Py_buffer view
        cdef Py_ssize_t n
        cdef int failure = 0
        cdef long long until_ns = monotonic_ns() + WHOLE_NS
        PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
        try:
            with nogil:
                at += self.take_rest(<uint8_t *>view.buf + at, view.len - at)
                while at < view.len:
                    n = self.decrypt(<uint8_t *>view.buf + at, view.len - at, &failure)
                    at += n
                    if n == 0 and failure and (failure != EAGAIN or not wait_readable(self.descriptor)):
                        break
                    failure = 0
                    if monotonic_ns() > until_ns:
                        break
                gil_wanted()
            gil_back()
        finally:
            PyBuffer_Release(&view)
        if failure and failure != EAGAIN and failure != EINTR:
            self.fail(failure)
        return at

    cdef Py_ssize_t take_rest(self, uint8_t *out, Py_ssize_t room) noexcept nogil:
        """Gives plain text that earlier calls had no room for."""
        cdef Py_ssize_t n = min(room, self.rest_end - self.rest_start)
        if n > 0:
            memcpy(out, self.rest + self.rest_start, n)
            self.rest_start += n
        return n

    cdef Py_ssize_t decrypt(self, uint8_t *out, Py_ssize_t room, int *failure) noexcept nogil:
        """Receives once; returns how much plain text that gave. `failure` is an errno or END; the plain text before it
        counts."""
        cdef bint direct = room > 2 * TLS_SLACK
        cdef Py_ssize_t received = 0, produced = 0
        cdef int64_t made = 0
        cdef TlsStatus status
        if self.ended or self.stream.failed:
            failure[0] = END if self.ended else EPROTO
            return 0
        failure[0] = recv_now(self.descriptor, self.raw, min(RAW_BYTES, room - TLS_SLACK) if direct else RAW_BYTES,
                              &received)
        if failure[0]:
            return 0
        if received == 0:
            self.ended = True
            failure[0] = END
            return 0
        if direct:
            status = self.stream.calls.receive(self.stream, self.raw, received, out, room, &made)
            produced = made
        else:
            if self.rest == NULL:
                self.rest = <uint8_t *>malloc(REST_BYTES)
                if self.rest == NULL:
                    failure[0] = EPROTO
                    return 0
            status = self.stream.calls.receive(self.stream, self.raw, received, self.rest, REST_BYTES, &made)
            self.rest_start, self.rest_end = 0, made
            produced = self.take_rest(out, room)
        if status == TLS_FAILED:
            failure[0] = EPROTO
        elif status == TLS_CLOSED:                       # also where the peer keeps the socket open
            self.ended = True
            failure[0] = END
        elif made == 0:
            failure[0] = EAGAIN if received < RAW_BYTES else 0
        return produced

    cdef int fail(self, int failure) except -1:
        if failure == END:
            raise EOFError
        if failure == EPROTO:
            raise OSError(EPROTO, "TLS failed: " + (<bytes>self.stream.why).decode("utf-8", "replace"))
        raise OSError(failure, os.strerror(failure))

    def end(self):
        """Sends close_notify (RFC 8446, section 6.1), if the socket has room."""
        self.stream.calls.close(self.stream)
        try:
            self.write_unsent(True)
        except OSError:
            pass
