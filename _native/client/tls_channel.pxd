"""TLS of a client's connection after its handshake. See tls_channel.pyx."""
from libc.stdint cimport uint8_t
from bowstring._native.tls.stream_types cimport TlsStatus, TlsStream


cdef class TlsChannel:
    """What socket_io.pyx does for plain sockets, over TLS."""
    cdef int descriptor
    cdef TlsStream *stream
    # The head of the queue that is encrypted and not wholly written yet
    cdef Py_ssize_t taken_buffers
    cdef Py_ssize_t taken_bytes          # of the buffer behind these
    cdef uint8_t *raw                    # received bytes, before they are decrypted
    cdef uint8_t *rest                   # plain text for which the caller had no room
    cdef Py_ssize_t rest_start, rest_end
    cdef uint8_t *record                 # small buffers become one record
    cdef Py_ssize_t record_bytes
    cdef bint ended                      # by the peer

    cpdef int send_queue(self, out, bint keep_gil=?) except -1
    cdef int drop_taken(self, out) except -1
    cdef int encrypt_some(self, out, bint keep_gil) except -1
    cdef bint add(self, const uint8_t *data, Py_ssize_t size) noexcept nogil
    cdef int write_unsent(self, bint keep_gil) except -1
    cpdef Py_ssize_t receive_some(self, buffer, Py_ssize_t at) except -2
    cdef Py_ssize_t take_rest(self, uint8_t *out, Py_ssize_t room) noexcept nogil
    cdef Py_ssize_t decrypt(self, uint8_t *out, Py_ssize_t room, int *failure) noexcept nogil
    cdef int fail(self, int failure) except -1
