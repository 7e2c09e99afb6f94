"""Measures what clients use, and computes how long they wait then (KIP-13, KIP-124, KIP-219).

Each request finds its QuotaClient, which its connection keeps; with other rules, or another client id, it is made anew.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t
from bowstring._native.base.atomics cimport load_i32
from bowstring._native.server.connection_types cimport Connection
from bowstring._native.server.control_types cimport RequestHeader
from bowstring._native.server.quota_types cimport QuotaBucket, QuotaClient, QuotaKind, QuotaTable

# Life of the table
cdef bint quotas_init(QuotaTable *t, int32_t samples, int64_t window_ms)
cdef void quotas_free(QuotaTable *t) noexcept nogil
# Replaces all rules: begin, add each, publish. `user` and `client` are NULL for the default.
cdef bint quotas_add(QuotaTable *t, int kind, int user_is, const uint8_t *user, int32_t user_length, int client_is,
                     const uint8_t *client, int32_t client_length, double bound) noexcept nogil
cdef void quotas_drop_rules(QuotaTable *t) noexcept nogil

# Clients
cdef void quota_identify(Connection *c, const RequestHeader *header) noexcept nogil
cdef QuotaClient *quota_client_new(QuotaTable *t, const uint8_t *user, int32_t user_length, const uint8_t *client,
                                   int32_t client_length) noexcept nogil
cdef void quota_client_release(QuotaClient *q) noexcept nogil


cdef inline QuotaClient *quota_retain(QuotaClient *q) noexcept nogil:
    if q != NULL:
        q.refs += 1
    return q

# Use
# Records a value; returns the milliseconds that the client has to wait.
cdef int64_t quota_use(QuotaClient *q, QuotaKind kind, double value, int64_t now_ms) noexcept nogil
# The same for a Fetch: when the client has to wait, the value is not recorded, as it gets nothing. What alone is too much
# passes when nothing was recorded before, because it would never pass otherwise.
cdef int64_t quota_use_or_leave(QuotaClient *q, QuotaKind kind, double value, int64_t now_ms) noexcept nogil
cdef void quota_record(QuotaClient *q, QuotaKind kind, double value, int64_t now_ms) noexcept nogil
# The most that a client may use without waiting after it has used nothing.
cdef double quota_most(QuotaClient *q, QuotaKind kind) noexcept nogil
# Counts that a client waits.
cdef void quota_throttled(QuotaClient *q, QuotaKind kind, int64_t throttle_ms) noexcept nogil


cdef inline double quota_percent(int64_t spent_ns) noexcept nogil:
    """What a time counts for QUOTA_REQUEST."""
    return spent_ns / 10000000.0


cdef inline bint quotas_on(const QuotaTable *t, QuotaKind kind) noexcept nogil:
    return load_i32(&t.kinds) & (1 << <int>kind) != 0
