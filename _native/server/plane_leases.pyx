"""Leases of the control thread; see lease_types.pxd."""
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport uint8_t
from libc.stdlib cimport malloc
from libc.string cimport memcpy, memset
from bowstring._native.base.atomics cimport full_fence, load_i64, store_i32
from bowstring._native.base.clock cimport monotonic_ms
from bowstring._native.server.control_request cimport ControlRequest
from bowstring._native.server.data_plane cimport DataPlane
from bowstring._native.server.lease_types cimport LEASED_CONSUMER_GROUP_HEARTBEAT, LEASED_HEARTBEAT, Lease
from bowstring._native.server.leases cimport lease_release
from bowstring._native.server.mail_types cimport MAIL_LEASE
from bowstring._native.server.mailbox cimport post_to

cdef enum:
    API_HEARTBEAT = 12
    API_CONSUMER_GROUP_HEARTBEAT = 68

# Names of the APIs that leases are given for, in the order of their counters.
LEASED_KEYS = (API_HEARTBEAT, API_CONSUMER_GROUP_HEARTBEAT)


cdef class SessionLease:
    """A member's heartbeat that its reactor answers alike, until :meth:`withdraw`.

    Args:
        plane: The data plane that the request came from.
        request: The heartbeat, with its body.
        answer: Header and body of its answer.
        throttle_at: Where the answer has the time that the client waits (KIP-219); -1: nowhere.

    Raises:
        ValueError: No lease is given for this API, or the answer is too short for `throttle_at`.
        MemoryError: There is none left.
    """

    cdef Lease *lease

    def __init__(self, DataPlane plane not None, ControlRequest request not None, bytes answer not None, *,
                 int throttle_at=-1):
        cdef bytes body = request.body
        cdef bytes client_id = b"" if request.client_id is None else request.client_id.encode()
        cdef Py_ssize_t client_bytes = len(client_id), n = len(body), answer_bytes = len(answer)
        cdef Lease *lease
        cdef uint8_t *at
        if request.api_key not in LEASED_KEYS:
            raise ValueError(f"no lease is given for API {request.api_key}")
        if throttle_at > answer_bytes - 4:
            raise ValueError(f"an answer of {answer_bytes} bytes has no time at {throttle_at}")
        lease = <Lease *>malloc(sizeof(Lease) + client_bytes + n + answer_bytes)
        if lease == NULL:
            raise MemoryError
        memset(lease, 0, sizeof(Lease))
        lease.refs = 2
        lease.used_ms = monotonic_ms()
        lease.counted_as = (
            LEASED_HEARTBEAT if request.api_key == API_HEARTBEAT else LEASED_CONSUMER_GROUP_HEARTBEAT)
        lease.api_key = request.api_key
        lease.api_version = request.api_version
        lease.client_id_length = -1 if request.client_id is None else <int>client_bytes
        lease.request_bytes = <int>n
        lease.answer_bytes = <int>answer_bytes
        lease.throttle_at = throttle_at
        lease.access_generation = plane.plane.access.generation
        at = lease.data
        memcpy(at, PyBytes_AS_STRING(client_id), client_bytes)
        memcpy(at + client_bytes, PyBytes_AS_STRING(body), n)
        memcpy(at + client_bytes + n, PyBytes_AS_STRING(answer), answer_bytes)
        self.lease = lease
        if not post_to(&plane.plane, MAIL_LEASE, request.connection_id, 0, lease):
            lease_release(lease)                         # the connection's
            raise MemoryError

    def __dealloc__(self):
        if self.lease != NULL:
            store_i32(&self.lease.withdrawn, 1)
            lease_release(self.lease)

    @property
    def used_ms(self):
        """Time of the last heartbeat that was answered, CLOCK_MONOTONIC in milliseconds. More may be answered."""
        return load_i64(&self.lease.used_ms)

    def withdraw(self):
        """Ends the lease: no heartbeat that comes from now on is answered. Returns `used_ms`, which is final."""
        store_i32(&self.lease.withdrawn, 1)
        full_fence()
        return load_i64(&self.lease.used_ms)
