"""Decides on a reactor what a connection may do, see access_types.pxd."""
from libc.stdint cimport int32_t, uint8_t
from bowstring._native.server.access_types cimport AccessEvent, AccessKind
from bowstring._native.server.partition_types cimport Topic
from bowstring._native.server.plane_types cimport Plane
from bowstring._native.server.reactor_types cimport Reactor

# Whether a subject may write to or read from a topic. `topic` NULL: this broker has none of the name.
cdef bint topic_allowed(Reactor *r, int32_t subject, AccessKind kind, const Topic *topic, const uint8_t *name,
                        int32_t length) noexcept nogil
# Whether a subject may use a transactional id.
cdef bint transaction_allowed(Reactor *r, int32_t subject, const uint8_t *name, int32_t length) noexcept nogil
# Whether a subject may fetch as a follower.
cdef bint follow_allowed(Reactor *r, int32_t subject) noexcept nogil

# The reports since the last call, linked; the caller gives their subjects back and frees them.
cdef AccessEvent *access_events_take(Plane *plane) noexcept nogil


cdef inline bint is_controlled(const Reactor *r) noexcept nogil:
    """Whether rules apply at all."""
    return r.plane.access.rules != NULL
