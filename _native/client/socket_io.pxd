"""Makes the system calls of a client's I/O thread, and gets it the GIL back soon from threads that compute.

Python lets a thread wait 5 ms for the GIL before it takes it from another thread. An I/O thread returns from system
calls far more often. Here it says that it waits, and a thread that fills batches gives way between two batches.
"""
from libc.stdint cimport int32_t

# Whether an I/O thread waits for the GIL.
cdef bint turn_wanted() noexcept nogil

# Releases the GIL until that thread has it, for 0.1 ms at most.
cdef void give_turn() noexcept


cdef class Poller:
    """Waits for an epoll without the GIL, see socket_io.pyx."""
    cdef int descriptor
    cdef int32_t credit
    cdef long long rest_until_ns
    cdef bint alone                # there is one processor, and the peer needs it: do not spin
    # Monotonic seconds, written by the thread that holds the turn:
    cdef public double alarm       # at or before the earliest deadline
    cdef readonly double wakes_at  # when a wait that lends its turn ends by itself

    cpdef list lend(self, double until, turn)
    cpdef list wait(self, double timeout_s, bint patient=?)


cpdef int send_queue(int descriptor, out, bint keep_gil=?) except -1
cpdef Py_ssize_t receive_some(int descriptor, buffer, Py_ssize_t at) except -2

# For I/O in other modules. Calls without the GIL end with gil_wanted(), and gil_back() follows when it is there.
cdef void gil_wanted() noexcept nogil
cdef void gil_back() noexcept nogil
# One recv(2) or send(2) that does not wait; return 0 or errno. `received` is 0 at the end.
cdef int recv_now(int descriptor, void *data, Py_ssize_t size, Py_ssize_t *received) noexcept nogil
cdef int send_now(int descriptor, const void *data, Py_ssize_t size, Py_ssize_t *sent) noexcept nogil
# Waits for the next piece of a response; False when none comes soon.
cdef bint wait_readable(int descriptor) noexcept nogil
