"""Staging and group commit, see group_commit.pxd and types.pxd.

Four kinds of threads run this code: those that append (wal_stage), reactors that lead a commit (wal_begin, wal_ended), the
write-ahead log's own thread (wal_run), and its supply thread (segment_push, wal_spare).

Contents: staging · waking · segments · group commit · commits that reactors lead · life.
"""
from libc.errno cimport ESHUTDOWN
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset, strdup
from posix.stdlib cimport posix_memalign
from posix.unistd cimport write
from bowstring._native.base.atomics cimport bump_i64, full_fence, load_i32, load_i64, store_i32, store_i64
from bowstring._native.base.crc cimport crc32c_update
from bowstring._native.base.pthread cimport (
    pthread_cond_destroy, pthread_cond_init, pthread_cond_signal, pthread_cond_wait, pthread_mutex_destroy,
    pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock)
from bowstring._native.base.threads cimport ask_short_slice
from bowstring._native.wal.segment_files cimport (
    device_close, device_complete, device_finish, device_has_room, device_reap, device_start, device_write,
    segment_close, segment_drop, write_trailer)
from bowstring._native.wal.types cimport (
    WAL_BLOCK, WAL_CONTROL, WAL_DEPTH, WAL_ENDED, WAL_FRAME_BYTES, WAL_GROUPS, WAL_LEADS, WAL_MAGIC, WAL_PART, WAL_SUPPLY,
    WAL_UNFINISHED, WAL_WAKES, WAL_WRITING, WalBuffer, WalEntryHeader, WalFrameHeader, WalGroup)

cdef enum:
    POOL_MAX = 12                   # buffers kept for reuse: allocating fresh pages is slow
    SEGMENTS_LEAST = 2              # one to write to, and one that a checkpoint frees at the same time
    CRC_FROM = 8                    # in a frame's header
    LED_MAX_BYTES = 64 << 10       # a reactor leaves larger groups to the thread, which works beside it
    GROUPS_LED = 2                  # groups on their way at which a reactor waits and gathers

# ---------------------------------------------------------------- staging


cdef int64_t blocks(int64_t size_bytes) noexcept nogil:
    return (size_bytes + WAL_BLOCK - 1) // WAL_BLOCK * WAL_BLOCK


cdef int64_t wal_entry_max_bytes(const Wal *wal) noexcept nogil:
    return (wal.frame_bytes - <int64_t>sizeof(WalFrameHeader) - <int64_t>sizeof(WalEntryHeader)) & ~<int64_t>7


cdef WalBuffer *buffer_take(Wal *wal) noexcept nogil:
    """Returns an empty frame. Call it under the lock."""
    cdef WalBuffer *buffer = wal.pool
    if buffer != NULL:
        wal.pool = buffer.next
        wal.pool_count -= 1
        buffer.next = NULL
        return buffer
    buffer = <WalBuffer *>calloc(1, sizeof(WalBuffer))
    if buffer == NULL:
        return NULL
    if posix_memalign(<void **>&buffer.data, WAL_BLOCK, <size_t>wal.frame_bytes) != 0:
        free(buffer)
        return NULL
    return buffer


cdef void buffer_give_back(Wal *wal, WalBuffer *buffer) noexcept nogil:
    if wal.pool_count < POOL_MAX:
        buffer.next = wal.pool
        wal.pool = buffer
        wal.pool_count += 1
    else:
        free(buffer.data)
        free(buffer)


cdef void seal(Wal *wal) noexcept nogil:
    """Closes the open frame: it accepts no more entries."""
    cdef WalBuffer *buffer = wal.open
    wal.open = NULL
    buffer.next = NULL
    if wal.sealed == NULL:
        wal.sealed = buffer
    else:
        wal.sealed_tail.next = buffer
    wal.sealed_tail = buffer


cdef bint open_frame(Wal *wal, int64_t wanted) noexcept nogil:
    """Ensures that the open frame has room for `wanted` more bytes. False when memory ran out."""
    cdef WalBuffer *buffer = wal.open
    if buffer != NULL and buffer.size_bytes + wanted > wal.frame_bytes:
        seal(wal)
        buffer = NULL
    if buffer == NULL:
        buffer = buffer_take(wal)
        if buffer == NULL:
            return False
        wal.last_frame += 1
        buffer.frame = wal.last_frame
        buffer.size_bytes = sizeof(WalFrameHeader)
        buffer.payload_bytes = 0
        buffer.entries = 0
        wal.open = buffer
    return True


cdef int64_t stage(Wal *wal, const uint8_t *topic_id, int32_t partition, int32_t moves, int32_t kind, int64_t offset,
                   int64_t part_position, const uint8_t **parts, const int64_t *sizes, int32_t n) noexcept nogil:
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
    entry.moves = <uint16_t>moves
    entry.kind = <int16_t>kind
    entry.offset = offset
    entry.size_bytes = size_bytes
    entry.part_position = part_position
    at = <uint8_t *>(entry + 1)
    for i in range(n):
        memcpy(at, parts[i], <size_t>sizes[i])
        at += sizes[i]
    memset(at, 0, <size_t>(padded - size_bytes))
    wal.open.size_bytes += <int64_t>sizeof(WalEntryHeader) + padded
    wal.open.payload_bytes += size_bytes
    wal.open.entries += 1
    frame = wal.open.frame
    store_i64(&wal.staged_frame, frame)
    store_i64(&wal.staged_bytes, wal.staged_bytes + size_bytes)
    pthread_mutex_unlock(&wal.lock)
    return frame


cdef int64_t wal_stage(Wal *wal, const uint8_t *topic_id, int32_t partition, int32_t moves, int32_t kind, int64_t offset,
                       const uint8_t **parts, const int64_t *sizes, int32_t n) noexcept nogil:
    return stage(wal, topic_id, partition, moves, kind, offset, 0, parts, sizes, n)


cdef int64_t wal_stage_parts(Wal *wal, const uint8_t *topic_id, int32_t partition, int32_t moves, int64_t offset,
                             const uint8_t *batch, int64_t size_bytes) noexcept nogil:
    cdef int64_t at = 0, frame = -1, bytes
    cdef int64_t part_bytes = wal_entry_max_bytes(wal)
    cdef const uint8_t *part
    while at < size_bytes:
        part = batch + at
        bytes = size_bytes - at if size_bytes - at < part_bytes else part_bytes
        frame = stage(wal, topic_id, partition, moves, WAL_PART, offset, at, &part, &bytes, 1)
        if frame < 0:
            return -1
        at += bytes
    return frame


cdef void wal_kick(Wal *wal) noexcept nogil:
    cdef bint sleeps = False
    pthread_mutex_lock(&wal.lock)
    if wal.groups_under_way == 0:                        # else who writes now goes on with what is staged
        sleeps = ask_thread(wal)
    pthread_mutex_unlock(&wal.lock)
    if sleeps:
        pthread_cond_signal(&wal.work)


cdef bint ask_thread(Wal *wal) noexcept nogil:
    """Hands what is staged to the thread. Call it under the lock. Returns whether the caller must signal `work` after it."""
    cdef bint sleeps = wal.idle
    wal.asked = True
    wal.idle = False
    return sleeps


cdef bint wal_full(const Wal *wal) noexcept nogil:
    return load_i64(&wal.staged_bytes) > wal.staged_max_bytes and not load_i32(&wal.failed)

# ---------------------------------------------------------------- waking


cdef void wake(Wal *wal, int who) noexcept nogil:
    cdef uint64_t one = 1
    if wal.wake_fds[who] >= 0:
        write(wal.wake_fds[who], &one, 8)


cdef bint wake_waiting(Wal *wal) noexcept nogil:
    """Returns whether one of those that were woken begins the next write."""
    cdef int i
    cdef int32_t waits
    cdef bint leads = False
    full_fence()                                         # stores durable_frame before it loads the waiters; waiters do the reverse, so no wake-up is lost
    for i in range(WAL_WAKES):
        waits = take_flag(&wal.waiting[i]) if load_i32(&wal.waiting[i]) else 0
        if waits:
            leads = leads or waits == WAL_LEADS
            wake(wal, i)
    return leads

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


cdef int tell_checkpoint(Wal *wal) noexcept nogil:
    """Writes to the current segment's trailer which frames are no longer needed. 0 or a negated errno."""
    cdef int64_t checkpoint
    cdef int fd
    cdef int error
    pthread_mutex_lock(&wal.trailer_lock)
    pthread_mutex_lock(&wal.lock)
    checkpoint = wal.checkpoint_frame
    fd = wal.current.fd
    pthread_mutex_unlock(&wal.lock)
    error = write_trailer(fd, wal.segment_bytes, wal.run, checkpoint)
    pthread_mutex_unlock(&wal.trailer_lock)
    return error


cdef int next_segment(Wal *wal, bint wait) noexcept nogil:
    """Continues in a free segment. If there is none, wakes the supply thread and waits. Call it under the lock, which it
    releases while it waits. Returns 0 or a negated errno; ESHUTDOWN: no segment, and `wait` is False."""
    cdef WalSegment *segment
    cdef WalGroup *unfinished
    cdef int error = 0
    if wal.free == NULL:
        wal.waited_for_segment += 1
    while wal.free == NULL:
        if wal.full == NULL or wal.full.last_frame > wal.checkpoint_frame:
            want_segment(wal)                            # else the group on its way there frees it when it ends
        if not wait or wal.stopping or wal.failed:
            return -ESHUTDOWN
        unfinished = unfinished_group(wal)               # the only segment to be freed may wait for it
        if unfinished == NULL:
            pthread_cond_wait(&wal.work, &wal.lock)
            continue
        pthread_mutex_unlock(&wal.lock)
        finish_group(wal, unfinished)
        pthread_mutex_lock(&wal.lock)
    segment = wal.free
    wal.free = segment.next
    if wal.current != NULL:
        if segment.used:
            pthread_mutex_unlock(&wal.lock)
            error = tell_checkpoint(wal)
            pthread_mutex_lock(&wal.lock)
        if error != 0:
            segment_push(&wal.free, &wal.free_tail, segment)
            return error
        segment_push(&wal.full, &wal.full_tail, wal.current)
    segment.used = True
    wal.current = segment
    segment.last_frame = 0
    wal.position = 0
    if wal.free == NULL:                                 # so that the next one is ready when this one is full
        want_segment(wal)
    return 0


cdef void free_covered(Wal *wal) noexcept nogil:
    cdef WalSegment *segment
    cdef int64_t frame = min(wal.checkpoint_frame, wal.durable_frame)
    while wal.full != NULL and wal.full.last_frame <= frame:
        segment = wal.full
        wal.full = segment.next
        segment_push(&wal.free, &wal.free_tail, segment)


cdef int32_t wal_spare(Wal *wal) noexcept nogil:
    cdef WalSegment *dropped = NULL
    cdef WalSegment *segment
    cdef int32_t n = 0
    cdef bint current
    cdef int error = 0
    pthread_mutex_lock(&wal.lock)
    while wal.free != NULL and wal.segments > SEGMENTS_LEAST:
        segment = wal.free
        wal.free = segment.next
        segment.next = dropped
        dropped = segment
        wal.segments -= 1
        n += 1
    current = wal.current != NULL
    pthread_mutex_unlock(&wal.lock)
    # First record on the medium that their frames are no longer needed, as before overwriting them.
    if n > 0 and current:
        error = tell_checkpoint(wal)
    while dropped != NULL:
        segment = dropped
        dropped = segment.next
        if error == 0:
            segment_drop(wal, segment)
            continue
        pthread_mutex_lock(&wal.lock)
        segment_push(&wal.free, &wal.free_tail, segment)
        wal.segments += 1
        pthread_mutex_unlock(&wal.lock)
    return n if error == 0 else 0

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


cdef bint nothing_staged(const Wal *wal) noexcept nogil:
    return wal.sealed == NULL and wal.open == NULL


cdef bint group_is_free(const Wal *wal) noexcept nogil:
    """Whether another group may be taken. Call it under the lock."""
    return not wal.taking and not wal.failed and wal.groups_under_way < WAL_GROUPS


cdef bint much_gathered(const Wal *wal) noexcept nogil:
    """Call it under the lock."""
    return wal.sealed != NULL or (wal.open != NULL and wal.open.size_bytes > LED_MAX_BYTES)


cdef int take_group(Wal *wal, bint may_block, bint wait, WalGroup **taken) noexcept nogil:
    """Collects the frames to write next and their places: full frames, and the open one when they are few. Call it under
    the lock while a group is free. Without `may_block` it stops at the end of the segment; with it, it may release the
    lock, and with `wait` it waits for a segment. *taken is NULL if it has collected nothing. Returns 0 or a negated errno."""
    cdef WalGroup *group = &wal.groups[(wal.oldest_group + wal.groups_under_way) & (WAL_GROUPS - 1)]
    cdef WalBuffer *buffer
    cdef int64_t size_bytes
    cdef int error = 0
    group.wal = wal
    group.count = 0
    group.error = 0
    group.state = WAL_WRITING
    while group.count < WAL_DEPTH:
        if wal.sealed == NULL and wal.open != NULL:
            seal(wal)
        buffer = wal.sealed
        if buffer == NULL:
            break
        size_bytes = blocks(buffer.size_bytes)
        if wal.current == NULL or wal.position + size_bytes > wal.segment_bytes - WAL_BLOCK:
            if not may_block:
                break
            wal.taking = True
            error = next_segment(wal, wait)
            wal.taking = False
            if error != 0:
                break
        wal.sealed = buffer.next
        group.frames[group.count] = buffer
        group.fds[group.count] = wal.current.fd
        group.sizes[group.count] = size_bytes
        group.positions[group.count] = wal.position
        group.count += 1
        wal.position += size_bytes
        wal.current.last_frame = buffer.frame
    taken[0] = group if group.count > 0 or error != 0 else NULL
    if taken[0] != NULL:
        store_i32(&wal.groups_under_way, wal.groups_under_way + 1)
    return error


cdef void finish_frames(WalGroup *group, int64_t checkpoint) noexcept nogil:
    cdef int32_t i
    for i in range(group.count):
        finish_frame(group.wal, group.frames[i], checkpoint, load_i64(&group.wal.durable_frame))


cdef void release_group(Wal *wal, const WalGroup *group) noexcept nogil:
    """Gives the frames of the oldest group back. Call it under the lock. Its batches are durable from here on, unless the log
    has failed."""
    cdef WalBuffer *buffer
    cdef int64_t staged = 0, last = 0
    cdef int32_t i
    for i in range(group.count):
        buffer = group.frames[i]
        last = buffer.frame
        staged += buffer.payload_bytes
        bump_i64(&wal.written_bytes, group.sizes[i] if not wal.failed else 0)
        buffer_give_back(wal, buffer)
    if not wal.failed and group.count > 0:
        bump_i64(&wal.frames, group.count)
        bump_i64(&wal.payload_bytes, staged)
        store_i64(&wal.durable_frame, last)
    store_i64(&wal.staged_bytes, wal.staged_bytes - staged)


cdef void end_group(Wal *wal, WalGroup *group, int error) noexcept nogil:
    """A group has ended. Older ones may still be on their way: then it waits for them."""
    pthread_mutex_lock(&wal.lock)
    if error != 0 and not wal.failed:
        store_i32(&wal.failed, -error)
    group.state = WAL_ENDED
    while wal.groups_under_way > 0 and wal.groups[wal.oldest_group].state == WAL_ENDED:
        release_group(wal, &wal.groups[wal.oldest_group])
        wal.oldest_group = (wal.oldest_group + 1) & (WAL_GROUPS - 1)
        store_i32(&wal.groups_under_way, wal.groups_under_way - 1)
    free_covered(wal)
    if wal.stopping or wal.asked or wal.taking:
        pthread_cond_signal(&wal.work)
    pthread_mutex_unlock(&wal.lock)
    if error != 0:
        wake_waiting(wal)
        wake(wal, WAL_CONTROL)


cdef int commit_once(Wal *wal, bint wait) noexcept nogil:
    """Runs one group commit; see the .pxd."""
    cdef WalGroup *group = NULL
    cdef int64_t checkpoint = 0
    cdef int error
    if load_i32(&wal.failed):
        return -load_i32(&wal.failed)
    pthread_mutex_lock(&wal.lock)
    if nothing_staged(wal) or not group_is_free(wal):
        pthread_mutex_unlock(&wal.lock)
        return 0
    error = take_group(wal, True, wait, &group)
    checkpoint = wal.checkpoint_frame
    pthread_mutex_unlock(&wal.lock)
    if group == NULL:
        return 0
    if error == 0:
        finish_frames(group, checkpoint)
        error = device_write(&wal.device, group)
    end_group(wal, group, error)
    if error != 0:
        return error
    return 2 if wake_waiting(wal) else 1


cdef WalGroup *unfinished_group(Wal *wal) noexcept nogil:
    """Returns a group that the thread shall finish, and makes it the thread's. Call it under the lock."""
    cdef WalGroup *group
    cdef int32_t i
    for i in range(wal.groups_under_way):
        group = &wal.groups[(wal.oldest_group + i) & (WAL_GROUPS - 1)]
        if group.state == WAL_UNFINISHED:
            group.state = WAL_WRITING
            return group
    return NULL


cdef bint finish_group(Wal *wal, WalGroup *group) noexcept nogil:
    """On the thread. Returns whether it has woken a reactor that begins the next write."""
    end_group(wal, group, device_finish(group))
    return wake_waiting(wal)


cdef void *wal_run(void *argument) noexcept nogil:
    """Writes groups on request. After a group it goes on with what was staged meanwhile, unless it has woken a reactor that
    does: those leave only large groups to it."""
    cdef Wal *wal = <Wal *>argument
    cdef WalGroup *unfinished
    cdef bint led, goes_on = True
    ask_short_slice()
    while True:
        pthread_mutex_lock(&wal.lock)
        wal.asked = (wal.asked or goes_on) and not nothing_staged(wal)
        unfinished = unfinished_group(wal)
        while unfinished == NULL and (nothing_staged(wal) or not group_is_free(wal)
                                      or not (wal.asked or wal.stopping)):
            if wal.stopping and wal.groups_under_way == 0:
                pthread_mutex_unlock(&wal.lock)
                return NULL
            wal.idle = True
            pthread_cond_wait(&wal.work, &wal.lock)
            unfinished = unfinished_group(wal)
        wal.idle = wal.asked = False
        pthread_mutex_unlock(&wal.lock)
        if unfinished != NULL:
            led = finish_group(wal, unfinished)
        else:
            led = commit_once(wal, True) != 1
        goes_on = not led
        if led:
            pthread_mutex_lock(&wal.lock)
            goes_on = much_gathered(wal)
            pthread_mutex_unlock(&wal.lock)

# ---------------------------------------------------------------- commits that reactors lead


cdef void wal_begin(Wal *wal, void *ring) noexcept nogil:
    cdef WalGroup *group = NULL
    cdef int64_t checkpoint
    cdef bint sleeps = False
    cdef int error
    if load_i32(&wal.groups_under_way) >= GROUPS_LED or load_i64(&wal.staged_frame) == load_i64(&wal.durable_frame):
        return                                           # whoever writes now sees to the rest
    pthread_mutex_lock(&wal.lock)
    if not nothing_staged(wal) and group_is_free(wal) and wal.groups_under_way < GROUPS_LED:
        if device_has_room(ring) and not much_gathered(wal):
            take_group(wal, False, False, &group)
        if group == NULL:                                # it is large, or the next segment may have to be waited for
            sleeps = ask_thread(wal)
    checkpoint = wal.checkpoint_frame
    pthread_mutex_unlock(&wal.lock)
    if sleeps:
        pthread_cond_signal(&wal.work)
    if group == NULL:
        return
    finish_frames(group, checkpoint)
    error = device_start(ring, group)
    if error != 0:
        group.count = 0                                  # the kernel may still read these frames: they are never used again
        end_group(wal, group, error)


cdef bint wal_ended(void *ring, int32_t reactor, bint wait) noexcept nogil:
    cdef WalGroup *group = device_reap(ring, wait)
    cdef Wal *wal
    if group == NULL:
        return False
    wal = group.wal
    if group.error == 0 and not device_complete(group):
        pthread_mutex_lock(&wal.lock)
        group.state = WAL_UNFINISHED
        pthread_mutex_unlock(&wal.lock)
        pthread_cond_signal(&wal.work)                   # it sleeps, waits for a segment, or looks before it sleeps
    else:
        end_group(wal, group, group.error)
        store_i32(&wal.waiting[reactor], 0)              # it is awake
        wake_waiting(wal)
    return True

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
    wal.frame_bytes = segment_bytes // 4 // WAL_BLOCK * WAL_BLOCK
    if wal.frame_bytes > WAL_FRAME_BYTES:
        wal.frame_bytes = WAL_FRAME_BYTES
    wal.staged_max_bytes = staged_max_bytes
    wal.device.direct = True
    for i in range(WAL_WAKES):
        wal.wake_fds[i] = -1
    pthread_mutex_init(&wal.lock, NULL)
    pthread_mutex_init(&wal.trailer_lock, NULL)
    pthread_cond_init(&wal.work, NULL)
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
    pthread_mutex_destroy(&wal.trailer_lock)
    pthread_cond_destroy(&wal.work)
    free(wal.directory)
    free(wal)
