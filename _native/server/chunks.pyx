"""Pieces of replies: bytes, or ranges of segment files."""
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from bowstring._native.log cimport SegmentFile, segment_file_release
from bowstring._native.server.connection_types cimport Chunk, Connection


cdef Chunk *chunk_bytes(int64_t capacity) noexcept nogil:
    cdef Chunk *chunk = <Chunk *>malloc(sizeof(Chunk) + capacity)
    if chunk == NULL:
        return NULL
    chunk.next = NULL
    chunk.file = NULL
    chunk.position = chunk.end = 0
    chunk.capacity = capacity
    chunk.data = <uint8_t *>(chunk + 1)
    return chunk


cdef Chunk *chunk_file(SegmentFile *file, int64_t position, int64_t size) noexcept nogil:
    cdef Chunk *chunk = chunk_bytes(0)
    if chunk == NULL:
        return NULL
    chunk.file = file
    chunk.position = position
    chunk.end = position + size
    return chunk


cdef Chunk *chunk_over(uint8_t *data, int64_t size) noexcept nogil:
    cdef Chunk *chunk = chunk_bytes(0)
    if chunk == NULL:
        free(data)
        return NULL
    chunk.data = data
    chunk.end = chunk.capacity = size
    return chunk


cdef void chunk_drop(Chunk *chunk) noexcept nogil:
    if chunk.file != NULL:
        segment_file_release(chunk.file)
    if chunk.data != <uint8_t *>(chunk + 1):             # from chunk_over()
        free(chunk.data)
    free(chunk)


cdef void chunks_free(Chunk *head) noexcept nogil:
    cdef Chunk *following
    while head != NULL:
        following = head.next
        chunk_drop(head)
        head = following


cdef void chunk_pop(Connection *c) noexcept nogil:
    cdef Chunk *chunk = c.out_head
    c.out_head = chunk.next
    if c.out_head == NULL:
        c.out_tail = NULL
    c.out_bytes -= sizeof(Chunk) + chunk.capacity
    chunk_drop(chunk)
