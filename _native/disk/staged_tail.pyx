"""The staged tail of a .log, see staged_tail.pxd.

A tail has one chunk of a pool at a time. The chunk's bytes go to the file when the next append does not fit, when the
partition rests, and when somebody needs them there. The file never has a part of them: `start` is its size.

Contents: the list of tails · the chunk · for the log · for readers · the file · tails that rest · for Python.
"""
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset
from posix.stat cimport fstat, struct_stat
from bowstring._native.base.atomics cimport load_i32, load_i64, store_i64, store_pointer
from bowstring._native.base.clock cimport monotonic_ns
from bowstring._native.base.pthread cimport (
    pthread_cond_broadcast, pthread_cond_signal, pthread_cond_wait, pthread_mutex_destroy, pthread_mutex_init,
    pthread_mutex_lock, pthread_mutex_trylock, pthread_mutex_unlock)
from bowstring._native.disk.file_ops cimport file_ops, staged_files, write_range
from bowstring._native.disk.tail_pool cimport (
    SIZES, UNIT_BYTES, TailChunk, TailMemory, chunk_hold, chunk_ops, chunk_release, chunk_take)

cdef enum:
    FILES_MAX = 1 << 16             # descriptors from here on have no tail
    # A chunk that was full sooner than this makes the next one larger.
    FAST_NS = 1000000000

ctypedef void *Pointer

cdef Pointer[FILES_MAX] tails
memset(tails, 0, sizeof(tails))
staged_files.tails = tails
staged_files.read = staged_read
staged_files.count = FILES_MAX

# ---------------------------------------------------------------- the list of tails that have bytes


cdef void enlist(StagedTail *tail, TailPool *pool) noexcept nogil:
    pthread_mutex_lock(&pool.lock)
    tail.listed = pool
    tail.newer = NULL
    tail.older = <StagedTail *>pool.newest
    if tail.older != NULL:
        tail.older.newer = tail
    else:
        pool.oldest = tail
        pthread_cond_signal(&pool.changed)
    pool.newest = tail
    pthread_mutex_unlock(&pool.lock)


cdef void unlist(StagedTail *tail) noexcept nogil:
    """With the pool's lock."""
    cdef TailPool *pool = tail.listed
    if tail.newer != NULL:
        tail.newer.older = tail.older
    else:
        pool.newest = tail.older
    if tail.older != NULL:
        tail.older.newer = tail.newer
    else:
        pool.oldest = tail.newer
    tail.older = tail.newer = NULL
    tail.listed = NULL

# ---------------------------------------------------------------- the chunk; all with the tail's lock


cdef bint take(StagedTail *tail, TailPool *pool, int64_t size_bytes, int64_t position, const char *directory,
               int64_t base_offset) noexcept nogil:
    """Takes a chunk that has room for size_bytes, and for as many again if there is one."""
    cdef struct_stat found
    cdef TailChunk *chunk
    if tail.fd >= FILES_MAX:
        return False
    while tail.size + 1 < SIZES and <int64_t>UNIT_BYTES << (2 * tail.size) < 2 * size_bytes:
        tail.size += 1
    chunk = chunk_take(pool, tail.size)
    if chunk == NULL:
        return False
    if chunk.capacity < size_bytes or (chunk.header != NULL and fstat(tail.fd, &found) != 0):
        chunk_release(chunk)
        return False
    if chunk.header != NULL:
        chunk_ops.name(chunk, found.st_ino, position, base_offset, directory)
    tail.chunk = chunk
    tail.start = tail.end = position
    tail.begun_ns = monotonic_ns()
    store_pointer(&tails[tail.fd], tail)
    enlist(tail, pool)
    return True


cdef void leave(StagedTail *tail) noexcept nogil:
    """Ends the use of the chunk, which stays taken: in a mapped file, the next start finds its bytes."""
    cdef TailPool *pool = tail.chunk.pool
    pthread_mutex_lock(&pool.lock)
    unlist(tail)
    pthread_mutex_unlock(&pool.lock)
    tail.chunk = NULL
    store_pointer(&tails[tail.fd], NULL)


cdef void drop(StagedTail *tail) noexcept nogil:
    """Gives the chunk back: the file has its bytes, or nobody needs them."""
    cdef TailChunk *chunk = tail.chunk
    chunk_ops.publish(chunk, 0)
    leave(tail)
    chunk_release(chunk)


cdef int write_chunk(StagedTail *tail) noexcept nogil:
    return write_range(tail.fd, tail.chunk.data, tail.end - tail.start, tail.start)


cdef int write_out(StagedTail *tail) noexcept nogil:
    cdef int error
    if tail.chunk == NULL:
        return 0
    error = write_chunk(tail)
    if error == 0:
        drop(tail)
    return error


cdef int make_room(StagedTail *tail, int64_t size_bytes, const char *directory, int64_t base_offset) noexcept nogil:
    """Writes a full chunk to the file, and goes on in the same one, which is in the processor's cache, or in a larger one."""
    cdef TailChunk *chunk = tail.chunk
    cdef bint fast = tail.size + 1 < SIZES and monotonic_ns() - tail.begun_ns < FAST_NS
    cdef struct_stat found
    cdef int error
    if fast:
        tail.size += 1
    if fast or size_bytes > chunk.capacity or load_i32(&chunk.refs) > 1:
        return write_out(tail)
    error = write_chunk(tail)
    if error != 0:
        return error
    chunk_ops.publish(chunk, 0)
    if chunk.header != NULL:
        if fstat(tail.fd, &found) != 0:
            drop(tail)
            return 0
        chunk_ops.name(chunk, found.st_ino, tail.end, base_offset, directory)
    tail.start = tail.end
    tail.begun_ns = monotonic_ns()
    return 0

# ---------------------------------------------------------------- for the log


cdef void tail_open(StagedTail *tail, int fd) noexcept nogil:
    memset(tail, 0, sizeof(StagedTail))
    pthread_mutex_init(&tail.lock, NULL)
    tail.fd = fd


cdef int tail_close(StagedTail *tail) noexcept nogil:
    cdef int error = 0
    pthread_mutex_lock(&tail.lock)
    if tail.chunk != NULL:
        error = write_chunk(tail)
        if error != 0 and tail.chunk.header != NULL:
            leave(tail)
        else:
            drop(tail)
    pthread_mutex_unlock(&tail.lock)
    pthread_mutex_destroy(&tail.lock)
    return error


cdef int tail_append(StagedTail *tail, TailPool *pool, const iovec *parts, int n, int64_t size_bytes, int64_t position,
                     const char *directory, int64_t base_offset) noexcept nogil:
    cdef uint8_t *to
    cdef int64_t now = monotonic_ns()
    cdef bint rested = pool != NULL and now - tail.appended_ns > pool.rest_ns
    cdef bint wanted = pool != NULL and size_bytes <= STAGED_BYTES_MAX
    cdef int error = 0, i
    pthread_mutex_lock(&tail.lock)
    if tail.chunk != NULL and (not wanted or tail.chunk.pool != pool or tail.end != position):
        error = write_out(tail)
    elif tail.chunk != NULL and tail.end + size_bytes > tail.start + tail.chunk.capacity:
        error = make_room(tail, size_bytes, directory, base_offset)
    if error == 0:
        store_i64(&tail.appended_ns, now)
    if error == 0 and tail.chunk == NULL and wanted and not rested:
        take(tail, pool, size_bytes, position, directory, base_offset)
    if error != 0 or tail.chunk == NULL:
        pthread_mutex_unlock(&tail.lock)
        return error
    to = tail.chunk.data + (tail.end - tail.start)
    for i in range(n):
        memcpy(to, parts[i].iov_base, parts[i].iov_len)
        to += parts[i].iov_len
    tail.end += size_bytes
    chunk_ops.publish(tail.chunk, tail.end - tail.start)
    pthread_mutex_unlock(&tail.lock)
    return 1


cdef int tail_write_out(StagedTail *tail) noexcept nogil:
    cdef int error
    pthread_mutex_lock(&tail.lock)
    error = write_out(tail)
    pthread_mutex_unlock(&tail.lock)
    return error

# ---------------------------------------------------------------- for readers


cdef int64_t tail_view(StagedTail *tail, int64_t position, int64_t size_bytes, TailView *view) noexcept nogil:
    cdef int64_t start = INT64_MAX
    view.chunk = NULL
    pthread_mutex_lock(&tail.lock)
    if tail.chunk != NULL:
        start = tail.start
        if tail.start <= position < tail.end:
            view.chunk = tail.chunk
            chunk_hold(view.chunk)
            view.data = tail.chunk.data + (position - tail.start)
            view.size_bytes = size_bytes if size_bytes < tail.end - position else tail.end - position
    pthread_mutex_unlock(&tail.lock)
    return start


cdef void view_release(TailView *view) noexcept nogil:
    chunk_release(view.chunk)


cdef int64_t tail_start(StagedTail *tail, int64_t end) noexcept nogil:
    pthread_mutex_lock(&tail.lock)
    if tail.chunk != NULL and tail.start < end:
        end = tail.start
    pthread_mutex_unlock(&tail.lock)
    return end


cdef int64_t staged_read(void *of, int fd, void *data, int64_t size_bytes, int64_t position) noexcept nogil:
    """read_range() of a file that may have a tail."""
    cdef StagedTail *tail = <StagedTail *>of
    cdef TailView view
    cdef int64_t done = 0, n, start
    while done < size_bytes:
        start = tail_view(tail, position + done, size_bytes - done, &view)
        if view.chunk != NULL:
            n = view.size_bytes
            memcpy(<uint8_t *>data + done, view.data, n)
            view_release(&view)
        else:
            n = size_bytes - done
            if n > start - (position + done) > 0:
                n = start - (position + done)
            n = file_ops.pread(fd, <uint8_t *>data + done, n, position + done)
            if n < 0:
                return n
            if n == 0:
                break
        done += n
    return done


cdef int tail_cached(StagedTail *tail, int64_t position, int64_t size_bytes) noexcept nogil:
    cdef int64_t start = INT64_MAX
    pthread_mutex_lock(&tail.lock)
    if tail.chunk != NULL:
        start = tail.start
    pthread_mutex_unlock(&tail.lock)
    if position >= start:
        return 1
    return file_ops.cached(tail.fd, position, size_bytes if size_bytes < start - position else start - position)

# ---------------------------------------------------------------- the file


cdef int tail_truncate(StagedTail *tail, int64_t size_bytes) noexcept nogil:
    cdef int error = 0
    pthread_mutex_lock(&tail.lock)
    if tail.chunk != NULL and size_bytes <= tail.start:
        drop(tail)
    elif tail.chunk != NULL:
        if size_bytes < tail.end:
            tail.end = size_bytes
            chunk_ops.publish(tail.chunk, size_bytes - tail.start)
        error = write_out(tail)
    if error == 0:
        error = file_ops.truncate(tail.fd, size_bytes)
    pthread_mutex_unlock(&tail.lock)
    return error


cdef int tail_sync(StagedTail *tail) noexcept nogil:
    cdef int error = tail_write_out(tail)
    return error if error != 0 else file_ops.sync(tail.fd)

# ---------------------------------------------------------------- tails that rest


cdef StagedTail *hold_rested(TailPool *pool, int64_t before_ns, int64_t turn) noexcept nogil:
    """Returns a tail without appends since before_ns that had no turn yet, with its lock taken; NULL when there is none.
    A tail whose lock is taken is in use, and waits for the next time."""
    cdef StagedTail *tail
    pthread_mutex_lock(&pool.lock)
    tail = <StagedTail *>pool.oldest
    while tail != NULL and (tail.turn == turn or load_i64(&tail.appended_ns) > before_ns
                            or pthread_mutex_trylock(&tail.lock) != 0):
        tail = tail.newer
    if tail != NULL:
        tail.turn = turn
    pthread_mutex_unlock(&pool.lock)
    return tail


cdef int tails_write_rested(TailPool *pool, int64_t rest_ns, int32_t *failed) noexcept nogil:
    cdef int64_t now = monotonic_ns()
    cdef StagedTail *tail
    cdef int error = 0, found
    failed[0] = 0
    while True:
        tail = hold_rested(pool, now - rest_ns, now)
        if tail == NULL:
            return error
        found = write_out(tail)
        pthread_mutex_unlock(&tail.lock)
        if found != 0:
            error = found
            failed[0] += 1


cdef void tails_abandon(TailPool *pool) noexcept nogil:
    cdef StagedTail *tail
    while True:
        pthread_mutex_lock(&pool.lock)
        tail = <StagedTail *>pool.oldest
        if tail == NULL:
            pthread_mutex_unlock(&pool.lock)
            return
        unlist(tail)
        pthread_mutex_unlock(&pool.lock)
        chunk_release(tail.chunk)
        tail.chunk = NULL
        store_pointer(&tails[tail.fd], NULL)


cdef bint tails_wait(TailPool *pool) noexcept nogil:
    cdef bint any_left
    pthread_mutex_lock(&pool.lock)
    while pool.oldest == NULL and not pool.ending:
        pthread_cond_wait(&pool.changed, &pool.lock)
    any_left = not pool.ending
    pthread_mutex_unlock(&pool.lock)
    return any_left


cdef void tails_end(TailPool *pool) noexcept nogil:
    pthread_mutex_lock(&pool.lock)
    pool.ending = True
    pthread_cond_broadcast(&pool.changed)
    pthread_mutex_unlock(&pool.lock)

# ---------------------------------------------------------------- for Python


def wait_for_tails(TailMemory memory not None):
    """Waits until a tail of this pool has bytes. False once end_waiting() was called."""
    cdef bint more
    with nogil:
        more = tails_wait(memory.pool)
    return more


def write_rested(TailMemory memory not None, int64_t rest_ms):
    """Writes out the tails without appends for `rest_ms`; 0: all that nobody uses just now.

    Returns:
        (number of tails that could not be written, errno of the last of these). They keep their bytes.
    """
    cdef int32_t failed = 0
    cdef int error
    with nogil:
        error = tails_write_rested(memory.pool, rest_ms * 1000000, &failed)
    return failed, -error


def end_waiting(TailMemory memory not None):
    """Ends wait_for_tails(), now and later."""
    tails_end(memory.pool)


def abandon_tails(TailMemory memory not None):
    """Forgets the bytes that are staged, as a process does that is killed: what a mapped file has of them stays there.

    For simulations. Nobody may append to the logs, or read them, meanwhile or later.
    """
    tails_abandon(memory.pool)
