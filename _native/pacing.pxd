"""How a busy reactor gathers: it lets data pile up for a moment instead of waking for every segment.

What a pass costs hardly depends on how much it finds: a wake-up, a write for each partition, a reply for each
connection. While data streams in fast, a reactor therefore sleeps after a pass until about FLUSH_BYTES should
have come, one millisecond at most. Replies of the pass are out by then, so only later arrivals wait, and a
client that sends one thing at a time never meets a sleeping reactor: its rate is far below RATE_MIN.
"""
from libc.stdint cimport int64_t
from posix.time cimport nanosleep, timespec
from bowstring._native.clock cimport monotonic_ns
from bowstring._native.plane cimport FLUSH_BYTES, Reactor

cdef enum:
    RATE_WINDOW_NS = 2000000
    RATE_MIN_BYTES_PER_MS = 16384   # 16 MB/s
    GATHER_MAX_NS = 1000000
    GATHER_MIN_NS = 50000           # less is not worth the system call


cdef inline void gather(Reactor *r) noexcept nogil:
    """Called between passes, without the table lock."""
    cdef int64_t now = monotonic_ns(), passed = now - r.rate_since_ns, wait_ns
    cdef int64_t came = r.received_bytes - r.rate_from_bytes
    cdef timespec t
    if passed >= RATE_WINDOW_NS:
        r.rate_bytes_per_ms = came * 1000000 // passed
        r.rate_since_ns = now
        r.rate_from_bytes = r.received_bytes
    if r.rate_bytes_per_ms < RATE_MIN_BYTES_PER_MS or r.received_bytes - r.pass_from_bytes >= FLUSH_BYTES:
        r.pass_from_bytes = r.received_bytes
        return
    r.pass_from_bytes = r.received_bytes
    wait_ns = <int64_t>FLUSH_BYTES * 1000000 // r.rate_bytes_per_ms
    if wait_ns > GATHER_MAX_NS:
        wait_ns = GATHER_MAX_NS
    if wait_ns >= GATHER_MIN_NS:
        t.tv_sec = 0
        t.tv_nsec = wait_ns
        nanosleep(&t, NULL)
