"""Staging and group commit, see wal_commit.pxd and wal_types.pxd."""
from libc.errno cimport ESHUTDOWN
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset, strdup
from posix.stdlib cimport posix_memalign
from posix.unistd cimport write
from bowstring._native.atomics cimport bump_i64, full_fence, load_i32, load_i64, store_i32, store_i64
from bowstring._native.crc cimport crc32c_update
from bowstring._native.wal_files cimport device_close, device_write, segment_close, write_trailer
from bowstring._native.wal_types cimport (
    WAL_BLOCK, WAL_CONTROL, WAL_DEPTH, WAL_FRAME_BYTES, WAL_MAGIC, WAL_SUPPLY, WAL_WAKES, WalBuffer, WalEntryHeader,
    WalFrameHeader, pthread_cond_t, pthread_mutex_t)

cdef extern from *:
    """
    static int32_t take_flag(int32_t *p) { return __atomic_exchange_n(p, 0, __ATOMIC_ACQ_REL); }
    """
    int32_t take_flag(int32_t *p) nogil

cdef extern from "threads.h" nogil:
    void ask_short_slice()

cdef extern from "pthread.h" nogil:
    int pthread_mutex_init(pthread_mutex_t *m, void *attributes)
    int pthread_mutex_destroy(pthread_mutex_t *m)
    int pthread_mutex_lock(pthread_mutex_t *m)
    int pthread_mutex_unlock(pthread_mutex_t *m)
    int pthread_cond_init(pthread_cond_t *c, void *attributes)
    int pthread_cond_destroy(pthread_cond_t *c)
    int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
    int pthread_cond_signal(pthread_cond_t *c)
    int pthread_cond_broadcast(pthread_cond_t *c)

cdef enum:
    POOL_MAX = 12                   # buffers kept for reuse: freed memory is slow to come back
    CRC_FROM = 8                    # in a frame's header

# ---------------------------------------------------------------- staging


cdef int64_t blocks(int64_t size_bytes) noexcept nogil:
    return (size_bytes + WAL_BLOCK - 1) // WAL_BLOCK * WAL_BLOCK


cdef int64_t wal_entry_max_bytes(const Wal *wal) noexcept nogil:
    return wal.segment_bytes // 4


cdef WalBuffer *buffer_take(Wal *wal, int64_t wanted) noexcept nogil:
    """An empty frame with room for an entry of `wanted` bytes. With the lock."""
    cdef WalBuffer *buffer = wal.pool
    cdef int64_t capacity = WAL_FRAME_BYTES
    if wanted + <int64_t>sizeof(WalFrameHeader) > capacity:
        capacity = blocks(wanted + <int64_t>sizeof(WalFrameHeader))
    elif buffer != NULL:
        wal.pool = buffer.next
        wal.pool_count -= 1
        buffer.next = NULL
        return buffer
    buffer = <WalBuffer *>calloc(1, sizeof(WalBuffer))
    if buffer == NULL:
        return NULL
    if posix_memalign(<void **>&buffer.data, WAL_BLOCK, <size_t>capacity) != 0:
        free(buffer)
        return NULL
    buffer.capacity = capacity
    return buffer


cdef void buffer_give_back(Wal *wal, WalBuffer *buffer) noexcept nogil:
    if buffer.capacity == WAL_FRAME_BYTES and wal.pool_count < POOL_MAX:
        buffer.next = wal.pool
        wal.pool = buffer
        wal.pool_count += 1
    else:
        free(buffer.data)
        free(buffer)


cdef void seal(Wal *wal) noexcept nogil:
    """The open frame takes no more entries."""
    cdef WalBuffer *buffer = wal.open
    wal.open = NULL
    buffer.next = NULL
    if wal.sealed == NULL:
        wal.sealed = buffer
    else:
        wal.sealed_tail.next = buffer
    wal.sealed_tail = buffer


cdef bint open_frame(Wal *wal, int64_t wanted) noexcept nogil:
    """Sees to it that the open frame has room for `wanted` bytes more."""
    cdef WalBuffer *buffer = wal.open
    if buffer != NULL and buffer.size_bytes + wanted > buffer.capacity:
        seal(wal)
        buffer = NULL
    if buffer == NULL:
        buffer = buffer_take(wal, wanted)
        if buffer == NULL:
            return False
        wal.last_frame += 1
        buffer.frame = wal.last_frame
        buffer.size_bytes = sizeof(WalFrameHeader)
        buffer.entries = 0
        wal.open = buffer
    return True


cdef int64_t wal_stage(Wal *wal, const uint8_t *topic_id, int32_t partition, int32_t kind, int64_t offset,
                       const uint8_t **parts, const int64_t *sizes, int32_t n) noexcept nogil:
    cdef int64_t size_bytes = 0, padded, frame
    cdef WalEntryHeader *entry
    cdef uint8_t *at
    cdef int32_t i
    for i in range(n):
        size_bytes += sizes[i]
    padded = (size_bytes + 7) & ~<int64_t>7
    pthread_mutex_lock(&wal.lock)
    if not open_frame(wal, <int64_t>sizeof(WalEntryHeader) + padded):
        pthread_mutex_unlock(&wal.lock)
        return -1
    entry = <WalEntryHeader *>(wal.open.data + wal.open.size_bytes)
    memset(entry, 0, sizeof(WalEntryHeader))
    memcpy(entry.topic_id, topic_id, 16)
    entry.partition = partition
    entry.kind = kind
    entry.offset = offset
    entry.size_bytes = size_bytes
    at = <uint8_t *>(entry + 1)
    for i in range(n):
        memcpy(at, parts[i], <size_t>sizes[i])
        at += sizes[i]
    memset(at, 0, <size_t>(padded - size_bytes))
    wal.open.size_bytes += <int64_t>sizeof(WalEntryHeader) + padded
    wal.open.entries += 1
    frame = wal.open.frame
    store_i64(&wal.staged_frame, frame)
    store_i64(&wal.staged_bytes, wal.staged_bytes + size_bytes)
    pthread_mutex_unlock(&wal.lock)
    return frame


cdef void wal_kick(Wal *wal) noexcept nogil:
    cdef bint sleeps
    pthread_mutex_lock(&wal.lock)
    sleeps = wal.idle
    wal.idle = False
    pthread_mutex_unlock(&wal.lock)
    if sleeps:
        pthread_cond_signal(&wal.work)


cdef void wal_admit(Wal *wal) noexcept nogil:
    if load_i64(&wal.staged_bytes) <= wal.staged_max_bytes:
        return
    pthread_mutex_lock(&wal.lock)
    if wal.idle:
        wal.idle = False
        pthread_cond_signal(&wal.work)
    while wal.staged_bytes > wal.staged_max_bytes and not wal.failed and not wal.stopping:
        pthread_cond_wait(&wal.room, &wal.lock)
    pthread_mutex_unlock(&wal.lock)

# ---------------------------------------------------------------- waking


cdef void wake(Wal *wal, int who) noexcept nogil:
    cdef uint64_t one = 1
    if wal.wake_fds[who] >= 0:
        write(wal.wake_fds[who], &one, 8)


cdef void wake_waiting(Wal *wal) noexcept nogil:
    cdef int i
    full_fence()                                         # durable_frame first, then a look for who waits
    for i in range(WAL_WAKES):
        if load_i32(&wal.waiting[i]) and take_flag(&wal.waiting[i]):
            wake(wal, i)


cdef void fail(Wal *wal, int error) noexcept nogil:
    pthread_mutex_lock(&wal.lock)
    store_i32(&wal.failed, -error)
    pthread_cond_broadcast(&wal.room)
    pthread_mutex_unlock(&wal.lock)
    wake_waiting(wal)
    wake(wal, WAL_CONTROL)

# ---------------------------------------------------------------- segments


cdef void segment_push(WalSegment **head, WalSegment **tail, WalSegment *segment) noexcept nogil:
    segment.next = NULL
    if head[0] == NULL:
        head[0] = segment
    else:
        tail[0].next = segment
    tail[0] = segment


cdef void want_segment(Wal *wal) noexcept nogil:
    store_i32(&wal.wants_segment, 1)
    wake(wal, WAL_SUPPLY)


cdef bint next_segment(Wal *wal, bint wait) noexcept nogil:
    """Goes on in a free segment; waits for one, the supply thread being told. With the lock, which may be held
    through one small write: nothing else can be committed meanwhile anyway."""
    cdef WalSegment *segment
    if wal.free == NULL:
        wal.waited_for_segment += 1
    while wal.free == NULL:
        want_segment(wal)
        if not wait or wal.stopping or wal.failed:
            return False
        pthread_cond_wait(&wal.work, &wal.lock)
    segment = wal.free
    wal.free = segment.next
    if wal.current != NULL:
        if segment.used and write_trailer(wal.current.fd, wal.segment_bytes, wal.run, wal.checkpoint_frame) != 0:
            segment.next = wal.free
            wal.free = segment
            return False
        segment_push(&wal.full, &wal.full_tail, wal.current)
    segment.used = True
    wal.current = segment
    segment.last_frame = 0
    wal.position = 0
    if wal.free == NULL:                                 # so that one is ready when this is full
        want_segment(wal)
    return True

# ---------------------------------------------------------------- group commit


cdef void finish_frame(Wal *wal, WalBuffer *buffer, int64_t checkpoint, int64_t durable) noexcept nogil:
    cdef WalFrameHeader *header = <WalFrameHeader *>buffer.data
    cdef int64_t frame_bytes = blocks(buffer.size_bytes)
    memset(header, 0, sizeof(WalFrameHeader))
    header.magic = WAL_MAGIC
    header.payload_bytes = <unsigned int>(buffer.size_bytes - <int64_t>sizeof(WalFrameHeader))
    header.frame_bytes = <unsigned int>frame_bytes
    header.run = wal.run
    header.frame = buffer.frame
    header.checkpoint = checkpoint
    header.durable = durable
    header.entries = buffer.entries
    header.crc = crc32c_update(0, buffer.data + CRC_FROM, buffer.size_bytes - CRC_FROM)
    memset(buffer.data + buffer.size_bytes, 0, <size_t>(frame_bytes - buffer.size_bytes))


cdef int32_t take_group(Wal *wal, WalBuffer **group) noexcept nogil:
    """What is to be written next: full frames, and the open one when they are few. With the lock."""
    cdef int32_t n = 0
    while n < WAL_DEPTH:
        if wal.sealed == NULL and wal.open != NULL:
            seal(wal)
        if wal.sealed == NULL:
            break
        group[n] = wal.sealed
        wal.sealed = wal.sealed.next
        n += 1
    return n


cdef bint place(Wal *wal, WalBuffer *buffer, int64_t size_bytes, int *fd, int64_t *position, bint wait) noexcept nogil:
    """Where a frame goes. With the lock."""
    if wal.current == NULL or wal.position + size_bytes > wal.segment_bytes - WAL_BLOCK:
        if not next_segment(wal, wait):
            return False
    fd[0] = wal.current.fd
    position[0] = wal.position
    wal.position += size_bytes
    wal.current.last_frame = buffer.frame
    return True


cdef int commit_group(Wal *wal, WalBuffer **group, int32_t n, bint wait) noexcept nogil:
    cdef int[4] fds
    cdef int64_t[4] sizes
    cdef int64_t[4] positions
    cdef int64_t staged = 0, checkpoint, last = group[n - 1].frame
    cdef int32_t i, placed = 0
    cdef int error = 0
    pthread_mutex_lock(&wal.lock)
    checkpoint = wal.checkpoint_frame
    for i in range(n):
        sizes[i] = blocks(group[i].size_bytes)
        if not place(wal, group[i], sizes[i], &fds[i], &positions[i], wait):
            error = -ESHUTDOWN
            break
    pthread_mutex_unlock(&wal.lock)
    if error == 0:
        for i in range(n):
            finish_frame(wal, group[i], checkpoint, load_i64(&wal.durable_frame))
        error = device_write(&wal.device, n, fds, group, sizes, positions)
    pthread_mutex_lock(&wal.lock)
    for i in range(n):
        staged += group[i].size_bytes - <int64_t>sizeof(WalFrameHeader) - group[i].entries * <int64_t>sizeof(WalEntryHeader)
        bump_i64(&wal.written_bytes, sizes[i] if error == 0 else 0)
        buffer_give_back(wal, group[i])
    if error == 0:
        bump_i64(&wal.frames, n)
        bump_i64(&wal.payload_bytes, staged)
        store_i64(&wal.durable_frame, last)
    if wal.sealed == NULL and wal.open == NULL:
        store_i64(&wal.staged_bytes, 0)
    else:
        staged = wal.staged_bytes - staged
        store_i64(&wal.staged_bytes, staged if staged > 0 else 0)
    pthread_cond_broadcast(&wal.room)
    pthread_mutex_unlock(&wal.lock)
    return error


cdef int commit_once(Wal *wal, bint wait) noexcept nogil:
    """One group commit: 1 when something became durable, 0 when there was nothing, or a negated errno."""
    cdef WalBuffer *group[4]
    cdef int32_t n
    cdef int error
    if load_i32(&wal.failed):
        return -load_i32(&wal.failed)
    pthread_mutex_lock(&wal.lock)
    n = take_group(wal, group)
    pthread_mutex_unlock(&wal.lock)
    if n == 0:
        return 0
    error = commit_group(wal, group, n, wait)
    if error != 0:
        fail(wal, error)
        return error
    wake_waiting(wal)
    return 1


cdef void *wal_run(void *argument) noexcept nogil:
    cdef Wal *wal = <Wal *>argument
    cdef bint over = False
    ask_short_slice()
    while not over:
        if commit_once(wal, True) == 1:
            continue
        pthread_mutex_lock(&wal.lock)
        while wal.sealed == NULL and wal.open == NULL or wal.failed:
            if wal.stopping:
                over = True
                break
            wal.idle = True
            pthread_cond_wait(&wal.work, &wal.lock)
        wal.idle = False
        pthread_mutex_unlock(&wal.lock)
    return NULL

# ---------------------------------------------------------------- life


cdef void free_buffers(WalBuffer *buffer) noexcept nogil:
    cdef WalBuffer *following
    while buffer != NULL:
        following = buffer.next
        free(buffer.data)
        free(buffer)
        buffer = following


cdef void free_segments(WalSegment *segment) noexcept nogil:
    cdef WalSegment *following
    while segment != NULL:
        following = segment.next
        segment_close(segment)
        segment = following


cdef Wal *wal_new(const char *directory, int64_t segment_bytes, int64_t staged_max_bytes) noexcept nogil:
    cdef Wal *wal = <Wal *>calloc(1, sizeof(Wal))
    cdef int i
    if wal == NULL:
        return NULL
    wal.directory = strdup(directory)
    if wal.directory == NULL:
        free(wal)
        return NULL
    wal.segment_bytes = segment_bytes
    wal.staged_max_bytes = staged_max_bytes
    wal.device.direct = True
    for i in range(WAL_WAKES):
        wal.wake_fds[i] = -1
    pthread_mutex_init(&wal.lock, NULL)
    pthread_cond_init(&wal.work, NULL)
    pthread_cond_init(&wal.room, NULL)
    return wal


cdef void wal_free(Wal *wal) noexcept nogil:
    free_buffers(wal.open)
    free_buffers(wal.sealed)
    free_buffers(wal.pool)
    free_segments(wal.free)
    free_segments(wal.full)
    if wal.current != NULL:
        segment_close(wal.current)
    device_close(&wal.device)
    pthread_mutex_destroy(&wal.lock)
    pthread_cond_destroy(&wal.work)
    pthread_cond_destroy(&wal.room)
    free(wal.directory)
    free(wal)
