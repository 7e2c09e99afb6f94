"""Connections on which Produce requests go out and are acknowledged without Python. See produce_channel.pyx."""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.accumulator cimport Accumulator, Lane
from bowstring._native.produce_rounds cimport SendCounters


cdef class SentBatches:
    """What an answer to Produce leads to."""
    cdef readonly list batches
    cdef object answered


cdef class ProduceChannel:
    """A connection that is ready, and how Produce requests are written for it."""
    cdef readonly object connection
    cdef readonly object in_flight
    cdef readonly object out
    cdef bytearray received
    cdef readonly int descriptor
    cdef bytes head
    cdef readonly int version
    cdef dict topic_heads                # topics as requests name them, by name
    cdef bint unread                     # something has come that the connection has to look at

    cdef bint knows(self, topic)
    cdef list pieces(self, int32_t correlation_id, list batches)


cdef class ProduceChannels:
    """The channels of a producer, and what goes over them."""
    cdef readonly Accumulator shared
    cdef readonly object client
    cdef readonly object settings
    cdef readonly SendCounters metrics
    cdef object pending_type
    cdef object api
    cdef object answered
    cdef object unmentioned
    cdef readonly object cluster
    cdef double timeout_s
    cdef readonly dict by_node
    cdef readonly dict by_descriptor
    cdef readonly dict in_flight         # by node: the same deques as the channels'
    cdef public tuple producer
    cdef public list finished

    cdef int64_t losses                  # of connections, and the version of metadata, when they were opened
    cdef int64_t version

    cdef int renew(self) except -1
    cdef bint identified(self) except -1
    cdef ProduceChannel of_lane(self, Lane lane)
    cdef double queue(self, ProduceChannel channel, list batches, double now) except -1
    cdef object pending_for(self, ProduceChannel channel, list batches, double now)
    cdef int flush(self) except -1
    cdef bint receive(self, ProduceChannel channel) except -1
    cdef int64_t cut(self, ProduceChannel channel, int64_t filled) except -1
    cdef bint settle_answer(self, ProduceChannel channel, int64_t at, int64_t size) except -1
