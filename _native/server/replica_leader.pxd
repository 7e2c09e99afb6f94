"""What a leader does for its followers: notes their fetches and moves the high watermark."""
from libc.stdint cimport int16_t, int64_t
from bowstring._native.server.fetch_types cimport FetchPart, FetchRequest
from bowstring._native.server.partition_types cimport Partition
from bowstring._native.server.plane_types cimport Plane
from bowstring._native.server.reactor_types cimport Reactor

# Checks a follower's fetch and notes its offset, once for each request. Returns 0 or an error code.
cdef int16_t leader_fetched(Reactor *r, FetchRequest *request, FetchPart *part, Partition *p) noexcept nogil
# Raises the high watermark as far as the replicas allow. Returns whether it moved; then call partition_advanced().
cdef bint leader_advance(Partition *p, int64_t now_ms) noexcept nogil
# The same after the write-ahead log made records of a replicated partition durable, for leaders and followers.
cdef void replicated_durable(Partition *p, int64_t now_ms) noexcept nogil
# After an append that did not move the high watermark: only followers can read more.
cdef void followers_wake(Partition *p, int64_t bytes, Reactor *here) noexcept nogil
# Whether acks=all may be answered with success: 0 or NOT_ENOUGH_REPLICAS_AFTER_APPEND.
cdef int16_t leader_enough(Partition *p) noexcept nogil
# Looks which followers should leave the ISR, and queues events. For the control thread.
cdef void leader_check_lag(Plane *plane, Partition *p, int64_t now_ms) noexcept nogil
