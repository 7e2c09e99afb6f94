"""Answers requests by leases, see leases.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy
from bowstring._native.base.atomics cimport add_i32, full_fence, load_i32, store_i64
from bowstring._native.base.clock cimport monotonic_ns
from bowstring._native.base.wire cimport left, patch_i32
from bowstring._native.server.client_quotas cimport quota_percent, quota_throttled, quota_use, quotas_on
from bowstring._native.server.connection cimport (
    connection_answer_bytes, connection_condemn, connection_mute, connection_open_slot)
from bowstring._native.server.counters cimport count_request
from bowstring._native.server.quota_types cimport QUOTA_REQUEST

cdef enum:
    ANSWER_MAX_BYTES = 1024


cdef void lease_release(Lease *lease) noexcept nogil:
    if lease != NULL and add_i32(&lease.refs, -1) == 0:
        free(lease)


cdef void lease_give(Connection *c, Lease *lease) noexcept nogil:
    lease_release(c.lease)
    c.lease = lease


cdef bint is_for(const Lease *lease, const RequestHeader *header, const Reader *body) noexcept nogil:
    if (header.api_key != lease.api_key or header.api_version != lease.api_version
            or header.client_id_length != lease.client_id_length or left(body) != lease.request_bytes):
        return False
    if header.client_id_length > 0 and memcmp(header.client_id, lease.data, header.client_id_length) != 0:
        return False
    return memcmp(body.at, lease.data + max(lease.client_id_length, 0), lease.request_bytes) == 0


cdef int64_t throttle_of(Reactor *r, Connection *c, int64_t started_ns) noexcept nogil:
    """Counts the time of a request for its client's quota, and returns how long the client waits."""
    cdef int64_t throttle_ms
    if not quotas_on(&r.plane.quotas, QUOTA_REQUEST):
        return 0
    throttle_ms = quota_use(c.quota, QUOTA_REQUEST, quota_percent(monotonic_ns() - started_ns), r.now_ms)
    if throttle_ms > 0:
        quota_throttled(c.quota, QUOTA_REQUEST, throttle_ms)
    return throttle_ms


cdef bint lease_answer(Reactor *r, Connection *c, const RequestHeader *header, const Reader *body) noexcept nogil:
    cdef Lease *lease = c.lease
    cdef uint8_t reply[ANSWER_MAX_BYTES + 4]
    cdef int64_t slot, throttle_ms, started_ns = monotonic_ns()
    if lease.access_generation != r.plane.access.generation:
        lease_give(c, NULL)
        return False
    if not is_for(lease, header, body) or lease.answer_bytes > ANSWER_MAX_BYTES:
        return False
    store_i64(&lease.used_ms, r.now_ms)
    full_fence()
    if load_i32(&lease.withdrawn):
        lease_give(c, NULL)
        return False
    slot = connection_open_slot(c)
    if slot < 0:
        connection_condemn(c)
        return True
    patch_i32(reply, lease.answer_bytes)
    memcpy(reply + 4, lease.data + max(lease.client_id_length, 0) + lease.request_bytes, lease.answer_bytes)
    patch_i32(reply + 4, header.correlation_id)
    throttle_ms = throttle_of(r, c, started_ns)
    if throttle_ms > 0:
        if lease.throttle_at >= 0:
            patch_i32(reply + 4 + lease.throttle_at, <int32_t>throttle_ms)
        connection_mute(c, throttle_ms)
    c.alone = True
    count_request(&r.leased[lease.counted_as], started_ns, 0)
    connection_answer_bytes(c, slot, reply, 4 + lease.answer_bytes)
    return True
