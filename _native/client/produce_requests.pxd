"""The bytes of Produce requests and answers. See produce_requests.pyx."""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.client.accumulator cimport Accumulator
from bowstring._native.base.wire cimport Reader

cdef enum:
    LENGTH_BYTES = 4                     # before each frame


cdef class SendCounters:
    """What is counted for each request and batch."""
    cdef public int64_t requests
    cdef public int64_t records
    cdef public int64_t batches
    cdef public int64_t batch_bytes
    cdef public int64_t batch_bytes_max
    cdef public int64_t plain_bytes
    cdef public double queue_s
    cdef public double queue_max_s
    cdef public int64_t answers
    cdef public double latency_s
    cdef public double latency_max_s
    cdef public double sample_at         # when the totals are to be noted again

    cpdef void sent(self, list batches, double now)
    cpdef void answered(self, double latency_s)


cdef class Acknowledgements:
    """An answer to Produce that refuses nothing."""
    cdef readonly list topics
    cdef readonly int32_t throttle_time_ms


cpdef dict partitions_by_topic(list batches)
cpdef list interleave(bytes head, int32_t correlation_id, list topics, int version)
cdef Acknowledgements read_answer(Reader *r, int version)
cpdef list acknowledge(Accumulator shared, list sent, Acknowledgements answer, names)
