"""A producer's native loop, and who may run what of it. See sender_loop.pyx.

The turn is a lock. The sender's thread holds it, but for the time that it sleeps in `run`; a caller that finds it free
takes it for one batch (`send_now`). Whoever holds it owns the network client, the channels, the metadata, and the
batches from `Accumulator.take` to `Accumulator.publish`. Every holder holds the GIL too, and releases it with the turn kept
only to wait for a socket.
"""
from bowstring._native.client.accumulator cimport Accumulator, PartitionQueue
from bowstring._native.client.produce_channel cimport ProduceChannel, ProduceChannels
from bowstring._native.client.socket_io cimport Poller
from libc.stdint cimport int64_t


# Why the loop returns to the sender's thread. See the table in python/bowstring/clients/producer/sender.py.
cpdef enum Event:
    NOTHING                              # it goes on: never returned
    TIME
    CALLED
    UNREADY
    SOCKETS
    BROKEN
    UNMENTIONED
    FULL
    UNPLACED
    UNREACHED
    UNJOINED
    ROOM


cdef class NodeLoad:
    """What one look takes for a broker."""
    cdef object node
    cdef ProduceChannel channel          # None: requests go out from Python
    cdef bint reachable
    cdef int64_t in_flight
    cdef int64_t size_bytes
    cdef list taken


cdef class SenderLoop:
    """The loop of one producer's sender. See sender_loop.pyx."""
    cdef ProduceChannels channels
    cdef Accumulator shared
    cdef readonly object turn
    cdef Poller poller
    cdef int wake_descriptor
    cdef double linger_s
    cdef int64_t in_flight_max
    cdef readonly double due             # when there is more to send, in seconds of the monotonic clock
    cdef list found                      # (descriptor, events) that the client must look at
    cdef list unplaced                   # queues whose leader, or topic on its channel, must be looked up
    cdef list unreached                  # queues that have no leader, or none that requests can go to natively
    cdef list unjoined                   # queues whose partitions must be added to the transaction first
    cdef bint room                       # callers that wait for room may go on
    cdef readonly int64_t sent_by_callers

    cdef int left_over(self) except -1
    cdef int outside(self, double now, double until) except -1
    cdef int receive(self, list found) except -1
    cdef dict send_due(self, dict others)
    cdef NodeLoad load_of(self, dict loads, object node, dict others)
    cdef list collect(self, double now, dict others)
    cdef double queue(self, ProduceChannel channel, list batches) except -1
    cdef int send_now(self, PartitionQueue queue) except -1
    cdef ProduceChannel channel_of(self, PartitionQueue queue)
    cdef bint send_alone(self, PartitionQueue queue) except -1
