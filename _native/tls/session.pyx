"""TLS of one connection for callers with their own I/O (sans-I/O)."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free
from bowstring._native.tls.openssl cimport openssl
from bowstring._native.tls.stream cimport (
    stream_close, stream_encrypt, stream_free, stream_open, stream_peer_certificate, stream_receive)
from bowstring._native.tls.stream_types cimport TLS_CLOSED, TLS_FAILED, TLS_SLACK, TlsStatus, TlsStream
from bowstring._native.tls.library import TlsError

cdef enum:
    SMALL_BYTES = 1024             # handled with the GIL held: reacquiring it takes longer

# What to do, by a part of OpenSSL's reason. The first that is found counts.
_CURES = (
    ("wrong version number", "the peer speaks no TLS on this port: use PLAINTEXT, or another port"),
    ("packet length too long", "the peer speaks no TLS on this port: use PLAINTEXT, or another port"),
    ("http request", "a web browser or proxy connected: this port is not for HTTP"),
    ("hostname mismatch", "its names (subjectAltName) must have the host that the client connects to; "
                          "ssl.endpoint.identification.algorithm= (empty) turns the check off"),
    ("ip address mismatch", "its names (subjectAltName) must have the address that the client connects to; "
                            "ssl.endpoint.identification.algorithm= (empty) turns the check off"),
    ("expired", "renew the certificate, or correct the clock"),
    ("not yet valid", "wait, or correct the clock"),
    ("self-signed certificate", "trust it: name its authority in ssl.truststore.location (ssl.ca.location)"),
    ("self signed certificate", "trust it: name its authority in ssl.truststore.location (ssl.ca.location)"),
    ("unable to get", "name its authority in ssl.truststore.location (ssl.ca.location)"),
    ("certificate required", "the broker requires a client certificate: set ssl.keystore.location"),
    ("peer did not return a certificate", "the client must send a certificate: set its ssl.keystore.location"),
    ("alert unknown ca", "the peer does not trust this side's certificate: name its authority in the peer's trust store"),
    ("alert bad certificate", "the peer refuses this side's certificate: look at the peer's log"),
    ("alert handshake failure", "both sides need a common cipher, and clients perhaps a certificate"),
    ("no shared cipher", "both sides need a common cipher: see ssl.cipher.suites"),
    ("protocol", "both sides need a common version: see ssl.enabled.protocols"),
)


def _cure(why):
    lower = why.lower()
    return next((f"{why}; {cure}" for part, cure in _CURES if part in lower), why)


cdef class TlsSession:
    """TLS of one connection. The caller moves the bytes: after each receive() or send() it sends outgoing() to the peer.

    Args:
        context: A client's or a server's.
        server_host: Clients: the host that they connect to. A name is sent (SNI), and the server's certificate must be for
            this name or address. None: neither.
        peer: Clients: the host and port that they connect to. The handshake resumes an earlier session of this context
            with the same peer, and the same `server_host`, if there is one. None: it is a full one.

    Raises:
        TlsError: The host is not a name or address.
    """

    def __init__(self, TlsContext context not None, str server_host=None, str peer=None):
        cdef bytes host = None
        cdef bytes name = None if peer is None else f"{peer} {server_host or ''}".encode()
        cdef int64_t produced
        if self.stream != NULL:
            raise TlsError("a TLS session cannot be opened twice")
        if server_host is not None:
            host = server_host.encode("idna" if not server_host.isascii() else "ascii")
            if not host or b"\0" in host:
                raise TlsError(f"{server_host!r} is no host name or address")
        self.context = context
        self.server_host = server_host
        self.stream = stream_open(&context.port, <const char *>host if host is not None else NULL,
                                  <const char *>name if name is not None else NULL)
        if self.stream == NULL:
            raise TlsError(f"cannot begin TLS with {server_host!r}: no memory, or not a host name")
        if not context.port.is_server:
            if stream_receive(self.stream, NULL, 0, NULL, 0, &produced) == TLS_FAILED:
                raise TlsError((<bytes>self.stream.why).decode("utf-8", "replace"))

    def __dealloc__(self):
        stream_free(self.stream)

    cdef int _check(self) except -1:
        if self.stream == NULL:
            raise TlsError("this TLS session has been handed over")
        return 0

    def receive(self, ciphertext):
        """Takes bytes from the peer and returns the plain text that is complete; none while the handshake lasts.

        Raises:
            TlsError: The handshake failed, or a record is not authentic. Send outgoing(), which may have an alert, and
                close the connection.
        """
        cdef Py_buffer view
        cdef bytes out
        cdef uint8_t *at
        cdef int64_t produced, room
        cdef TlsStatus status
        self._check()
        PyObject_GetBuffer(ciphertext, &view, PyBUF_SIMPLE)
        try:
            room = view.len + TLS_SLACK
            out = PyBytes_FromStringAndSize(NULL, room)
            at = <uint8_t *>PyBytes_AS_STRING(out)
            if view.len <= SMALL_BYTES and self.stream.established:
                status = stream_receive(self.stream, <const uint8_t *>view.buf, view.len, at, room, &produced)
            else:
                with nogil:
                    status = stream_receive(self.stream, <const uint8_t *>view.buf, view.len, at, room, &produced)
        finally:
            PyBuffer_Release(&view)
        if status == TLS_FAILED:
            why = _cure((<bytes>self.stream.why).decode("utf-8", "replace"))
            raise TlsError(f"TLS failed: {why}" if self.server_host is None
                           else f"TLS with {self.server_host} failed: {why}")
        if status == TLS_CLOSED:
            self.is_closed = True
        return out[:produced]

    def send(self, plaintext):
        """Encrypts bytes for the peer; outgoing() returns them.

        Raises:
            TlsError: The handshake has not ended, or the session has failed.
        """
        cdef Py_buffer view
        cdef bint ok
        self._check()
        PyObject_GetBuffer(plaintext, &view, PyBUF_SIMPLE)
        try:
            if view.len <= SMALL_BYTES:
                ok = stream_encrypt(self.stream, <const uint8_t *>view.buf, view.len)
            else:
                with nogil:
                    ok = stream_encrypt(self.stream, <const uint8_t *>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)
        if not ok:
            raise TlsError((<bytes>self.stream.why).decode("utf-8", "replace") if self.stream.failed
                           else "the TLS handshake has not ended")

    def outgoing(self):
        """Returns the bytes to send to the peer since the last call."""
        cdef bytes out
        self._check()
        out = PyBytes_FromStringAndSize(<char *>self.stream.unsent.data + self.stream.unsent.start,
                                        self.stream.unsent.end - self.stream.unsent.start)
        self.stream.unsent.start = self.stream.unsent.end = 0
        if self.stream.unsent.capacity > TLS_SLACK:
            free(self.stream.unsent.data)
            self.stream.unsent.data = NULL
            self.stream.unsent.capacity = 0
        return out

    def close(self):
        """Ends the session in order: outgoing() then has a close_notify."""
        self._check()
        stream_close(self.stream)

    def release(self):
        """Hands the session over to native code: a capsule with its stream (a TlsStream of stream_types.pxd).

        Who takes the pointer out of the capsule renames the capsule to "taken", and owns it from then on.
        """
        cdef TlsStream *stream = session_release(self)
        return PyCapsule_New(stream, "bowstring.tls.stream", drop_stream)

    @property
    def established(self):
        """Whether the handshake has ended."""
        return self.stream != NULL and self.stream.established

    @property
    def resumed(self):
        """Whether the handshake used a ticket of an earlier connection."""
        return self.stream != NULL and self.stream.resumed

    @property
    def peer_certificate(self):
        """The peer's certificate (DER), or None."""
        cdef uint8_t *der = NULL
        cdef int64_t n
        self._check()
        n = stream_peer_certificate(self.stream, &der)
        try:
            return PyBytes_FromStringAndSize(<char *>der, n) if n > 0 else None
        finally:
            free(der)

    @property
    def version(self):
        """``TLSv1.3`` or ``TLSv1.2``; None before the handshake has ended."""
        if not self.established:
            return None
        return (<bytes>openssl.SSL_get_version(self.stream.ssl)).decode("ascii")

    @property
    def cipher(self):
        """The IANA name of the cipher suite, as Java's; None before the handshake has ended."""
        if not self.established:
            return None
        return (<bytes>openssl.SSL_CIPHER_standard_name(
            openssl.SSL_get_current_cipher(self.stream.ssl))).decode("ascii")


cdef TlsStream *session_release(TlsSession session) except NULL:
    cdef TlsStream *stream
    session._check()
    stream = session.stream
    session.stream = NULL
    return stream


cdef void drop_stream(object capsule) noexcept:
    """Frees a stream that nobody took."""
    if PyCapsule_IsValid(capsule, "bowstring.tls.stream"):
        stream_free(<TlsStream *>PyCapsule_GetPointer(capsule, "bowstring.tls.stream"))
