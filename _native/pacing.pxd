"""How a busy reactor gathers, see pacing.pyx."""
from libc.stdint cimport int32_t, int64_t

cdef enum:
    PACER_SOCKETS = 4

cdef struct Pacer:
    # A reactor's own; all times in nanoseconds of the monotonic clock.
    int64_t window_from_ns          # the window in which the rate is measured
    int64_t window_bytes
    int64_t bytes_per_ms            # of the last whole window
    int64_t pass_bytes              # received in the pass that has just ended
    bint gathers                    # as the last trial found best
    int32_t trial_left              # windows of the trial that goes on; 0: none does
    int32_t rest_left               # windows until the next
    int64_t[2] trial_bytes          # without sleep, and with it
    int64_t[2] trial_ns
    int32_t socket_count
    int[PACER_SOCKETS] sockets      # those that were received from in the pass, not all of them


cdef void pacer_init(Pacer *p) noexcept nogil
cdef void pacer_received(Pacer *p, int socket, int64_t n) noexcept nogil
# `until_fd`: readable when there is something better to do than to gather; -1: nothing can come.
cdef void pacer_gather(Pacer *p, int64_t enough_bytes, int until_fd) noexcept nogil
