"""Chooses the replica that a consumer reads from, see replica_selector.pxd."""
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcmp
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.replica.in_sync_replicas cimport Replica, replica_ahead, replica_readable
from bowstring._native.server.leader_hints cimport endpoint_of
from bowstring._native.server.replica_types cimport Endpoint


cdef bint in_rack(const Plane *plane, int32_t broker_id, const FetchRequest *request) noexcept nogil:
    """Whether the broker is alive and in the consumer's rack."""
    cdef const Endpoint *endpoint = endpoint_of(plane, broker_id)
    return (endpoint != NULL and endpoint.rack_length == request.rack_length
            and memcmp(endpoint.rack, request.rack, request.rack_length) == 0)


cdef int32_t preferred_read_replica(const Plane *plane, const FetchRequest *request, int64_t offset,
                                    Partition *p) noexcept nogil:
    cdef const Replica *best = NULL
    cdef const Replica *replica
    cdef int32_t i, found
    if in_rack(plane, plane.replication.broker_id, request):
        return -1
    pthread_mutex_lock(&p.replicas_lock)
    for i in range(p.replicas.count):
        replica = &p.replicas.items[i]
        if (replica_readable(replica, offset) and in_rack(plane, replica.broker_id, request)
                and (best == NULL or replica_ahead(replica, best))):
            best = replica
    found = best.broker_id if best != NULL else -1
    pthread_mutex_unlock(&p.replicas_lock)
    return found
