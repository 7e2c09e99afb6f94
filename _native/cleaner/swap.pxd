"""Replaces segments by the cleaned segment that was written from them."""
from libc.stdint cimport int32_t
from bowstring._native.cleaner.types cimport CleanRun

# Replaces `n` sources from `first` on by the finished output. Returns 0; -ECANCELED when the sources changed or were
# removed (then removes the output); or a negated errno. Takes Log.lock, and releases it while the device works.
cdef int swap_in(CleanRun *run, int32_t first, int32_t n) noexcept nogil
