"""Putting a cleaned segment in the place of those it was made from."""
from libc.stdint cimport int32_t
from bowstring._native.cleaner_types cimport CleanRun

# The finished output takes the place of `n` sources from `first` on. 0, -ECANCELED when they are not there any more
# as they were (the output is gone then), or a negated errno. Takes Log.lock, and lets it go while the device works.
cdef int swap_in(CleanRun *run, int32_t first, int32_t n) noexcept nogil
