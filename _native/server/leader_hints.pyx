"""Names the leader to clients, see leader_hints.pxd."""
from libc.stdint cimport int32_t, int64_t, uint32_t
from bowstring._native.base.wire cimport put_count, put_i32, put_string, put_tags, put_uvarint
from bowstring._native.server.replica_types cimport HINTED_MAX, Endpoint


cdef void put_current_leader(Writer *w, int tag, const Partition *p, LeaderHints *hints) noexcept nogil:
    cdef int32_t i
    put_uvarint(w, tag)
    put_uvarint(w, 9)
    put_i32(w, p.leader_id)
    put_i32(w, p.leader_epoch)
    put_tags(w, True)
    for i in range(hints.count):
        if hints.ids[i] == p.leader_id:
            return
    if hints.count < HINTED_MAX:
        hints.ids[hints.count] = p.leader_id
        hints.count += 1


cdef const Endpoint *endpoint_of(const Plane *plane, int32_t id) noexcept nogil:
    cdef int32_t i
    for i in range(plane.endpoint_count):
        if plane.endpoints[i].id == id:
            return &plane.endpoints[i]
    return NULL


cdef int64_t string_bytes(int32_t length) noexcept nogil:
    return 1 if length < 0 else length + (1 if length + 1 < 0x80 else 2)


cdef void put_endpoints(Writer *w, const Plane *plane, const LeaderHints *hints) noexcept nogil:
    cdef const Endpoint *endpoint
    cdef int64_t bytes = 1                               # the count
    cdef int32_t i, known = 0
    for i in range(hints.count):
        endpoint = endpoint_of(plane, hints.ids[i])
        if endpoint != NULL and endpoint.host_length > 0:
            known += 1
            bytes += 9 + string_bytes(endpoint.host_length) + string_bytes(endpoint.rack_length)
    if known == 0:
        put_tags(w, True)
        return
    put_uvarint(w, 1)                                    # one tagged field: 0, NodeEndpoints
    put_uvarint(w, 0)
    put_uvarint(w, <uint32_t>bytes)
    put_count(w, True, known)
    for i in range(hints.count):
        endpoint = endpoint_of(plane, hints.ids[i])
        if endpoint != NULL and endpoint.host_length > 0:
            put_i32(w, endpoint.id)
            put_string(w, True, endpoint.host, endpoint.host_length)
            put_i32(w, endpoint.port)
            put_string(w, True, endpoint.rack, endpoint.rack_length)
            put_tags(w, True)
