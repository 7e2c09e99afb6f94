"""Reads records that are not in memory, or were never checked, on a storage thread while the fetch waits.

The first read covers the requested bytes, as far as the response has room, and wakes the fetch. For a reader that
continues where its last read ended the storage thread reads ahead: first a few times the requested bytes, then twice as
much each time, at most READ_AHEAD_BYTES. The next piece is then read before it is requested.
"""
from libc.stdint cimport int64_t
from bowstring._native.server.fetch_types cimport FetchPart, FetchRequest
from bowstring._native.server.reactor_types cimport Reactor

cdef enum:
    READ_MIN_BYTES = 65536          # least bytes of one read
    READ_AHEAD_BYTES = 4 << 20      # of one partition, at most

# Collects the pieces that storage threads have read for this part since the last evaluation; sets part.error if a read
# failed. False: the read is not done.
cdef bint cold_take(FetchRequest *request, FetchPart *part) noexcept nogil
# Queues a read of `size_bytes` of the cold part.slice, which then wakes the request. False when there is no storage
# thread.
cdef bint cold_start(Reactor *r, FetchRequest *request, FetchPart *part, int64_t size_bytes) noexcept nogil
# Call it after the reader got a slice: queues a read-ahead of the next records, within request.ahead_bytes.
cdef void cold_follow(Reactor *r, FetchRequest *request, FetchPart *part) noexcept nogil
# Call it before the part is freed: abandons its reads.
cdef void cold_abandon(FetchPart *part) noexcept nogil
