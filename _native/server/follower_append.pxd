"""Appends what a follower received to its log."""
from libc.stdint cimport int16_t, int64_t, uint8_t
from bowstring._native.server.follow_types cimport FollowPart
from bowstring._native.server.reactor_types cimport Reactor

# Appends the whole batches of [data, data + size) and moves high watermark and log start to the leader's. Returns 0, or an
# error code: some batches may be in the log.
cdef int16_t follower_append(Reactor *r, FollowPart *part, uint8_t *data, int64_t size, int64_t high_watermark,
                             int64_t start_offset) noexcept nogil
