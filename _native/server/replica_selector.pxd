"""Chooses the replica that a consumer reads from (KIP-392): Kafka's RackAwareReplicaSelector."""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.server.fetch_types cimport FetchRequest
from bowstring._native.server.partition_types cimport Partition
from bowstring._native.server.plane_types cimport Plane

# Returns the follower in the consumer's rack that should serve it from `offset` on; -1: this leader. The leader serves
# consumers of its own rack, and those that have no in-sync replica in theirs.
cdef int32_t preferred_read_replica(const Plane *plane, const FetchRequest *request, int64_t offset,
                                    Partition *p) noexcept nogil
