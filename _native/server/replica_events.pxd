"""Passes events of replicas to the control thread."""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.server.follow_types cimport Dial
from bowstring._native.server.partition_types cimport Partition
from bowstring._native.server.plane_types cimport Plane
from bowstring._native.server.replica_types cimport ReplicaEvent

# Queues an event and wakes the control thread. An event without memory is lost: the next fetch, or the next look at the
# followers' lag, causes it again.
cdef void replica_event(Plane *plane, int32_t kind, Partition *p, int64_t a, int64_t b) noexcept nogil
# Removes and returns the whole list, oldest first. The caller releases each partition and frees each event.
cdef ReplicaEvent *replica_events_take(Plane *plane) noexcept nogil
# Has the control thread connect to a leader. False when memory ran out.
cdef bint dial_order(Plane *plane, int32_t reactor, int32_t leader_id, int32_t number, int64_t dial) noexcept nogil
# Removes and returns the whole list. The caller frees each.
cdef Dial *dials_take(Plane *plane) noexcept nogil
