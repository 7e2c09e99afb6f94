"""Measures a rate over a window of samples, as Kafka's Rate and QuotaUtils do. Pure: time is an argument.

A sample takes what is recorded within `window_ms` of its first record. The rate is the sum of the samples that are not
older than the whole window, divided by the time since the oldest of them began, but at least by all windows but one.
"""
from libc.stdint cimport int32_t, int64_t

cdef struct QuotaSample:
    int64_t started_ms
    int64_t last_ms                 # of the last record
    double value

cdef struct QuotaWindow:
    QuotaSample *ring               # samples + 1 of them: one that overlaps the beginning of the window is kept
    int32_t samples                 # quota.window.num
    int32_t count                   # of the ring that are in use
    int32_t current
    int64_t window_ms               # quota.window.size.seconds


cdef inline void window_record(QuotaWindow *w, double value, int64_t now_ms) noexcept nogil:
    cdef QuotaSample *sample
    if w.count > 0 and now_ms - w.ring[w.current].started_ms >= w.window_ms:
        w.current = (w.current + 1) % (w.samples + 1)
        if w.current >= w.count:
            w.count = w.current + 1
        w.ring[w.current] = QuotaSample(now_ms, now_ms, 0)
    elif w.count == 0:
        w.count = 1
        w.current = 0
        w.ring[0] = QuotaSample(now_ms, now_ms, 0)
    sample = &w.ring[w.current]
    sample.value += value
    sample.last_ms = now_ms


# The sum of the samples of the window; sets the time by which it is divided.
cdef inline double window_sum(QuotaWindow *w, int64_t now_ms, int64_t *elapsed_ms) noexcept nogil:
    cdef double total = 0
    cdef int64_t oldest_ms = now_ms, full
    cdef int32_t i
    for i in range(w.count):
        if now_ms - w.ring[i].last_ms >= w.samples * w.window_ms:
            w.ring[i] = QuotaSample(now_ms, now_ms, 0)
        total += w.ring[i].value
        oldest_ms = min(oldest_ms, w.ring[i].started_ms)
    elapsed_ms[0] = now_ms - oldest_ms
    full = elapsed_ms[0] // w.window_ms
    if full < w.samples - 1:
        elapsed_ms[0] += (w.samples - 1 - full) * w.window_ms
    if elapsed_ms[0] < 1:
        elapsed_ms[0] = 1
    return total


cdef inline double window_rate(QuotaWindow *w, int64_t now_ms) noexcept nogil:
    """Per second."""
    cdef int64_t elapsed_ms
    cdef double total = window_sum(w, now_ms, &elapsed_ms)
    return total * 1000 / elapsed_ms


# Milliseconds until the rate is back at the bound if nothing more is recorded; 0: it is not above the bound.
cdef inline double window_excess_ms(QuotaWindow *w, double bound, int64_t now_ms) noexcept nogil:
    cdef int64_t elapsed_ms
    cdef double rate = window_sum(w, now_ms, &elapsed_ms) * 1000 / elapsed_ms
    if not rate > bound:
        return 0
    return (rate - bound) / bound * elapsed_ms
