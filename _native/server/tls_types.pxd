"""What a reactor needs for connections with TLS."""
from libc.stdint cimport int32_t, int64_t, int8_t, uint64_t, uint8_t

# epoll's data of TlsWork.begun_fd and silent_fd in the reactor's epoll: odd as those of listeners, and above them.
cdef extern from *:
    """
    #define HANDSHAKES_TAG (((uint64_t)1 << 40) | 1)
    """
    const uint64_t HANDSHAKES_TAG

# Before the cimports: structs of these files point to each other.
cdef struct ConnectionList
cdef struct TlsWork

from bowstring._native.server.connection_types cimport Connection
from bowstring._native.tls.stream_types cimport TlsBuffer

cdef struct ConnectionList:
    # In the order of handshake_from_ms.
    Connection *head
    Connection *tail
    int32_t count

cdef enum:
    HOST_GROUPS = 256

cdef struct TlsWork:
    # Made with the reactor's first connection of this kind, and used for one call at a time. The buffers stay in the
    # processor's cache.
    uint8_t *raw                    # received bytes
    uint8_t *plain                  # gathered pieces of replies
    TlsBuffer sealed                # encrypted replies
    int silent_fd                   # epoll of `silent`; the reactor's epoll has it as one, but while `waits`
    int begun_fd                    # epoll of `begun`; the reactor's epoll has it as one
    ConnectionList silent           # connections whose handshake has not begun
    ConnectionList begun            # connections that are in a handshake
    int8_t waits                    # too many are: no other begins
    int64_t looked_ms               # when it was last looked whether one of another host waits
    int32_t begun_of[HOST_GROUPS]   # how many are in a handshake, by group of hosts
    int64_t told_ms                 # when a failed handshake was last reported
    int64_t untold                  # failures since then
