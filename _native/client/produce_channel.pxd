"""Connections on which Produce requests go out and are acknowledged without Python. See produce_channel.pyx."""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.client.accumulator cimport Accumulator
from bowstring._native.client.produce_requests cimport SendCounters
from bowstring._native.client.tls_channel cimport TlsChannel


cdef class SentBatches:
    """What an answer to Produce leads to."""
    cdef readonly list batches
    cdef object answered


cdef class ProduceChannel:
    """A connection that is ready, and how Produce requests are written for it."""
    cdef readonly object connection
    cdef object in_flight                # the connection's own deques and buffer
    cdef object out
    cdef bytearray received
    cdef int descriptor
    cdef TlsChannel tls                  # None: plain text
    cdef bytes head
    cdef readonly int version
    cdef dict topic_heads                # topics as requests name them, by name
    cdef bint unread                     # something has come that the connection has to look at

    cpdef bint knows(self, topic)
    cdef int flush(self, bint keep_gil) except -1
    cdef Py_ssize_t receive(self, Py_ssize_t at) except -2
    cdef list pieces(self, int32_t correlation_id, list batches)


cdef class ProduceChannels:
    """The channels of a producer, and what goes over them."""
    cdef Accumulator shared
    cdef SendCounters metrics
    cdef object names                    # of topics, by id
    cdef object pending_type
    cdef object api
    cdef object answered
    cdef double timeout_s
    cdef readonly dict by_node
    cdef dict by_descriptor
    cdef list broken                     # (connection, error) that writing or reading found broken
    cdef list full                       # connections that have more to write than their sockets take
    cdef list unmentioned                # batches that an answer did not mention

    cdef double queue(self, ProduceChannel channel, list batches, double now) except -1
    cdef object pending_for(self, ProduceChannel channel, list batches, double now)
    cdef int flush(self) except -1
    cdef bint receive(self, ProduceChannel channel) except -1
    cdef int64_t cut(self, ProduceChannel channel, int64_t filled) except -1
    cdef bint complete_answer(self, ProduceChannel channel, int64_t at, int64_t size) except -1
