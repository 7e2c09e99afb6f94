"""Turns at the GIL between a client's I/O thread and threads that compute without pause.

Python lets a thread wait 5 ms for the GIL before it takes it from another. An I/O thread comes back from a system
call many times as often. It says here that it is waiting, and a thread that fills batches gives way between two.
"""

# Whether an I/O thread waits for the GIL.
cdef bint turn_wanted() noexcept nogil

# Lets the GIL go until that thread has it, for a fraction of a millisecond at most.
cdef void give_turn() noexcept
