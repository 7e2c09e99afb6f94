"""How a busy reactor gathers, see pacing.pyx."""
from libc.stdint cimport int32_t, int64_t

cdef enum:
    PACER_SOCKETS = 4

cdef struct Pacer:
    # A reactor's own; all times in nanoseconds of the monotonic clock.
    int64_t gather_ns               # how long to gather at most, as learned
    int64_t window_from_ns          # the window in which the rate is measured
    int64_t window_bytes
    int64_t bytes_per_ms            # of the last whole window
    int64_t pass_bytes              # received in the pass that has just ended
    int64_t early_bytes             # arrived in the first and the second halves of the probes so far
    int64_t late_bytes
    int32_t passes
    int32_t probes
    int32_t socket_count
    int[PACER_SOCKETS] sockets      # those that were received from in the pass, not all of them


cdef void pacer_init(Pacer *p) noexcept nogil
cdef void pacer_received(Pacer *p, int socket, int64_t n) noexcept nogil
# `until_fd`: readable when there is something better to do than to gather; -1: nothing can come.
cdef void pacer_gather(Pacer *p, int64_t enough_bytes, int until_fd) noexcept nogil
