"""How a busy reactor gathers: it lets data pile up for a moment instead of waking for every segment.

What a pass costs hardly depends on how much it finds: a wake-up, a write for each partition, a reply for each
connection. While data streams in fast, a reactor therefore sleeps after a pass until about enough for one
pass should have come, GATHER_MAX_NS at most. Replies of the pass are out by then, so only later arrivals
wait, and a client that sends one thing at a time never meets a sleeping reactor: its rate is far below
RATE_MIN_BYTES_PER_MS.

Senders that may have only so much unanswered (Kafka's max.in.flight.requests.per.connection, with small
batches of few partitions) fall silent before the sleep is over, and sleeping then costs them throughput. Some
of the sleeps are therefore probes, in two halves: when little arrives in the second half, sleeps get shorter,
until there are none; when it is as much as in the first, they get longer.
"""
from bowstring._native.clock cimport monotonic_ns

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <poll.h>
    #include <sys/ioctl.h>
    #include <time.h>
    static int unread_bytes(int fd) { int n = 0; return ioctl(fd, FIONREAD, &n) == 0 ? n : 0; }
    static void pause_ns(long ns, int until_fd) {
        struct timespec t = {0, ns};
        struct pollfd until = {until_fd, POLLIN, 0};
        if (until_fd < 0)
            nanosleep(&t, NULL);
        else
            ppoll(&until, 1, &t, NULL);
    }
    """
    void pause_ns(long ns, int until_fd) nogil
    int unread_bytes(int fd) nogil

cdef enum:
    WINDOW_NS = 2000000
    RATE_MIN_BYTES_PER_MS = 16384   # 16 MB/s
    GATHER_MAX_NS = 2000000
    GATHER_MIN_NS = 100000          # less is not worth the system call
    PROBE_EVERY = 4                 # passes
    PROBES = 8                      # before anything is concluded from them
    RETRY_EVERY = 256               # passes without a sleep before sleeping is tried again


cdef void pacer_init(Pacer *p) noexcept nogil:
    p.gather_ns = GATHER_MAX_NS // 4
    p.window_from_ns = monotonic_ns()


cdef void pacer_received(Pacer *p, int socket, int64_t n) noexcept nogil:
    """`n` bytes came from a socket in this pass."""
    p.pass_bytes += n
    p.window_bytes += n
    if p.socket_count < PACER_SOCKETS:
        p.sockets[p.socket_count] = socket
        p.socket_count += 1


cdef int64_t unread(const Pacer *p) noexcept nogil:
    """Waiting in the sockets of the last pass. One that was closed since counts as nothing, or, when its
    number was given to another file, as something that does not grow."""
    cdef int64_t n = 0
    cdef int i
    for i in range(p.socket_count):
        n += unread_bytes(p.sockets[i])
    return n


cdef void probe(Pacer *p, int64_t ns, int until_fd) noexcept nogil:
    """Sleeps in two halves, and learns from what arrives in each."""
    cdef int64_t before = unread(p), middle
    pause_ns(ns // 2, until_fd)
    middle = unread(p)
    pause_ns(ns - ns // 2, until_fd)
    p.early_bytes += middle - before
    p.late_bytes += unread(p) - middle
    p.probes += 1
    if p.probes < PROBES:
        return
    if p.late_bytes * 2 < p.early_bytes:
        p.gather_ns = ns // 2
    elif p.late_bytes * 4 > p.early_bytes * 3:
        p.gather_ns = ns * 2 if ns < GATHER_MAX_NS // 2 else GATHER_MAX_NS
    p.probes = 0
    p.early_bytes = p.late_bytes = 0


cdef void pacer_gather(Pacer *p, int64_t enough_bytes, int until_fd) noexcept nogil:
    """Called between passes, without any lock; sleeps while that saves work and holds nobody up."""
    cdef int64_t now = monotonic_ns(), passed = now - p.window_from_ns, wait_ns
    if passed >= WINDOW_NS:
        p.bytes_per_ms = p.window_bytes * 1000000 // passed
        p.window_from_ns = now
        p.window_bytes = 0
    if (p.bytes_per_ms >= RATE_MIN_BYTES_PER_MS and p.pass_bytes < enough_bytes
            and unread(p) * 4 < enough_bytes):           # else there is work for a pass already
        p.passes += 1
        wait_ns = enough_bytes * 1000000 // p.bytes_per_ms
        if wait_ns > p.gather_ns:
            wait_ns = p.gather_ns
        if wait_ns >= GATHER_MIN_NS:
            if p.passes % PROBE_EVERY == 0:
                probe(p, wait_ns, until_fd)
            else:
                pause_ns(wait_ns, until_fd)
        elif p.passes % RETRY_EVERY == 0:
            p.gather_ns = 2 * GATHER_MIN_NS
    p.pass_bytes = 0
    p.socket_count = 0
