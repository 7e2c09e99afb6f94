"""Makes pieces of replies of what the control thread has encoded."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy
from bowstring._native.base.wire cimport patch_i32
from bowstring._native.protocol.message_steps cimport Encoding
from bowstring._native.server.chunks cimport chunk_bytes, chunk_over, chunks_free

cdef enum:
    COPIED_MAX_BYTES = 65536        # a larger response is sent from the memory it was encoded in


cdef Chunk *reply_chunk(payload) except? NULL:
    cdef int64_t n
    cdef const void *data
    cdef Chunk *chunk
    if payload is None:
        return NULL
    if type(payload) is Encoding:
        data = (<Encoding>payload).done(&n)
    else:
        n = PyBytes_GET_SIZE(<bytes?>payload)
        data = PyBytes_AS_STRING(payload)
    chunk = chunk_bytes(4 if n > COPIED_MAX_BYTES and type(payload) is Encoding else n + 4)
    if chunk == NULL:
        raise MemoryError
    patch_i32(chunk.data, <int32_t>n)
    chunk.end = chunk.capacity
    if chunk.capacity == n + 4:                          # also without a byte, as SASL tokens can be
        memcpy(chunk.data + 4, data, n)
    else:
        chunk.next = chunk_over((<Encoding>payload).give(), n)
        if chunk.next == NULL:
            chunks_free(chunk)
            raise MemoryError
    return chunk
