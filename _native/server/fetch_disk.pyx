"""Reads records that are not in memory by storage threads, see fetch_disk.pxd."""
from libc.errno cimport ESTALE
from libc.stdint cimport int32_t, int64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport strerror
from bowstring._native.base.atomics cimport add_i32, add_i64, full_fence, load_i32, load_i64, store_i32, store_i64
from bowstring._native.base.clock cimport monotonic_ms
from bowstring._native.base.error_codes cimport KAFKA_STORAGE_ERROR
from bowstring._native.disk.thread_pool cimport StorageJob, StoragePool, storage_submit
from bowstring._native.log cimport (
    AbortedList, ColdRead, CorruptFound, aborted_most, cold_read, cold_read_of, log_aborted)
from bowstring._native.server.control_queue cimport plane_event
from bowstring._native.server.id_table cimport id_add
from bowstring._native.server.mailbox cimport post
from bowstring._native.server.topic_table cimport partition_release, partition_retain
from bowstring._native.server.fetch_types cimport ColdJob
from bowstring._native.server.mail_types cimport MAIL_WAKE_FETCH
from bowstring._native.server.partition_types cimport Partition

cdef enum:
    READ_MAX_BYTES = 4 << 20
    AHEAD_FIRST = 4                 # the first read-ahead has this many times the requested bytes
    FAILURE_TOLD_MS = 10000         # readers retry often: at most one event in this time

# ---------------------------------------------------------------- on a storage thread


cdef void tell_corrupt(void *context, const CorruptFound *found) noexcept nogil:
    cdef ColdJob *job = <ColdJob *>context
    cdef char[512] text
    add_i64(&job.reactor.plane.storage.corrupt_ranges, 1)
    snprintf(text, sizeof(text),
             b"%s/%020lld.log: %lld bytes at position %lld are not served: %s. Consumers can continue at offset %lld. "
             b"Stop the broker and restore the file from a copy, or let retention delete it",
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
    snprintf(text, sizeof(text), b"the log of %s-%d could not be read (%s); check its disk",
             job.topic, job.partition.index, strerror(-error))
    plane_event(job.reactor.plane, 2, b"read-failed", text)


cdef void read_aborted(ColdJob *job, ColdRead *read) noexcept nogil:
    """Reads the transaction index, so that the reactor finds it in memory. Errors are ignored: the reactor meets them
    itself."""
    cdef AbortedList found
    cdef int64_t to_offset = read.warm.next_offset
    if to_offset < 0:
        to_offset = load_i64(&job.log.last_stable_offset)
    log_aborted(job.log, read.offset, to_offset, aborted_most(), True, &found)
    free(found.pairs)


cdef void read_piece(ColdJob *job, int piece, bint dropped) noexcept nogil:
    cdef StoragePool *pool = &job.reactor.plane.storage
    cdef ColdRead *read = &job.reads[piece]
    job.errors[piece] = -ESTALE
    if dropped or load_i32(&job.partition.deleted) or read.size_bytes <= 0:
        return
    read.report = tell_corrupt
    read.context = job
    job.errors[piece] = cold_read(job.log, read)
    if job.errors[piece] == 0 and job.committed and piece == 0:
        read_aborted(job, read)
    if job.errors[piece] == 0:
        add_i64(&pool.reads, 1)
        add_i64(&pool.read_bytes, read.read_bytes)
    elif job.errors[piece] != -ESTALE:
        tell_failure(job, job.errors[piece])


cdef void publish(ColdJob *job, int32_t pieces) noexcept nogil:
    """Stores the pieces, then a fence, then loads fetch_id; a reader stores fetch_id and then loads the pieces, so no
    wake-up is lost."""
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
    if job.errors[0] == 0 and job.ahead_bytes > 0 and job.reads[0].warm.end < job.reads[0].segment_size_bytes:
        job.reads[1].offset = -1
        job.reads[1].segment_base_offset = job.reads[0].segment_base_offset
        job.reads[1].position = job.reads[0].warm.end
        job.reads[1].size_bytes = job.ahead_bytes
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
    """Joins the piece's range to the range read before it, or replaces that range."""
    cdef ColdRead *read = &job.reads[piece]
    cdef int64_t start = read.warm.start
    if piece == 0:
        part.aborted_read = job.committed
    if job.errors[piece] == 0:
        if (part.cursor.warm.segment_base_offset == read.warm.segment_base_offset
                and part.cursor.warm.end == start and part.cursor.warm.truncations == read.warm.truncations):
            start = part.cursor.warm.start
        part.cursor.warm = read.warm
        part.cursor.warm.start = start
        part.cold_end = read.segment_size_bytes
    elif job.errors[piece] != -ESTALE and piece == 0 and job.wanted:
        part.error = KAFKA_STORAGE_ERROR


cdef bint cold_take(FetchRequest *request, FetchPart *part) noexcept nogil:
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
    if pieces > 0 or not job.wanted:
        return True
    request.cold_bytes += job.asked_bytes
    return False


cdef int64_t next_ahead(FetchRequest *request, FetchPart *part, int64_t size_bytes) noexcept nogil:
    """Returns how many bytes to read ahead of a sequential reader: more each time, within the request's limit."""
    cdef int64_t ahead_bytes = 2 * part.ahead_bytes if part.ahead_bytes > 0 else AHEAD_FIRST * size_bytes
    ahead_bytes = ahead_bytes if ahead_bytes < READ_AHEAD_BYTES else READ_AHEAD_BYTES
    if ahead_bytes > request.ahead_bytes:
        return 0
    request.ahead_bytes -= ahead_bytes
    part.ahead_bytes = <int32_t>ahead_bytes
    return ahead_bytes


cdef bint cold_start(Reactor *r, FetchRequest *request, FetchPart *part, int64_t size_bytes) noexcept nogil:
    cdef ColdJob *job = part.cold
    if request.id <= 0:
        request.id = id_add(&r.fetches, request)
        if request.id < 0:
            request.id = 0
            return False
    if job != NULL:                                      # a read-ahead runs, perhaps of this range: evaluate again when it is done
        request.cold_bytes += job.asked_bytes
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
    if part.followed or part.slice.position > 0:         # the reader comes from the batches before this position
        job.ahead_bytes = next_ahead(request, part, size_bytes)
    job.wanted = True
    job.committed = request.isolation != 0
    job.fetch_id = request.id
    job.asked_bytes = size_bytes
    request.cold_bytes += size_bytes
    return submit(r, part, job)


cdef void cold_follow(Reactor *r, FetchRequest *request, FetchPart *part) noexcept nogil:
    cdef ColdJob *job
    cdef int64_t end = part.slice.position + part.slice.size_bytes, ahead_bytes
    if part.slice.position >= part.cursor.warm.end or part.slice.segment_base_offset \
            != part.cursor.warm.segment_base_offset:
        part.cursor.warm.start = part.cursor.warm.end = 0        # the reader reads from memory anyway
        return
    if not part.followed or part.cold != NULL or part.cursor.warm.end >= part.cold_end \
            or part.cursor.warm.end - end >= (part.ahead_bytes + 1) // 2:
        return
    ahead_bytes = next_ahead(request, part, part.slice.size_bytes)
    job = job_new(r, part) if ahead_bytes > 0 else NULL
    if job != NULL:
        job.reads[0].offset = -1
        job.reads[0].segment_base_offset = part.cursor.warm.segment_base_offset
        job.reads[0].position = part.cursor.warm.end
        job.reads[0].size_bytes = job.asked_bytes = ahead_bytes
        submit(r, part, job)


cdef void cold_abandon(FetchPart *part) noexcept nogil:
    if part.cold != NULL:
        store_i64(&part.cold.fetch_id, 0)
        job_release(part.cold)
        part.cold = NULL
