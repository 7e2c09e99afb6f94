"""The TLS state of one connection: bytes from and for the peer go through memory, no socket is touched.

OpenSSL reads from what receive() was called with and appends to the sink, by a BIO of ours.
"""
from libc.stdint cimport int64_t, uint8_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, strdup, strncmp
from bowstring._native.tls.openssl cimport (
    BIO_CTRL_FLUSH, BIO_FLAGS_READ, BIO_FLAGS_SHOULD_RETRY, BIO_TYPE_SOURCE_SINK, SSL_CTRL_CLEAR_MODE, SSL_CTRL_MODE,
    SSL_CTRL_SET_TLSEXT_HOSTNAME, SSL_ERROR_WANT_READ, SSL_ERROR_ZERO_RETURN, SSL_MODE_RELEASE_BUFFERS,
    X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, openssl)
from bowstring._native.tls.tickets cimport tickets_put, tickets_release, tickets_retain, tickets_take
from bowstring._native.tls.stream_types cimport (
    TLS_CLOSED, TLS_FAILED, TLS_OK, TLS_RECORD_BYTES, TlsBuffer, TlsCalls, TlsPort, TlsStatus, TlsStream,
    TlsTickets)

cdef enum:
    BUFFER_MIN_BYTES = 4096
    DATALESS_MAX = 64               # a peer may send this many messages in a row that are not data, each with an answer
                                    # counts twice: they cost time and memory (RFC 8446, 4.6.3; refused renegotiation)

cdef TlsCalls calls
cdef void *method = NULL                                 # of our BIO

# ---------------------------------------------------------------- memory instead of a socket


cdef bint buffer_reserve(TlsBuffer *buffer, int64_t n) noexcept nogil:
    cdef int64_t capacity = buffer.capacity
    cdef void *grown
    if buffer.capacity - buffer.end >= n:
        return True
    if buffer.start > 0 and buffer.start >= buffer.end - buffer.start:
        memcpy(buffer.data, buffer.data + buffer.start, buffer.end - buffer.start)
        buffer.end -= buffer.start
        buffer.start = 0
        return buffer_reserve(buffer, n)
    if capacity < BUFFER_MIN_BYTES:
        capacity = BUFFER_MIN_BYTES
    while capacity < buffer.end + n:
        capacity *= 2
    grown = realloc(buffer.data, capacity)
    if grown == NULL:
        return False
    buffer.data = <uint8_t *>grown
    buffer.capacity = capacity
    return True


cdef int give_bytes(void *bio, char *data, int n) noexcept nogil:
    cdef TlsStream *s = <TlsStream *>openssl.BIO_get_data(bio)
    openssl.BIO_clear_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY)
    if s.dataless > DATALESS_MAX:
        return -1
    if s.input_bytes == 0:
        openssl.BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY)
        return -1
    if n > s.input_bytes:
        n = <int>s.input_bytes
    memcpy(data, s.input, n)
    s.input += n
    s.input_bytes -= n
    return n


cdef int take_bytes(void *bio, const char *data, int n) noexcept nogil:
    cdef TlsStream *s = <TlsStream *>openssl.BIO_get_data(bio)
    if not buffer_reserve(s.sink, n):
        s.out_of_memory = True
        return -1
    memcpy(s.sink.data + s.sink.end, data, n)
    s.sink.end += n
    s.dataless += s.receiving
    return n


cdef long control(void *bio, int command, long number, void *pointer) noexcept nogil:
    return command == BIO_CTRL_FLUSH


cdef const TlsCalls *stream_calls() except NULL:
    global method
    if method == NULL:
        method = openssl.BIO_meth_new(openssl.BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, b"bowstring")
        if method == NULL:
            raise MemoryError
        openssl.BIO_meth_set_read(method, give_bytes)
        openssl.BIO_meth_set_write(method, take_bytes)
        openssl.BIO_meth_set_ctrl(method, control)
        calls.open = stream_open
        calls.free = stream_free
        calls.receive = stream_receive
        calls.encrypt = stream_encrypt
        calls.close = stream_close
        calls.peer_certificate = stream_peer_certificate
    return &calls

# ---------------------------------------------------------------- life


cdef bint expect_host(void *ssl, const char *host) noexcept nogil:
    """The server's certificate must be for this name or address (RFC 6125); a name is also sent (SNI, RFC 6066)."""
    if openssl.X509_VERIFY_PARAM_set1_ip_asc(openssl.SSL_get0_param(ssl), host) == 1:
        return True
    openssl.SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS)
    return (openssl.SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, 0, <void *>host) == 1
            and openssl.SSL_set1_host(ssl, host) == 1)


cdef bint has_expired(void *session) noexcept nogil:
    """Whether the certificate that the peer had when the session began has expired since."""
    cdef const void *x = openssl.SSL_SESSION_get0_peer(session)
    return x != NULL and openssl.X509_cmp_current_time(openssl.X509_get0_notAfter(x)) <= 0


cdef bint resume(TlsStream *s, TlsTickets *tickets, const char *peer) noexcept nogil:
    """Has a client's handshake resume an earlier session with the peer, if there is one."""
    cdef void *session
    s.peer = strdup(peer)
    if s.peer == NULL:
        return False
    s.tickets = tickets_retain(tickets)
    session = tickets_take(tickets, peer)
    if session != NULL:
        if not has_expired(session):                     # each resumption gives a new ticket, without end
            openssl.SSL_set_session(s.ssl, session)      # if it does not fit any more, the handshake is a full one
        openssl.SSL_SESSION_free(session)
        openssl.ERR_clear_error()
    return True


cdef int keep_session(void *ssl, void *session) noexcept nogil:
    cdef TlsStream *s = <TlsStream *>openssl.BIO_get_data(openssl.SSL_get_rbio(ssl))
    if s.tickets != NULL and openssl.SSL_SESSION_is_resumable(session):
        keep(s, session)
    return 0                                             # OpenSSL owns it


cdef void keep(TlsStream *s, const void *session) noexcept nogil:
    """Keeps a copy: OpenSSL spoils the session of a connection that ends without close_notify."""
    cdef void *copy = openssl.SSL_SESSION_dup(session)
    if copy != NULL:
        tickets_put(s.tickets, s.peer, copy)


cdef TlsStream *stream_open(const TlsPort *port, const char *host, const char *peer) noexcept nogil:
    cdef TlsStream *s = <TlsStream *>calloc(1, sizeof(TlsStream))
    cdef void *bio
    if s == NULL:
        return NULL
    openssl.ERR_clear_error()
    s.calls = &calls
    s.is_server = port.is_server
    s.sink = &s.unsent
    s.ssl = openssl.SSL_new(port.context)
    bio = openssl.BIO_new(method) if s.ssl != NULL else NULL
    if bio == NULL:
        stream_free(s)
        return NULL
    openssl.BIO_set_data(bio, s)
    openssl.BIO_set_init(bio, 1)
    openssl.SSL_set_bio(s.ssl, bio, bio)
    if s.is_server:
        openssl.SSL_set_accept_state(s.ssl)
    else:
        openssl.SSL_set_connect_state(s.ssl)
    if ((host != NULL and not expect_host(s.ssl, host))
            or (peer != NULL and port.tickets != NULL and not resume(s, port.tickets, peer))):
        stream_free(s)
        return NULL
    return s


cdef void stream_free(TlsStream *s) noexcept nogil:
    if s == NULL:
        return
    if s.ssl != NULL:
        openssl.SSL_free(s.ssl)
    tickets_release(s.tickets)
    free(s.peer)
    free(s.unsent.data)
    free(s)

# ---------------------------------------------------------------- bytes


cdef TlsStatus fail(TlsStream *s) noexcept nogil:
    """Notes why: OpenSSL's reason, and for a certificate what is wrong with it."""
    cdef unsigned long code = openssl.ERR_peek_error()
    cdef const char *reason = openssl.ERR_reason_error_string(code) if code != 0 else NULL
    cdef long found
    if s.failed:
        return TLS_FAILED
    s.failed = True
    if s.out_of_memory:
        reason = b"out of memory"
    elif s.dataless > DATALESS_MAX:
        reason = b"the peer sends messages without data"
    if reason == NULL:
        reason = b"the peer broke the protocol"
    found = openssl.SSL_get_verify_result(s.ssl)
    if found != 0 and strncmp(reason, b"certificate verify failed", 25) == 0:
        snprintf(s.why, sizeof(s.why), b"%s: %s", reason, openssl.X509_verify_cert_error_string(found))
    else:
        snprintf(s.why, sizeof(s.why), b"%s", reason)
    openssl.ERR_clear_error()
    return TLS_FAILED


cdef TlsStatus stream_receive(TlsStream *s, const uint8_t *data, int64_t n, uint8_t *out, int64_t room,
                              int64_t *produced) noexcept nogil:
    cdef TlsStatus status
    cdef int result
    cdef bint all_sent
    produced[0] = 0
    if s.failed:
        return TLS_FAILED
    s.input = data
    s.input_bytes = n
    openssl.ERR_clear_error()
    if not s.established:
        all_sent = s.unsent.start == s.unsent.end
        result = openssl.SSL_do_handshake(s.ssl)
        if result != 1:
            return TLS_OK if openssl.SSL_get_error(s.ssl, result) == SSL_ERROR_WANT_READ else fail(s)
        s.resumed = openssl.SSL_session_reused(s.ssl)
        if s.resumed and s.is_server and has_expired(openssl.SSL_get_session(s.ssl)):
            s.failed = True
            snprintf(s.why, sizeof(s.why), b"certificate verify failed: certificate of a resumed session has expired")
            return TLS_FAILED
        s.established = True
        if s.resumed and s.tickets != NULL and strncmp(openssl.SSL_get_version(s.ssl), b"TLSv1.2", 8) == 0:
            keep(s, openssl.SSL_get_session(s.ssl))      # perhaps without a new ticket: the old one goes on
        # In TLS 1.3 only tickets follow the client's Finished; in 1.2 the server's own Finished does.
        s.tickets_wait = s.is_server and all_sent and strncmp(openssl.SSL_get_version(s.ssl), b"TLSv1.3", 8) == 0
        openssl.ERR_clear_error()
    s.receiving = True
    status = decrypt(s, out, room, produced)
    s.receiving = False
    return status


cdef TlsStatus decrypt(TlsStream *s, uint8_t *out, int64_t room, int64_t *produced) noexcept nogil:
    cdef size_t got
    cdef int result
    openssl.SSL_ctrl(s.ssl, SSL_CTRL_CLEAR_MODE, SSL_MODE_RELEASE_BUFFERS, NULL)    # until the last record
    while produced[0] < room:
        if s.input_bytes == 0:
            openssl.SSL_ctrl(s.ssl, SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS, NULL)
        result = openssl.SSL_read_ex(s.ssl, out + produced[0], room - produced[0], &got)
        if result == 1:
            produced[0] += got
            s.dataless = 0
            continue
        result = openssl.SSL_get_error(s.ssl, result)
        if result != SSL_ERROR_WANT_READ:
            return TLS_CLOSED if result == SSL_ERROR_ZERO_RETURN else fail(s)
        if s.input_bytes == 0:
            return TLS_OK
        s.dataless += 1                                  # a message was handled
    return TLS_OK


cdef bint stream_encrypt(TlsStream *s, const uint8_t *data, int64_t n) noexcept nogil:
    cdef size_t took
    if s.failed or not s.established:
        return False
    openssl.ERR_clear_error()
    if n > TLS_RECORD_BYTES:                                 # one buffer for all records of the call
        openssl.SSL_ctrl(s.ssl, SSL_CTRL_CLEAR_MODE, SSL_MODE_RELEASE_BUFFERS, NULL)
    while n > 0:
        if n <= TLS_RECORD_BYTES:
            openssl.SSL_ctrl(s.ssl, SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS, NULL)
        if openssl.SSL_write_ex(s.ssl, data, n, &took) != 1:
            fail(s)
            return False
        data += took
        n -= took
    return True


cdef void stream_close(TlsStream *s) noexcept nogil:
    if s.established and not s.failed:
        openssl.ERR_clear_error()
        openssl.SSL_shutdown(s.ssl)
        openssl.ERR_clear_error()


cdef int64_t stream_peer_certificate(TlsStream *s, uint8_t **der) noexcept nogil:
    cdef void *x = openssl.SSL_get1_peer_certificate(s.ssl)
    cdef uint8_t *at
    cdef int n
    der[0] = NULL
    if x == NULL:
        return 0
    n = openssl.i2d_X509(x, NULL)
    if n > 0:
        at = der[0] = <uint8_t *>malloc(n)
        if at == NULL or openssl.i2d_X509(x, &at) != n:
            n = 0
    openssl.X509_free(x)
    return n if n > 0 else -1
