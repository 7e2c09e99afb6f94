"""Pieces of replies."""
from libc.stdint cimport int64_t, uint8_t
from bowstring._native.log cimport SegmentFile
from bowstring._native.server.connection_types cimport Chunk, Connection

cdef Chunk *chunk_bytes(int64_t capacity) noexcept nogil
# Takes ownership of `data`, which is malloc'd, and frees it also when memory runs out.
cdef Chunk *chunk_over(uint8_t *data, int64_t size) noexcept nogil
# Takes over the caller's reference to `file`.
cdef Chunk *chunk_file(SegmentFile *file, int64_t position, int64_t size) noexcept nogil
cdef void chunks_free(Chunk *head) noexcept nogil
# Frees the first of the pieces that a connection sends.
cdef void chunk_pop(Connection *c) noexcept nogil
