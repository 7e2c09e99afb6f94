"""Lets a busy reactor sleep while requests gather, see pacing.pyx."""
from libc.stdint cimport int32_t, int64_t

cdef enum:
    PACER_SOCKETS = 4

cdef struct Pacer:
    # One for each reactor. Times are nanoseconds of the monotonic clock.
    int64_t window_from_ns          # the window in which the rate is measured
    int64_t window_bytes
    int64_t bytes_per_ms            # of the last complete window
    int64_t pass_bytes              # received in the pass that has just ended
    bint gathers                    # whether sleeping was better in the last trial
    int32_t trial_left              # windows left of the current trial; 0: there is none
    int32_t rest_left               # windows until the next trial
    int64_t[2] trial_bytes          # without sleep, and with it
    int64_t[2] trial_ns
    int32_t socket_count
    int[PACER_SOCKETS] sockets      # some of the sockets that received in the pass


cdef void pacer_init(Pacer *p) noexcept nogil
cdef void pacer_received(Pacer *p, int socket, int64_t n) noexcept nogil
# `until_fd` becomes readable when the reactor should stop gathering; -1: nothing can interrupt it.
cdef void pacer_gather(Pacer *p, int64_t enough_bytes, int until_fd) noexcept nogil
