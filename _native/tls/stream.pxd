"""The TLS state of one connection, see stream.pyx."""
from libc.stdint cimport int64_t, uint8_t
from bowstring._native.tls.stream_types cimport TlsBuffer, TlsCalls, TlsPort, TlsStatus, TlsStream

# Makes room for `n` more bytes at the end; False when memory ran out.
cdef bint buffer_reserve(TlsBuffer *buffer, int64_t n) noexcept nogil

# What OpenSSL calls with a session that later connections may resume (SSL_CTX_sess_set_new_cb).
cdef int keep_session(void *ssl, void *session) noexcept nogil

# Prepares the calls, once; OpenSSL must be loaded.
cdef const TlsCalls *stream_calls() except NULL

# As in TlsCalls.
cdef TlsStream *stream_open(const TlsPort *port, const char *host, const char *peer) noexcept nogil
cdef void stream_free(TlsStream *s) noexcept nogil
cdef TlsStatus stream_receive(TlsStream *s, const uint8_t *data, int64_t n, uint8_t *out, int64_t room,
                              int64_t *produced) noexcept nogil
cdef bint stream_encrypt(TlsStream *s, const uint8_t *data, int64_t n) noexcept nogil
cdef void stream_close(TlsStream *s) noexcept nogil
cdef int64_t stream_peer_certificate(TlsStream *s, uint8_t **der) noexcept nogil
