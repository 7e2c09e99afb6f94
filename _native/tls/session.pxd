"""TLS of one connection for callers with their own I/O, see session.pyx."""
from bowstring._native.tls.context cimport TlsContext
from bowstring._native.tls.stream_types cimport TlsStream


cdef class TlsSession:
    cdef TlsStream *stream                  # see stream.pxd; NULL once it is released
    cdef readonly TlsContext context
    cdef readonly bint is_closed            # the peer has sent close_notify
    cdef str server_host
    cdef int _check(self) except -1

# Takes the stream out of a session, which raises TlsError from then on. Its unsent bytes go with it.
cdef TlsStream *session_release(TlsSession session) except NULL
