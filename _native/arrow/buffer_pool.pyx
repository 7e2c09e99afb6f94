"""A pool of large blocks, shared by the process.

A block is in use from the decoding (or receiving) that fills it until the last Arrow array that refers to it is freed;
then it is reused. Small blocks come from malloc.
"""
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memmove
from bowstring._native.base.pthread cimport (
    pthread_atfork, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_t, pthread_mutex_unlock)

cdef extern from "stdlib.h" nogil:
    int posix_memalign(void **memory, size_t alignment, size_t size)

cdef enum:
    POOL_BLOCKS = 48
    POOLED_MIN_BYTES = 65536
    POOL_MAX_BYTES = 96 << 20
    ALIGNMENT = 64                # recommended by Arrow

cdef pthread_mutex_t pool_lock
cdef Growing pool[POOL_BLOCKS]
cdef int pool_count = 0
cdef int64_t pool_bytes = 0


cdef void lock_pool() noexcept nogil:
    pthread_mutex_lock(&pool_lock)


cdef void unlock_pool() noexcept nogil:
    pthread_mutex_unlock(&pool_lock)


pthread_mutex_init(&pool_lock, NULL)
# After a fork the child must not have a lock that another thread of the parent held.
pthread_atfork(lock_pool, unlock_pool, unlock_pool)


cdef void remove_pooled(int index) noexcept nogil:
    """Removes a block; the lock is held. The pool stays sorted by age."""
    global pool_count, pool_bytes
    pool_bytes -= pool[index].capacity
    pool_count -= 1
    memmove(&pool[index], &pool[index + 1], (pool_count - index) * sizeof(Growing))


cdef void take_pooled(Growing *g, int64_t size) noexcept nogil:
    """Takes the smallest block of at least `size` bytes that is not many times larger, if there is one."""
    cdef int i, best = -1
    lock_pool()
    for i in range(pool_count):
        if (pool[i].capacity >= size and pool[i].capacity <= 4 * size
                and (best < 0 or pool[i].capacity < pool[best].capacity)):
            best = i
    if best >= 0:
        g[0] = pool[best]
        remove_pooled(best)
    unlock_pool()


cdef int64_t rounded(int64_t size) noexcept nogil:
    """Rounds up to a quarter of a power of two, so that similar sizes can use the same blocks."""
    cdef int64_t step = POOLED_MIN_BYTES // 4
    while size > 8 * step:
        step *= 2
    return (size + step - 1) // step * step


cdef void allocate(Growing *g, int64_t size) noexcept nogil:
    cdef void *made = NULL
    g.data = NULL
    g.capacity = 0
    if size >= POOLED_MIN_BYTES:
        take_pooled(g, size)
        if g.data != NULL:
            return
        size = rounded(size)
    if posix_memalign(&made, ALIGNMENT, size) == 0:
        g.data = <uint8_t *>made
        g.capacity = size


cdef void memory_discard(Growing *g) noexcept nogil:
    global pool_count, pool_bytes
    if g.data == NULL:
        return
    if POOLED_MIN_BYTES <= g.capacity <= POOL_MAX_BYTES // 2:
        lock_pool()
        while pool_count == POOL_BLOCKS or pool_bytes + g.capacity > POOL_MAX_BYTES:
            free(pool[0].data)                           # the oldest: no buffer of its size was needed for long
            remove_pooled(0)
        pool[pool_count] = g[0]
        pool_count += 1
        pool_bytes += g.capacity
        unlock_pool()
    else:
        free(g.data)
    g.data = NULL
    g.capacity = 0


cdef bint memory_grow(Growing *g, int64_t used, int64_t more) noexcept nogil:
    cdef Growing wider
    cdef int64_t needed = used + more + MEMORY_SLACK_BYTES
    if needed <= g.capacity:
        return True
    if needed < 2 * g.capacity:
        needed = 2 * g.capacity
    allocate(&wider, needed)
    if wider.data == NULL:
        return False
    if used > 0:
        memcpy(wider.data, g.data, used)
    memory_discard(g)
    g[0] = wider
    return True


cdef class Memory:
    """Bytes in a recycled block, with the buffer protocol."""

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.block.data, self.size, not self.writable, flags)

    def __releasebuffer__(self, Py_buffer *view):
        pass

    def __dealloc__(self):
        memory_discard(&self.block)


cdef Memory memory_of(Growing *g, int64_t size):
    """Returns the first `size` bytes of `g`. Copies a mostly empty block to one that fits, so that small columns do not
    keep large blocks."""
    cdef Memory made = Memory.__new__(Memory)
    cdef Growing fitting
    fitting.data = NULL
    fitting.capacity = 0
    if g.capacity >= POOLED_MIN_BYTES and size < g.capacity // 4 and memory_grow(&fitting, 0, size):
        memcpy(fitting.data, g.data, size)
        memory_discard(g)
        g[0] = fitting
    made.block = g[0]
    made.size = size
    g.data = NULL
    g.capacity = 0
    return made


def receive_buffer(Py_ssize_t size):
    """Returns writable memory of `size` bytes for receiving. Its content is undefined: it is not cleared."""
    cdef Growing block
    cdef Memory made
    block.data = NULL
    block.capacity = 0
    if size < 0 or not memory_grow(&block, 0, size):
        raise MemoryError(f"no memory for {size} received bytes")
    made = memory_of(&block, size)
    made.writable = True
    return made


def pooled_bytes():
    """Returns the bytes in the pool."""
    return pool_bytes
