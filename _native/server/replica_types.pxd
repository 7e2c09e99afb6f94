"""Events of replicas, and the addresses of leaders for clients that reached another broker."""
from libc.stdint cimport int32_t, int64_t

cdef enum:
    HINTED_MAX = 64                 # leaders named in one answer; clients look up the others

# Before the cimports: structs of these files point to each other.
cdef struct LeaderHints
cdef struct ReplicaEvent
cdef struct Endpoint

from bowstring._native.server.partition_types cimport Partition

cdef struct LeaderHints:
    # The leaders that an answer names.
    int32_t count
    int32_t[HINTED_MAX] ids

cdef enum ReplicaEventKind:
    REPLICA_MAY_JOIN                # a: broker id, b: its epoch
    REPLICA_LAGS                    # a: broker id, b: its log end
    FETCH_FAILED                    # a: error code, b: leader id
    REPLICA_TRUNCATED               # a: 0, b: the new log end

cdef struct ReplicaEvent:
    ReplicaEvent *next
    int32_t kind
    Partition *partition            # held
    int32_t leader_epoch
    int64_t a
    int64_t b

cdef struct Endpoint:
    # A broker's address, for clients that reached the wrong one (KIP-951).
    int32_t id
    int32_t port
    int32_t rack_length             # -1: null
    int32_t host_length
    char host[256]
    char rack[256]
