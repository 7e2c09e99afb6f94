"""A wrapper of QuotaWindow for tests, see quota_window.pxd."""
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free


cdef class Rate:
    """A rate.

    Args:
        samples: Number of samples.
        window_ms: Length of each.
    """

    cdef QuotaWindow window

    def __cinit__(self, int32_t samples, int64_t window_ms):
        self.window.ring = <QuotaSample *>calloc(samples + 1, sizeof(QuotaSample))
        if self.window.ring == NULL:
            raise MemoryError
        self.window.samples = samples
        self.window.window_ms = window_ms

    def __dealloc__(self):
        free(self.window.ring)

    def record(self, double value, int64_t now_ms):
        """Adds a value."""
        window_record(&self.window, value, now_ms)

    def per_second(self, int64_t now_ms):
        """Returns the rate."""
        return window_rate(&self.window, now_ms)

    def excess_ms(self, double bound, int64_t now_ms):
        """Returns the milliseconds until the rate is back at the bound."""
        return window_excess_ms(&self.window, bound, now_ms)
