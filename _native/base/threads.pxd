"""Native threads of the broker: they never take the GIL."""
from bowstring._native.base.pthread cimport pthread_t

cdef extern from "base/threads.h" nogil:
    # Asks the scheduler for short time slices: this thread then runs soon and briefly.
    void ask_short_slice()
    # For work in the background: lowers this thread's share of a busy processor.
    void be_background()
    # Starts a thread that receives no signals. Returns 0 or an errno.
    int start_thread(pthread_t *thread, void *(*run)(void *) noexcept nogil, void *argument, const char *name)
