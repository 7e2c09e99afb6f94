"""What DataPlane.take_requests gives out."""
from libc.stdint cimport int64_t
from bowstring._native.plane cimport ControlMessage, ProducePart


cdef class ControlRequest:
    cdef readonly int64_t connection_id
    cdef readonly int64_t slot
    cdef readonly int api_key
    cdef readonly int api_version
    cdef readonly int correlation_id
    cdef readonly str client_id
    cdef readonly bytes body
    cdef readonly int64_t received_ns
    cdef readonly str peer
    cdef readonly int listener
    cdef readonly str principal

cdef class SlowBatch:
    cdef readonly bytes batch
    cdef readonly str topic
    cdef readonly int partition
    cdef readonly int codec                 # the batch's
    cdef readonly int wanted_codec          # the topic's; -1: as the producer sent it
    cdef readonly bint key_required
    cdef ProducePart *part

cdef object new_request(ControlMessage *m)
cdef object new_slow_batch(ControlMessage *m)
