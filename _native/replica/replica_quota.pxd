"""How fast throttled replicas may be copied (KIP-73). Pure: time is an argument; any thread may call.

Each byte is paid for with time: a quota is exceeded while what was copied is paid for only in the future. So the time at
which it is no longer exceeded is computed, without polling. A second that was not used may be used
later, and no debt is longer than Kafka's window of samples: then a batch passes even with the smallest quota.
"""
from libc.stdint cimport int64_t
from bowstring._native.base.atomics cimport cas_i64, load_i64, store_i64

cdef enum:
    QUOTA_CREDIT_US = 1000000
    QUOTA_DEBT_MAX_US = 10000000

cdef struct ReplicaQuota:
    int64_t rate                    # bytes per second; 0: no quota
    int64_t paid_until_us           # CLOCK_MONOTONIC

cdef inline void quota_set(ReplicaQuota *quota, int64_t rate) noexcept nogil:
    if load_i64(&quota.rate) != rate:
        store_i64(&quota.paid_until_us, 0)
        store_i64(&quota.rate, rate)

# Milliseconds until it is no longer exceeded; 0: it is not.
cdef inline int64_t quota_wait_ms(const ReplicaQuota *quota, int64_t now_ms) noexcept nogil:
    cdef int64_t ahead_us
    if load_i64(&quota.rate) == 0:
        return 0
    ahead_us = load_i64(&quota.paid_until_us) - now_ms * 1000
    return (ahead_us + 999) // 1000 if ahead_us > 0 else 0

# Notes that bytes were copied, also beyond the quota.
cdef inline void quota_record(ReplicaQuota *quota, int64_t size_bytes, int64_t now_ms) noexcept nogil:
    cdef int64_t rate = load_i64(&quota.rate), now_us = now_ms * 1000, before, after
    if rate == 0 or size_bytes <= 0:
        return
    while True:
        before = load_i64(&quota.paid_until_us)
        after = before if before > now_us - QUOTA_CREDIT_US else now_us - QUOTA_CREDIT_US
        after += size_bytes * 1000000 // rate
        if after > now_us + QUOTA_DEBT_MAX_US:
            after = now_us + QUOTA_DEBT_MAX_US
        if cas_i64(&quota.paid_until_us, before, after):
            return
