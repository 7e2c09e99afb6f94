"""Fetches of what is not in memory, see fetch_cold.pxd."""
from libc.errno cimport ESTALE
from libc.stdint cimport int32_t, int64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport strerror
from bowstring._native.atomics cimport (
    add_i32, add_i64, full_fence, load_i32, load_i64, store_i32, store_i64)
from bowstring._native.clock cimport monotonic_ms
from bowstring._native.control cimport plane_event
from bowstring._native.idtable cimport id_add
from bowstring._native.log_cold cimport ColdRead, CorruptFound, cold_read, cold_read_of
from bowstring._native.mailbox cimport post
from bowstring._native.partition cimport partition_release, partition_retain
from bowstring._native.plane cimport ColdJob, KAFKA_STORAGE_ERROR, MAIL_WAKE_FETCH, Partition, Plane
from bowstring._native.storage cimport StorageJob, StoragePool, storage_submit

cdef enum:
    READ_MIN_BYTES = 1 << 20
    READ_MAX_BYTES = 4 << 20
    READ_AHEAD_BYTES = 4 << 20
    FAILURE_TOLD_MS = 10000         # a reader asks again and again: one event says it for all

# ---------------------------------------------------------------- on a storage thread


cdef void tell_corrupt(void *context, const CorruptFound *found) noexcept nogil:
    cdef ColdJob *job = <ColdJob *>context
    cdef char[512] text
    add_i64(&job.reactor.plane.storage.corrupt_ranges, 1)
    snprintf(text, sizeof(text),
             b"%s/%020lld.log: %lld bytes at position %lld are not served: %s. Consumers can go on at offset %lld; "
             b"put the file back from a copy while the broker is stopped, or let retention delete it",
             found.directory, <long long>found.segment_base_offset, <long long>found.size_bytes,
             <long long>found.position, found.why, <long long>found.next_offset)
    plane_event(job.reactor.plane, 2, b"corrupt-batch", text)


cdef void tell_failure(ColdJob *job, int error) noexcept nogil:
    cdef StoragePool *pool = &job.reactor.plane.storage
    cdef char[512] text
    cdef int64_t now_ms = monotonic_ms()
    add_i64(&pool.failed_reads, 1)
    if load_i64(&pool.failure_told_ms) != 0 and now_ms - load_i64(&pool.failure_told_ms) < FAILURE_TOLD_MS:
        return
    store_i64(&pool.failure_told_ms, now_ms)
    snprintf(text, sizeof(text), b"%s-%d: its log could not be read (%s); look at the disk it is on",
             job.topic, job.partition.index, strerror(-error))
    plane_event(job.reactor.plane, 2, b"read-failed", text)


cdef void read_piece(ColdJob *job, int piece, bint dropped) noexcept nogil:
    cdef StoragePool *pool = &job.reactor.plane.storage
    cdef ColdRead *read = &job.reads[piece]
    job.errors[piece] = -ESTALE
    if dropped or load_i32(&job.partition.deleted) or read.size_bytes <= 0:
        return
    read.report = tell_corrupt
    read.context = job
    job.errors[piece] = cold_read(job.log, read)
    if job.errors[piece] == 0:
        add_i64(&pool.reads, 1)
        add_i64(&pool.read_bytes, read.read_bytes)
    elif job.errors[piece] != -ESTALE:
        tell_failure(job, job.errors[piece])


cdef void publish(ColdJob *job, int32_t pieces) noexcept nogil:
    """Then looks for who waits; a reader says that it waits and then looks at the pieces: one of the two sees it."""
    cdef int64_t fetch_id
    store_i32(&job.pieces, pieces)
    full_fence()
    fetch_id = load_i64(&job.fetch_id)
    if fetch_id > 0:
        post(&job.reactor.mailbox, MAIL_WAKE_FETCH, fetch_id, 0, NULL)


cdef void run(StorageJob *base, bint dropped) noexcept nogil:
    cdef ColdJob *job = <ColdJob *>base
    cdef Partition *p = job.partition
    read_piece(job, 0, dropped)
    publish(job, 1)
    if job.errors[0] == 0 and job.ahead and job.reads[0].warm.end < job.reads[0].segment_size_bytes:
        job.reads[1].offset = -1
        job.reads[1].segment_base_offset = job.reads[0].segment_base_offset
        job.reads[1].position = job.reads[0].warm.end
        job.reads[1].size_bytes = READ_AHEAD_BYTES
    read_piece(job, 1, dropped)
    publish(job, 2)
    job_release(job)
    partition_release(p)


cdef void job_release(ColdJob *job) noexcept nogil:
    if add_i32(&job.refs, -1) == 0:
        free(job)

# ---------------------------------------------------------------- on the reactor


cdef ColdJob *job_new(Reactor *r, FetchPart *part) noexcept nogil:
    cdef ColdJob *job = <ColdJob *>calloc(1, sizeof(ColdJob))
    if job == NULL:
        return NULL
    job.base.run = run
    job.refs = 2                                         # the part's and the storage thread's
    job.reactor = r
    job.partition = part.partition
    job.log = part.partition.log
    snprintf(job.topic, sizeof(job.topic), b"%s", part.partition.topic.name)
    return job


cdef bint submit(Reactor *r, FetchPart *part, ColdJob *job) noexcept nogil:
    partition_retain(job.partition)
    if not storage_submit(&r.plane.storage, &job.base):
        partition_release(job.partition)
        free(job)
        return False
    part.cold = job
    return True


cdef void take_piece(FetchPart *part, ColdJob *job, int piece) noexcept nogil:
    """The range joins what was brought before it, or takes its place."""
    cdef ColdRead *read = &job.reads[piece]
    cdef int64_t start = read.warm.start
    if job.errors[piece] == 0:
        if (part.cursor.warm.segment_base_offset == read.warm.segment_base_offset
                and part.cursor.warm.end == start and part.cursor.warm.truncations == read.warm.truncations):
            start = part.cursor.warm.start
        part.cursor.warm = read.warm
        part.cursor.warm.start = start
        part.cold_end = read.segment_size_bytes
    elif job.errors[piece] != -ESTALE and piece == 0 and job.wanted:
        part.error = KAFKA_STORAGE_ERROR


cdef bint cold_settle(FetchRequest *request, FetchPart *part) noexcept nogil:
    cdef ColdJob *job = part.cold
    cdef int32_t pieces
    if job == NULL:
        return True
    if job.wanted and job.taken == 0:
        store_i64(&job.fetch_id, request.id)
        full_fence()
    pieces = load_i32(&job.pieces)
    while job.taken < pieces:
        take_piece(part, job, job.taken)
        job.taken += 1
    if pieces == 2:
        part.cold = NULL
        job_release(job)
    return pieces > 0 or not job.wanted


cdef bint cold_start(Reactor *r, FetchRequest *request, FetchPart *part) noexcept nogil:
    cdef ColdJob *job = part.cold
    cdef int64_t size_bytes = part.max_bytes
    if request.id <= 0:
        request.id = id_add(&r.fetches, request)
        if request.id < 0:
            request.id = 0
            return False
    if job != NULL:                                      # reading ahead, perhaps this very range: look again then
        job.wanted = True
        store_i64(&job.fetch_id, request.id)
        full_fence()
        if load_i32(&job.pieces) == 2:
            post(&r.mailbox, MAIL_WAKE_FETCH, request.id, 0, NULL)
        return True
    job = job_new(r, part)
    if job == NULL:
        return False
    size_bytes = size_bytes if size_bytes > READ_MIN_BYTES else READ_MIN_BYTES
    size_bytes = size_bytes if size_bytes < READ_MAX_BYTES else READ_MAX_BYTES
    cold_read_of(&part.slice, part.fetch_offset, size_bytes, &job.reads[0])
    job.wanted = job.ahead = True
    job.fetch_id = request.id
    return submit(r, part, job)


cdef void cold_follow(Reactor *r, FetchPart *part) noexcept nogil:
    cdef ColdJob *job
    cdef int64_t end = part.slice.position + part.slice.size_bytes
    if part.slice.position >= part.cursor.warm.end or part.slice.segment_base_offset \
            != part.cursor.warm.segment_base_offset:
        part.cursor.warm.start = part.cursor.warm.end = 0        # it reads what is in memory anyway
        return
    if part.cold != NULL or part.cursor.warm.end >= part.cold_end \
            or part.cursor.warm.end - end >= READ_AHEAD_BYTES // 2:
        return
    job = job_new(r, part)
    if job != NULL:
        job.reads[0].offset = -1
        job.reads[0].segment_base_offset = part.cursor.warm.segment_base_offset
        job.reads[0].position = part.cursor.warm.end
        job.reads[0].size_bytes = READ_AHEAD_BYTES
        submit(r, part, job)


cdef void cold_abandon(FetchPart *part) noexcept nogil:
    if part.cold != NULL:
        store_i64(&part.cold.fetch_id, 0)
        job_release(part.cold)
        part.cold = NULL
