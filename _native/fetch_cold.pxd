"""Fetches of what is not in memory, or was never checked: they park while a storage thread reads it.

The first read of a reader brings what it asked for and wakes its fetch, then goes on READ_AHEAD_BYTES; as long as the
reader follows, the next piece is read before it is asked for.
"""
from libc.stdint cimport int64_t
from bowstring._native.plane cimport FetchPart, FetchRequest, Reactor

# Takes what storage threads have brought for this part since the last look; part.error when they could not. False:
# what it waits for is still being read.
cdef bint cold_settle(FetchRequest *request, FetchPart *part) noexcept nogil
# part.slice is cold: has it read, and request woken then. False when no storage thread can be had.
cdef bint cold_start(Reactor *r, FetchRequest *request, FetchPart *part) noexcept nogil
# The reader was given a slice: sees to it that what follows is read in time.
cdef void cold_follow(Reactor *r, FetchPart *part) noexcept nogil
# The part is going: what is being read for it is nobody's any more.
cdef void cold_abandon(FetchPart *part) noexcept nogil
