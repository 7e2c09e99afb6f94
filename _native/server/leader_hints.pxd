"""Tells clients that asked the wrong broker who leads (KIP-951)."""
from libc.stdint cimport int16_t, int32_t
from bowstring._native.base.wire cimport Writer
from bowstring._native.server.types cimport Partition, Plane

cdef enum:
    PRODUCE_HINTS_VERSION = 10
    FETCH_HINTS_VERSION = 16
    HINTED_MAX = 64                 # leaders named in one answer; clients look up the others

cdef struct LeaderHints:
    # The leaders that an answer names.
    int32_t count
    int32_t[HINTED_MAX] ids

# Whether the answer names the leader: the error says that this broker is not it, or that the client knows an old one.
cdef bint hint_wanted(int16_t error, const Partition *p) noexcept nogil
# Writes the tagged field CurrentLeader and notes the leader.
cdef void put_current_leader(Writer *w, int tag, const Partition *p, LeaderHints *hints) noexcept nogil
# Writes all tagged fields of the answer: NodeEndpoints of the noted leaders, if there are any.
cdef void put_endpoints(Writer *w, const Plane *plane, const LeaderHints *hints) noexcept nogil
