"""The keys of schemas in Confluent's wire formats: zero and an id, or one and a guid; of Protobuf also message indexes."""
from libc.stdint cimport int64_t, uint8_t

cdef enum:
    ID_KEY_BYTES = 5            # a zero byte, the schema's id
    GUID_KEY_BYTES = 17         # a byte of 1, the schema's guid

# Bytes of the key at the start of a value or header; 0: there is none. With `indexed`, message indexes are part of it.
cdef int64_t key_size(const uint8_t *at, int64_t size, bint indexed) noexcept nogil
