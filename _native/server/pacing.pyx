"""Lets a busy reactor sleep for a moment while requests gather, instead of waking for every segment.

The cost of a pass hardly depends on its data: a wake-up, a write for each partition, a reply for each connection. So
while data arrives fast, a reactor sleeps after a pass until about enough bytes for one pass should have arrived,
GATHER_MAX_NS at most. The replies of the pass are sent before, so only later requests wait. A client that sends one
request at a time never waits for a sleeping reactor: its rate is far below RATE_MIN_BYTES_PER_MS.

Producers with few unanswered bytes (max.in.flight.requests.per.connection, with small batches of few partitions) work
while the reactor sleeps and wait while it works: then sleeping costs throughput. The bytes that arrive during one sleep do
not show that cost, so trials measure it: for some windows the reactor sleeps in every second one, then it keeps the
faster mode.
"""
from bowstring._native.base.clock cimport monotonic_ns

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
    WINDOW_NS = 3000000
    RATE_MIN_BYTES_PER_MS = 16384   # 16 MB/s
    GATHER_MAX_NS = 2000000
    GATHER_MIN_NS = 100000          # a shorter sleep is not worth the system call
    TRIAL_WINDOWS = 12              # with and without sleep in turn
    REST_WINDOWS = 300              # until the next trial
    GATHERING = 1                   # index of the mode with sleep; 0 is the mode without
    WORTH_PERCENT = 95              # sleeping must keep at least this much of the throughput without sleep


cdef void pacer_init(Pacer *p) noexcept nogil:
    p.gathers = True
    p.window_from_ns = monotonic_ns()


cdef void pacer_received(Pacer *p, int socket, int64_t n) noexcept nogil:
    """Counts `n` bytes that a socket received in this pass."""
    p.pass_bytes += n
    p.window_bytes += n
    if p.socket_count < PACER_SOCKETS:
        p.sockets[p.socket_count] = socket
        p.socket_count += 1


cdef int64_t unread(const Pacer *p) noexcept nogil:
    """Returns the bytes that wait in the sockets of the last pass. A closed socket counts as 0, or, if its number was reused
    for another file, as a constant."""
    cdef int64_t n = 0
    cdef int i
    for i in range(p.socket_count):
        n += unread_bytes(p.sockets[i])
    return n


cdef void note_trial(Pacer *p, int64_t passed_ns) noexcept nogil:
    """Ends a window of a trial; after the last window chooses the better mode."""
    cdef int way = p.trial_left & 1
    p.trial_bytes[way] += p.window_bytes
    p.trial_ns[way] += passed_ns
    p.trial_left -= 1
    if p.trial_left == 0 and p.trial_ns[0] > 0 and p.trial_ns[1] > 0:
        p.gathers = (p.trial_bytes[GATHERING] * 1000000 // p.trial_ns[GATHERING] * 100
                     >= p.trial_bytes[1 - GATHERING] * 1000000 // p.trial_ns[1 - GATHERING] * WORTH_PERCENT)
        p.rest_left = REST_WINDOWS


cdef void next_window(Pacer *p, int64_t now, int64_t passed_ns) noexcept nogil:
    cdef int way
    p.bytes_per_ms = p.window_bytes * 1000000 // passed_ns
    if p.bytes_per_ms < RATE_MIN_BYTES_PER_MS:
        p.rest_left = p.trial_left = 0                   # the load may change
    elif p.trial_left > 0:
        note_trial(p, passed_ns)
    elif p.rest_left > 0:
        p.rest_left -= 1
    else:
        p.trial_left = TRIAL_WINDOWS
        for way in range(2):                             # earlier results count half
            p.trial_bytes[way] //= 2
            p.trial_ns[way] //= 2
    p.window_from_ns = now
    p.window_bytes = 0


cdef bint sleeps_now(const Pacer *p) noexcept nogil:
    return (p.trial_left & 1) == GATHERING if p.trial_left > 0 else p.gathers


cdef void pacer_gather(Pacer *p, int64_t enough_bytes, int until_fd) noexcept nogil:
    """Sleeps while that saves work and delays no reply. Call it between passes, without any lock."""
    cdef int64_t now = monotonic_ns(), passed = now - p.window_from_ns, wait_ns
    if passed >= WINDOW_NS:
        next_window(p, now, passed)
    if (p.bytes_per_ms >= RATE_MIN_BYTES_PER_MS and sleeps_now(p) and p.pass_bytes < enough_bytes
            and unread(p) * 4 < enough_bytes):           # else there is already enough work for a pass
        wait_ns = enough_bytes * 1000000 // p.bytes_per_ms
        if wait_ns > GATHER_MAX_NS:
            wait_ns = GATHER_MAX_NS
        if wait_ns >= GATHER_MIN_NS:
            pause_ns(wait_ns, until_fd)
    p.pass_bytes = 0
    p.socket_count = 0


cdef class Pacing:
    """A reactor's pacing for tests, which set the passed time."""
    cdef Pacer pacer

    def __cinit__(self):
        pacer_init(&self.pacer)

    def window(self, int64_t received_bytes, int64_t passed_ns):
        """Ends a window with so many received bytes. Returns whether the reactor gathers in the next one."""
        self.pacer.window_bytes = received_bytes
        next_window(&self.pacer, self.pacer.window_from_ns + passed_ns, passed_ns)
        return self.pacer.bytes_per_ms >= RATE_MIN_BYTES_PER_MS and sleeps_now(&self.pacer)
