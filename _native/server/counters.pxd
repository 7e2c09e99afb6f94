"""Counts requests in a reactor, and adds up the counters of all reactors.

Each counter has one writer, the reactor's thread; anyone reads it without a lock.
"""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.base.atomics cimport bump_i64
from bowstring._native.base.clock cimport monotonic_ns
from bowstring._native.server.plane_types cimport Plane
from bowstring._native.server.reactor_types cimport LATENCY_BUCKETS, ApiCounters

cdef extern from *:
    """
    static inline int bit_length(unsigned long long v) { return v ? 64 - __builtin_clzll(v) : 0; }
    """
    int bit_length(unsigned long long v) nogil


cdef inline void count_request(ApiCounters *counters, int64_t started_ns, int failed) noexcept nogil:
    cdef int64_t us = (monotonic_ns() - started_ns) // 1000
    cdef int bucket = bit_length(<unsigned long long>us)
    bump_i64(&counters.requests, 1)
    bump_i64(&counters.errors, failed)
    bump_i64(&counters.total_us, us)
    bump_i64(&counters.buckets[bucket if bucket < LATENCY_BUCKETS else LATENCY_BUCKETS - 1], 1)


# The totals, see DataPlane.counters.
cdef dict counters_of(Plane *plane)

# Returns the events that reactors have reported since the last call: (level, event, detail).
cdef list events_of(Plane *plane)
