"""Memory for staged tails (staged_tail.pxd): a bounded pool of recycled chunks, in plain memory or in a mapped file.

A mapped file outlives the process, not the machine: after kill -9, restore() appends to the .log files what they lack.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from bowstring._native.base.pthread cimport pthread_cond_t, pthread_mutex_t

cdef enum:
    UNIT_BYTES = 16 << 10           # the smallest chunk
    SLAB_BYTES = 256 << 10          # the largest chunk
    SLAB_UNITS = SLAB_BYTES // UNIT_BYTES
    SIZES = 3                       # 16, 64 and 256 KiB
    NAME_BYTES = 384                # of a partition's directory, with the null byte

cdef struct ChunkHeader:
    # Says in the mapped file where a chunk's bytes belong. `length` is stored last, and is 0 while the others change.
    int64_t length
    uint32_t magic
    uint32_t crc                    # CRC-32C of the fields below
    int64_t inode                   # of the .log
    int64_t position                # in the .log, of the chunk's first byte
    int64_t base_offset             # of the segment
    char[NAME_BYTES] name           # of the partition's directory

cdef struct TailChunk:
    uint8_t *data
    ChunkHeader *header             # NULL in plain memory
    int64_t capacity                # bytes
    TailPool *pool
    int32_t refs                    # its tail, and those who read from it; atomic

cdef struct Slab:
    int32_t size                    # of its chunks, 0 to SIZES - 1; -1: free
    uint16_t taken                  # one bit for each chunk

cdef struct TailPool:
    # Guarded by `lock`, but what never changes (memory, headers, chunks, slab_count).
    pthread_mutex_t lock
    pthread_cond_t changed          # the list is no longer empty, or the writer shall end
    uint8_t *memory
    uint8_t *headers
    TailChunk *chunks               # one for each unit; a larger chunk is the one of its first unit
    Slab *slabs
    int64_t mapped_bytes
    int32_t slab_count
    int32_t closed                  # chunk_take finds none
    int64_t from_bytes              # files that are smaller have no tail
    int64_t rest_ns                 # a partition without appends for so long is slow: its next one goes to the file
    void *oldest                    # tails that have bytes (StagedTail), for the thread that writes out rested ones
    void *newest
    int32_t ending

cdef struct ChunkOps:
    # The stores into headers. Tests replace this table, as they do FileOps, to see what a process that dies leaves.

    # Says in the pool's file where the chunk's bytes belong; it has none yet.
    void (*name)(
        TailChunk *chunk, int64_t inode, int64_t position, int64_t base_offset, const char *directory) noexcept nogil
    # Publishes that the first `length` bytes are there; 0 before the chunk is given back.
    void (*publish)(TailChunk *chunk, int64_t length) noexcept nogil

cdef ChunkOps chunk_ops

# Returns a chunk of this size, or of the next smaller one that is free; NULL when the pool is used up. The caller holds
# its only reference.
cdef TailChunk *chunk_take(TailPool *pool, int32_t size) noexcept nogil
cdef void chunk_hold(TailChunk *chunk) noexcept nogil
cdef void chunk_release(TailChunk *chunk) noexcept nogil

cdef class TailMemory:
    """The Python class of a TailPool; owns it, but for a pool that still has bytes of a log at the end, which is not freed.
    See tail_pool.pyx."""
    cdef TailPool *pool
    cdef readonly str path
    cdef int64_t taken(self) noexcept
