"""Decides which connections reactor 0 accepts, as Kafka's ConnectionQuotas; counts them until they end."""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.server.accept_types cimport AcceptLimits, HostEntry, HostLimit, Verdict

cdef bint accept_init(AcceptLimits *a, int32_t samples, int64_t window_ms)
cdef bint accept_listeners(AcceptLimits *a, int32_t count)
cdef void accept_free(AcceptLimits *a) noexcept nogil

# Whether a listener may have another connection. If not, it counts as waiting until accept_resumes().
cdef bint accept_begins(AcceptLimits *a, int32_t listener) noexcept nogil
cdef bint accept_resumes(AcceptLimits *a, int32_t listener) noexcept nogil

# Counts a connection that was accepted, for the rates of the broker and the listener: ACCEPT_SERVE or ACCEPT_LATER.
cdef Verdict accept_paced(AcceptLimits *a, int32_t listener, int64_t now_ms, int64_t *wait_ms) noexcept nogil
# Then for its host. ACCEPT_SERVE: it counts until accept_ended(host).
cdef Verdict accept_decide(AcceptLimits *a, int32_t listener, int fd, int64_t now_ms, HostEntry **host,
                           int64_t *wait_ms) noexcept nogil
# True: a listener may wait for it.
cdef bint accept_ended(AcceptLimits *a, int32_t listener, HostEntry *host, bint gave_way) noexcept nogil
# Claims one of the connections that have to end.
cdef bint accept_claim(AcceptLimits *a) noexcept nogil
# Makes limits hold for the connections that there are; call it with the lock.
cdef void accept_count_excess(AcceptLimits *a) noexcept nogil
