"""The half of Producer that is called for every record. See record_sender.pyx."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from bowstring._native.client.accumulator cimport Accumulator, PartitionQueue, TopicRoute
from bowstring._native.client.producer_batch cimport Batch
from bowstring._native.client.sender_loop cimport SenderLoop


cdef class RecordSender:
    """The half of Producer that is called for every record. See record_sender.pyx."""
    cdef public Accumulator accumulator
    cdef public SenderLoop loop          # sends from the calling thread; None when nothing is to be sent
    cdef public object key_serializer
    cdef public object value_serializer
    cdef public object schema_headers    # adds the headers that name the schemas of key and value; None: there are none

    cdef int send_directly(self, Accumulator shared) except -1
    cdef int64_t given_ms(self, object timestamp) except? -1
    cdef Batch append(
        self, object topic, object key, const uint8_t *key_at, int64_t key_length, const uint8_t *value_at,
        int64_t value_length, const uint8_t *headers_at, int64_t headers_length, int64_t timestamp_ms,
        object partition, int32_t *index)
    cdef PartitionQueue choose(
        self, Accumulator shared, object topic, object key, const uint8_t *key_at, int64_t key_length,
        int64_t size, object partition)
    cdef int32_t unkeyed(self, TopicRoute route, int64_t size) except -1
