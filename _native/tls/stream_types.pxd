"""The TLS state of one connection, and the calls that drive it.

Importing these declarations loads nothing: a broker without TLS never loads this package. A stream and its buffers
belong to one thread at a time. Streams of several threads may share a port.
"""
from libc.stdint cimport int32_t, int64_t, int8_t, uint8_t
from bowstring._native.base.pthread cimport pthread_mutex_t

cdef enum:
    # Room that receive() needs beyond the received bytes: OpenSSL may hold a partial record of this size.
    TLS_SLACK = 17408
    # Of plain text, the most that a record has (RFC 8446, section 5.1).
    TLS_RECORD_BYTES = 16384

cdef enum TlsStatus:
    TLS_OK
    TLS_CLOSED                      # the peer has sent close_notify: no more data comes
    TLS_FAILED                      # TlsStream.why says why; send what is in the sink, and close

# Before the structs, which point to each other.
cdef struct TlsStream
cdef struct TlsCalls

cdef enum:
    TICKETS_MAX = 64                # of all peers: a client with more brokers resumes with those that it used last

cdef struct Ticket:
    char *peer                      # malloc'd
    void *session                   # SSL_SESSION

cdef struct TlsTickets:
    # See tickets.pyx. Several threads share it.
    pthread_mutex_t lock
    int32_t references
    int32_t count
    Ticket items[TICKETS_MAX]       # oldest first

cdef struct TlsBuffer:
    uint8_t *data                   # malloc'd, or NULL
    int64_t start                   # first byte that is not sent
    int64_t end
    int64_t capacity

cdef struct TlsPort:
    # What new streams of a listener or client begin with; owned by a TlsContext.
    void *context                   # SSL_CTX
    const TlsCalls *calls
    TlsTickets *tickets             # a client's, of all its streams; else NULL
    int8_t is_server
    int8_t asks_certificate         # of clients

cdef struct TlsCalls:
    # A new stream; NULL when memory ran out. `host` (may be NULL): the name or address that the server's certificate
    # must have. `peer` (may be NULL): the name under which a client's tickets are kept.
    TlsStream *(*open)(const TlsPort *port, const char *host, const char *peer) noexcept nogil
    # Frees it; NULL is allowed.
    void (*free)(TlsStream *s) noexcept nogil
    # Handles received bytes: goes on with the handshake, or decrypts into `out`. All is decrypted but a partial record,
    # if `room` is at least n + TLS_SLACK. With n = 0 a client begins the handshake. What must be sent is appended to the
    # sink.
    TlsStatus (*receive)(TlsStream *s, const uint8_t *data, int64_t n, uint8_t *out, int64_t room,
                         int64_t *produced) noexcept nogil
    # Encrypts all of it into the sink. False: failed (not established, or memory ran out).
    bint (*encrypt)(TlsStream *s, const uint8_t *data, int64_t n) noexcept nogil
    # Appends close_notify to the sink.
    void (*close)(TlsStream *s) noexcept nogil
    # The peer's certificate (DER), which the caller frees with free(); its size, or 0: there is none.
    int64_t (*peer_certificate)(TlsStream *s, uint8_t **der) noexcept nogil

cdef struct TlsStream:
    void *ssl
    const TlsCalls *calls
    TlsTickets *tickets             # where the session goes for later connections, or NULL
    char *peer                      # malloc'd, or NULL
    const uint8_t *input            # what OpenSSL has not read of receive()'s bytes
    int64_t input_bytes
    TlsBuffer *sink                 # where bytes for the peer go: `unsent`, or a buffer that the caller lends for a call
    TlsBuffer unsent
    int8_t is_server
    int8_t established
    int8_t resumed                  # by a ticket of an earlier connection
    int8_t failed
    int8_t tickets_wait             # a server's: `unsent` has only session tickets, which go with the first answer
    int8_t peer_gone                # its side of the connection is closed: it receives no close_notify
    int8_t receiving                # decrypts: what is written now is an answer
    int8_t out_of_memory
    int32_t dataless                # messages and answers since the last data of an established connection
    char why[200]
