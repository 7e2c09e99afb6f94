"""Names the leader to clients that reached another broker (KIP-951)."""
from libc.stdint cimport int16_t, int32_t
from bowstring._native.base.error_codes cimport FENCED_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER
from bowstring._native.base.wire cimport Writer
from bowstring._native.server.partition_types cimport Partition
from bowstring._native.server.plane_types cimport Plane
from bowstring._native.server.replica_types cimport Endpoint, LeaderHints

cdef enum:
    PRODUCE_HINTS_VERSION = 10
    FETCH_HINTS_VERSION = 16


# Whether the answer names the leader: this broker is not it, or the client has an old one.
cdef inline bint hint_wanted(const Plane *plane, int16_t error, const Partition *p) noexcept nogil:
    return ((error == NOT_LEADER_OR_FOLLOWER or error == FENCED_LEADER_EPOCH) and p != NULL and p.leader_id >= 0
            and plane.replication.broker_id >= 0)

# Returns the address of a broker, or NULL.
cdef const Endpoint *endpoint_of(const Plane *plane, int32_t id) noexcept nogil
# Writes the tagged field CurrentLeader and notes the leader.
cdef void put_current_leader(Writer *w, int tag, const Partition *p, LeaderHints *hints) noexcept nogil
# Writes all tagged fields of the answer: NodeEndpoints of the noted leaders, if there are any.
cdef void put_endpoints(Writer *w, const Plane *plane, const LeaderHints *hints) noexcept nogil
