"""Keys, trust and settings of TLS: what many connections share.

Only TLS 1.2 and 1.3 are offered, without renegotiation and compression; by default only ciphers with forward secrecy and
authenticated encryption (RFC 9325). Servers choose AES-128-GCM first: it is the cheapest of them on processors with AES
instructions; clients that put ChaCha20 first get that. Sessions resume by tickets (RFC 5077, RFC 8446), which only this
context can read.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport uint8_t
from libc.string cimport memcpy
from libc.time cimport tm
from bowstring._native.tls.library cimport last_reason
from bowstring._native.tls.openssl cimport (
    SSL_CTRL_CHAIN_CERT, SSL_CTRL_CLEAR_MODE, SSL_CTRL_MODE, SSL_CTRL_SET_MAX_PROTO_VERSION, SSL_CTRL_SET_MIN_PROTO_VERSION,
    SSL_CTRL_SET_SESS_CACHE_MODE, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, SSL_MODE_AUTO_RETRY,
    SSL_MODE_ENABLE_PARTIAL_WRITE,
    SSL_MODE_RELEASE_BUFFERS, SSL_SESS_CACHE_CLIENT, SSL_SESS_CACHE_NO_INTERNAL, SSL_OP_CIPHER_SERVER_PREFERENCE, SSL_OP_NO_COMPRESSION, SSL_OP_NO_RENEGOTIATION,
    SSL_OP_PRIORITIZE_CHACHA, SSL_VERIFY_FAIL_IF_NO_PEER_CERT, SSL_VERIFY_NONE, SSL_VERIFY_PEER, TLS1_2, TLS1_3,
    X509_V_FLAG_PARTIAL_CHAIN, openssl)
from bowstring._native.tls.stream cimport keep_session, stream_calls
from bowstring._native.tls.tickets cimport tickets_new, tickets_release
from bowstring._native.tls.library import TlsError, load

_VERSIONS = {"TLSv1.2": TLS1_2, "TLSv1.3": TLS1_3}
_SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
_CIPHERS = ("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384",
            "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305")
_CLIENT_AUTH = {"none": SSL_VERIFY_NONE, "requested": SSL_VERIFY_PEER,
                "required": SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT}

cdef enum:
    CERTIFICATES_MAX = 2048         # of one PEM text

cdef struct Password:
    const char *text
    int n
    int asked


cdef int give_password(char *out, int size, int writing, void *data) noexcept nogil:
    cdef Password *password = <Password *>data
    password.asked = True
    if password.text == NULL or password.n > size:
        return -1
    memcpy(out, password.text, password.n)
    return password.n


cdef void *memory_bio(bytes data) except NULL:
    cdef void *bio = openssl.BIO_new_mem_buf(PyBytes_AS_STRING(data), <int>PyBytes_GET_SIZE(data))
    if bio == NULL:
        raise MemoryError
    return bio


cdef class Key:
    """A private key while a context is made."""
    cdef void *key

    def __dealloc__(self):
        if self.key != NULL:
            openssl.EVP_PKEY_free(self.key)


cdef class Certificates:
    """Certificates while a context is made."""
    cdef void *items[CERTIFICATES_MAX]
    cdef int count

    def __dealloc__(self):
        cdef int i
        for i in range(self.count):
            openssl.X509_free(self.items[i])


cdef Key read_key(bytes pem, str key_password):
    cdef Key found = Key()
    cdef bytes word = key_password.encode() if key_password is not None else b""
    cdef Password password = Password(NULL, <int>len(word), False)
    cdef void *bio = memory_bio(pem)
    if key_password is not None:
        password.text = PyBytes_AS_STRING(word)
    openssl.ERR_clear_error()
    found.key = openssl.PEM_read_bio_PrivateKey(bio, NULL, give_password, &password)
    openssl.BIO_free(bio)
    if found.key != NULL:
        return found
    if password.asked and key_password is None:
        raise TlsError("the private key is encrypted; give its password (ssl.key.password)")
    if password.asked:
        raise TlsError("the private key cannot be decrypted; check its password (ssl.key.password)")
    if b"PRIVATE KEY-----" not in pem:
        raise TlsError("there is no private key; add the lines from -----BEGIN PRIVATE KEY----- on")
    raise TlsError(f"the private key is unreadable ({last_reason()}); it must be PEM, as `openssl pkey` writes it")


cdef Certificates read_certificates(bytes pem, str what):
    cdef Certificates found = Certificates()
    cdef void *bio = memory_bio(pem)
    cdef void *x
    openssl.ERR_clear_error()
    while found.count < CERTIFICATES_MAX:
        x = openssl.PEM_read_bio_X509(bio, NULL, NULL, NULL)
        if x == NULL:
            break
        found.items[found.count] = x
        found.count += 1
    openssl.BIO_free(bio)
    reason = last_reason()
    openssl.ERR_clear_error()
    if found.count == CERTIFICATES_MAX:
        raise TlsError(f"{what} has more than {CERTIFICATES_MAX - 1} certificates; name fewer")
    if reason and reason != "no start line":
        raise TlsError(f"certificate {found.count + 1} of {what} is unreadable ({reason}); it must be PEM")
    if found.count == 0:
        raise TlsError(f"{what} has no certificate; add the lines from -----BEGIN CERTIFICATE----- on")
    return found


cdef str moment(const void *when):
    cdef tm parts
    if openssl.ASN1_TIME_to_tm(when, &parts) != 1:
        return "?"
    return (f"{parts.tm_year + 1900}-{parts.tm_mon + 1:02}-{parts.tm_mday:02} "
            f"{parts.tm_hour:02}:{parts.tm_min:02}:{parts.tm_sec:02} UTC")


cdef int check_dates(void *x, str what) except -1:
    cdef const void *first = openssl.X509_get0_notBefore(x)
    cdef const void *last = openssl.X509_get0_notAfter(x)
    if openssl.X509_cmp_current_time(last) <= 0:
        raise TlsError(f"{what} expired on {moment(last)}; renew it")
    if openssl.X509_cmp_current_time(first) > 0:
        raise TlsError(f"{what} is not valid before {moment(first)}; wait, or correct this machine's clock")
    return 0


cdef bytes der_of(void *x):
    cdef int n = openssl.i2d_X509(x, NULL)
    cdef bytes der = PyBytes_FromStringAndSize(NULL, n if n > 0 else 0)
    cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(der)
    openssl.i2d_X509(x, &at)
    return der


cdef bytes use_identity(void *context, bytes certificate_chain, bytes private_key, str key_password):
    """Sets the certificate, the key and the chain; returns the certificate (DER)."""
    cdef Key key = read_key(private_key, key_password)
    cdef Certificates chain = read_certificates(certificate_chain, "the certificate chain")
    cdef int i, own = -1
    for i in range(chain.count):
        if own < 0 and openssl.X509_check_private_key(chain.items[i], key.key) == 1:
            own = i
    openssl.ERR_clear_error()
    if own < 0:
        raise TlsError("the private key does not belong to the certificate; take both from the same request")
    check_dates(chain.items[own], "the certificate")
    if (openssl.SSL_CTX_use_certificate(context, chain.items[own]) != 1
            or openssl.SSL_CTX_use_PrivateKey(context, key.key) != 1):
        raise TlsError(f"OpenSSL refuses the certificate ({last_reason()}); "
                       "use a key of at least 2,048 bits (RSA) or P-256 (ECDSA)")
    for i in range(chain.count):
        if i != own:
            check_dates(chain.items[i], f"certificate {i + 1} of the chain")
            if openssl.SSL_CTX_ctrl(context, SSL_CTRL_CHAIN_CERT, 1, chain.items[i]) != 1:
                raise TlsError(f"OpenSSL refuses certificate {i + 1} of the chain ({last_reason()})")
    return der_of(chain.items[own])


cdef int use_trust(void *context, bytes trusted, bint server) except -1:
    cdef Certificates authorities
    cdef void *store = openssl.SSL_CTX_get_cert_store(context)
    cdef int i
    # As Java: any certificate of the trust store ends a chain, not only self-signed ones.
    openssl.X509_VERIFY_PARAM_set_flags(openssl.SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN)
    if trusted is None:
        if openssl.SSL_CTX_set_default_verify_paths(context) != 1:
            raise TlsError("the system's authorities cannot be read; name yours (ssl.truststore.location)")
        return 0
    authorities = read_certificates(trusted, "the trust store")
    for i in range(authorities.count):
        if openssl.X509_STORE_add_cert(store, authorities.items[i]) != 1:
            raise TlsError(f"certificate {i + 1} of the trust store is unusable ({last_reason()})")
        if server and openssl.SSL_CTX_add_client_CA(context, authorities.items[i]) != 1:
            raise MemoryError
    return 0


cdef list used_names(void *context):
    """The ciphers that are offered, by their IANA names, in their order."""
    cdef void *stack = openssl.SSL_CTX_get_ciphers(context)
    cdef int i
    return [
        (<bytes>openssl.SSL_CIPHER_standard_name(openssl.OPENSSL_sk_value(stack, i))).decode("ascii")
        for i in range(openssl.OPENSSL_sk_num(stack))
    ]


cdef str openssl_name(str name):
    """From Java's name of a TLS 1.2 cipher to OpenSSL's, which is allowed, too."""
    cdef bytes given = name.encode()
    cdef bytes found = openssl.OPENSSL_cipher_name(given)
    return name if found == b"(NONE)" else found.decode("ascii")


cdef list use_ciphers(void *context, list given, list versions):
    """Sets the ciphers; returns the versions that have some."""
    cdef bytes names
    suites = [name for name in given if name.startswith(("TLS_AES_", "TLS_CHACHA20_"))]
    ciphers = [openssl_name(name) for name in given if name not in suites]
    for name in suites:
        names = name.encode()
        if openssl.SSL_CTX_set_ciphersuites(context, names) != 1:
            raise TlsError(f"{name} is no cipher suite of TLS 1.3 (ssl.cipher.suites)")
    for name in ciphers:
        names = name.encode() + b":!aNULL:!eNULL"
        if ":" in name or openssl.SSL_CTX_set_cipher_list(context, names) != 1:
            raise TlsError(f"{name} is unknown, or too weak (ssl.cipher.suites); "
                           "an example: TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    if given:
        versions = [v for v in versions if (suites if v == "TLSv1.3" else ciphers)]
    if not versions:
        raise TlsError("no cipher of ssl.cipher.suites is for a version of ssl.enabled.protocols")
    names = ":".join(suites or _SUITES).encode()
    openssl.SSL_CTX_set_ciphersuites(context, names)
    names = (":".join(ciphers or _CIPHERS) + ":!aNULL:!eNULL").encode()
    openssl.SSL_CTX_set_cipher_list(context, names)
    openssl.ERR_clear_error()
    return versions


cdef list checked_versions(protocols):
    for name in protocols:
        if name not in _VERSIONS:
            raise TlsError(f"{name!r} is not offered: ssl.enabled.protocols may have TLSv1.2 and TLSv1.3")
    if not protocols:
        raise TlsError("ssl.enabled.protocols is empty; set TLSv1.2,TLSv1.3")
    return sorted(set(protocols))


cdef int use_settings(void *context, list versions, bint server) except -1:
    cdef bytes id = PyBytes_FromStringAndSize(NULL, 32)
    openssl.SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION
                                | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA)
    openssl.SSL_CTX_ctrl(context, SSL_CTRL_MODE, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER
                         | SSL_MODE_RELEASE_BUFFERS, NULL)
    # SSL_read returns after each message that is not data: stream.pyx counts them.
    openssl.SSL_CTX_ctrl(context, SSL_CTRL_CLEAR_MODE, SSL_MODE_AUTO_RETRY, NULL)
    openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, _VERSIONS[min(versions)], NULL)
    openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, _VERSIONS[max(versions)], NULL)
    # A client's sessions are kept in tickets.pyx: OpenSSL resumes none by itself.
    openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE,
                         0 if server else SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL, NULL)
    if server:
        # A ticket holds the session, so that the broker remembers none; it is bound to this context.
        openssl.SSL_CTX_set_num_tickets(context, 1)
        if (openssl.RAND_bytes(<unsigned char *>PyBytes_AS_STRING(id), 32) != 1
                or openssl.SSL_CTX_set_session_id_context(context, <unsigned char *>PyBytes_AS_STRING(id), 32) != 1):
            raise TlsError(f"OpenSSL has no random numbers ({last_reason()})")
    else:
        openssl.SSL_CTX_sess_set_new_cb(context, keep_session)
    return 0


cdef class TlsContext:
    """Keys, trust and settings of TLS: what many connections share. It does not change.

    Args:
        server: For a server's side of connections, else for a client's.
        certificate_chain: Its own certificate and those of the authorities between it and a trusted one (PEM, any order).
        private_key: Of its certificate (PEM; PKCS8 or traditional; perhaps encrypted).
        key_password: Of an encrypted private key.
        trusted: Authorities (PEM) that the peer's certificate must come from. None: a client trusts the system's.
        client_auth: ``ssl.client.auth`` of a server: ``none``, ``requested`` or ``required``.
        protocols: ``TLSv1.2``, ``TLSv1.3`` or both.
        ciphers: Names as Java's (``TLS_AES_128_GCM_SHA256``) or OpenSSL's. Empty: those with forward secrecy and
            authenticated encryption.
        verify: A client checks the server's certificate.

    Raises:
        TlsError: Something is not acceptable; the message says what, and what to do.
        TlsUnavailableError: OpenSSL 3 cannot be loaded.
    """

    def __init__(self, *, bint server, bytes certificate_chain=None, bytes private_key=None, str key_password=None,
                 bytes trusted=None, str client_auth="none", protocols=("TLSv1.2", "TLSv1.3"), ciphers=(),
                 bint verify=True):
        cdef void *context
        if self.port.context != NULL:
            raise TlsError("a TLS context does not change; make another")
        load()
        if client_auth not in _CLIENT_AUTH:
            raise TlsError(f"ssl.client.auth is {client_auth!r}; it must be none, requested or required")
        if (certificate_chain is None) != (private_key is None):
            raise TlsError("a certificate needs its private key, and a key its certificate; give both")
        if server and private_key is None:
            raise TlsError("a TLS listener needs a certificate and its private key (ssl.keystore.location)")
        if server and client_auth != "none" and trusted is None:
            raise TlsError(f"ssl.client.auth={client_auth} needs the authorities of the clients' certificates "
                           "(ssl.truststore.location)")
        versions = checked_versions(protocols)
        openssl.ERR_clear_error()
        self.port.calls = stream_calls()
        self.port.is_server = server
        if not server:
            self.port.tickets = tickets_new()
            if self.port.tickets == NULL:
                raise MemoryError
        self.port.asks_certificate = server and client_auth != "none"
        context = self.port.context = openssl.SSL_CTX_new(
            openssl.TLS_server_method() if server else openssl.TLS_client_method())
        if context == NULL:
            raise TlsError(f"OpenSSL gives no context ({last_reason()}); check openssl.cnf")
        self.client_auth = client_auth
        self.protocols = tuple(use_ciphers(context, list(ciphers), versions))
        use_settings(context, list(self.protocols), server)
        if private_key is not None:
            self.certificate = use_identity(context, certificate_chain, private_key, key_password)
        if trusted is not None or (not server and verify):
            use_trust(context, trusted, server)
        openssl.SSL_CTX_set_verify(
            context, _CLIENT_AUTH[client_auth] if server else SSL_VERIFY_PEER if verify else SSL_VERIFY_NONE, NULL)

    def __dealloc__(self):
        if self.port.context != NULL:
            openssl.SSL_CTX_free(self.port.context)
        tickets_release(self.port.tickets)

    def __repr__(self):
        return f"TlsContext({'server' if self.port.is_server else 'client'}, {'+'.join(self.protocols or ())})"

    @property
    def is_server(self):
        """Whether it is for a server's side of connections."""
        return bool(self.port.is_server)

    @property
    def ciphers(self):
        """The IANA names of the ciphers that are offered, in their order."""
        return used_names(self.port.context)

    @property
    def capsule(self):
        """Its TlsPort (stream_types.pxd) for native code, which must keep the context as long as it uses the port."""
        return PyCapsule_New(&self.port, "bowstring.tls.port", NULL)
