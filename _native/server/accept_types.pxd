"""Limits on connections and on how fast they come (KIP-402, KIP-612), and what is counted for them."""
from libc.stdint cimport int32_t, int64_t, int8_t, uint8_t
from bowstring._native.base.pthread cimport pthread_mutex_t
from bowstring._native.server.quota_window cimport QuotaWindow

cdef enum:
    HOST_BYTES = 16                 # an address; IPv4 is mapped to IPv6
    HOST_CHAINS = 1024
    NO_LIMIT = 0x7FFFFFFF

cdef enum Verdict:
    ACCEPT_SERVE
    ACCEPT_LATER                    # connections come too fast: the listener waits, and then serves this one
    ACCEPT_REFUSE                   # its host has too many connections
    ACCEPT_REFUSE_LATER             # those of its host come too fast: it is closed after a time

# Before the cimports: structs of these files point to each other.
cdef struct HostLimit
cdef struct HostEntry
cdef struct ListenerLimits
cdef struct AcceptLimits

cdef struct HostLimit:
    uint8_t host[HOST_BYTES]
    int32_t most                    # connections; -1: as others
    double rate                     # connections per second; 0: as others

cdef struct HostEntry:
    # A host with connections, or with a rate that is not over.
    HostEntry *next
    uint8_t host[HOST_BYTES]
    int64_t connections
    int64_t used_ms
    QuotaWindow window              # without a ring while the host has no rate

cdef struct ListenerLimits:
    int64_t connections
    int64_t most
    double rate
    QuotaWindow window
    int8_t protected                # brokers use it: other listeners give way
    # Only reactor 0 uses these:
    int8_t resting                  # it does not accept now
    int held_fd                     # accepted, and served at held_until_ms; -1: none
    int64_t held_until_ms

cdef struct AcceptLimits:
    pthread_mutex_t lock            # guards what follows, but for atomic fields
    HostEntry **hosts               # HOST_CHAINS chains
    int64_t host_count
    int64_t sweep_due_ms
    int64_t connections
    int64_t most
    int64_t most_of_host
    double rate
    double rate_of_host             # 0: none
    QuotaWindow window
    HostLimit *host_limits
    int32_t host_limit_count
    ListenerLimits *listeners
    int32_t listener_count
    int32_t samples
    int64_t window_ms
    int32_t waiting                 # atomic: listeners that wait for a connection to end
    int64_t ending                  # of those that have to end, and were chosen
    int32_t excess                  # atomic: connections of unprotected listeners that have to end
    # counters
    int64_t refused                 # hosts had too many
    int64_t refused_later           # those of their hosts came too fast
    int64_t delayed                 # came too fast
    int64_t delayed_ms
    int64_t ended                   # gave way to brokers
