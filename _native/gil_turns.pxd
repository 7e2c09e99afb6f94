"""Turns at the GIL between a client's I/O thread and threads that compute without pause.

Python lets a thread wait 5 ms for the GIL before it takes it from another. An I/O thread comes back from a system
call many times as often. It says here that it is waiting, and a thread that fills batches gives way between two.
"""
from libc.stdint cimport int32_t

# Whether an I/O thread waits for the GIL.
cdef bint turn_wanted() noexcept nogil

# Lets the GIL go until that thread has it, for a fraction of a millisecond at most.
cdef void give_turn() noexcept


cdef class Poller:
    """Waits at an epoll, without the GIL."""
    cdef int descriptor
    cdef int32_t credit
    cdef long long rest_until_ns
    cdef bint alone                # one processor: who is waited for needs it
    # Monotonic seconds, written by the caller or who has its turn:
    cdef public double alarm       # no deadline is earlier; some may be met by then
    cdef readonly double wakes_at  # when a wait that lends its turn ends by itself

    cpdef list lend(self, double until, turn)
    cpdef list wait(self, double timeout_s, bint patient=?)


cpdef int send_queue(int descriptor, out, bint keep_gil=?) except -1
cpdef Py_ssize_t receive_some(int descriptor, buffer, Py_ssize_t at) except -2
