"""The partitions that a reactor follows, see followed_partitions.pxd."""
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy
from bowstring._native.base.atomics cimport load_i32, load_i64
from bowstring._native.base.clock cimport wall_clock_ms
from bowstring._native.base.error_codes cimport CORRUPT_MESSAGE, FENCED_LEADER_EPOCH, KAFKA_STORAGE_ERROR
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.disk.thread_pool cimport StorageJob, storage_submit
from bowstring._native.log cimport log_end_offset_for_epoch, log_truncate_fully, log_truncate_to
from bowstring._native.log.state cimport FAILED_FOR_GOOD
from bowstring._native.replica.rules cimport RESTART_AT_LEADER_START, TRUNCATE_TO_LEADER_END, OutOfRange, out_of_range
from bowstring._native.replica.truncation cimport truncation_offset
from bowstring._native.server.id_table cimport id_add, id_find, id_remove
from bowstring._native.server.mailbox cimport post
from bowstring._native.server.replica_events cimport replica_event
from bowstring._native.server.topic_table cimport partition_advanced, partition_release, partition_retain
from bowstring._native.server.follow_types cimport (
    FOLLOW_ASKING, FOLLOW_DELAYED, FOLLOW_FAILED, FOLLOW_FETCHING, FOLLOW_TRUNCATING)
from bowstring._native.server.mail_types cimport MAIL_TRUNCATED
from bowstring._native.server.replica_types cimport FETCH_FAILED, REPLICA_TRUNCATED


cdef bint part_void(const FollowPart *part) noexcept nogil:
    cdef const Partition *p = part.partition
    return load_i32(&p.deleted) or p.is_leader or p.leader_epoch != part.leader_epoch or p.follow_number == 0


cdef FollowPart *part_of(const Fetcher *f, const Partition *p) noexcept nogil:
    cdef FollowPart *part
    if p == NULL or p.follow_id == 0 or p.follow_reactor != f.reactor.index:
        return NULL
    part = <FollowPart *>id_find(&f.reactor.follows, p.follow_id)
    return part if part != NULL and part.fetcher == f and not part_void(part) else NULL


cdef void leave(FollowPart *part) noexcept nogil:
    """Undoes the count of the state that the part leaves."""
    if part.state == FOLLOW_ASKING:
        part.fetcher.asking -= 1


cdef void enter(FollowPart *part, int8_t state) noexcept nogil:
    leave(part)
    part.state = state
    if state == FOLLOW_ASKING:
        part.fetcher.asking += 1
        part.leader_end_offset = -1


cdef FollowPart *part_new(Fetcher *f, Partition *p) noexcept nogil:
    cdef FollowPart *part
    cdef FollowPart **grown
    if f.count == f.capacity:
        grown = <FollowPart **>realloc(f.parts, (f.capacity * 2 + 16) * sizeof(FollowPart *))
        if grown == NULL:
            return NULL
        f.parts = grown
        f.capacity = f.capacity * 2 + 16
    part = <FollowPart *>calloc(1, sizeof(FollowPart))
    if part == NULL:
        return NULL
    part.id = id_add(&f.reactor.follows, part)
    if part.id < 0:
        free(part)
        return NULL
    part.fetcher = f
    part.partition = p
    memcpy(part.topic_id, p.topic.id, sizeof(part.topic_id))
    partition_retain(p)
    f.parts[f.count] = part
    f.count += 1
    return part


cdef void part_begin(Fetcher *f, FollowOrder *order) noexcept nogil:
    cdef Partition *p = order.partition
    cdef FollowPart *part = NULL
    if not load_i32(&p.deleted) and not p.is_leader and p.leader_epoch == order.leader_epoch and p.log != NULL:
        if p.follow_reactor == f.reactor.index and p.follow_id != 0:
            part = <FollowPart *>id_find(&f.reactor.follows, p.follow_id)
        if part == NULL or part.fetcher != f:            # another fetcher drops its own part: its epoch is over
            part = part_new(f, p)
        if part != NULL:
            p.follow_reactor = f.reactor.index
            p.follow_id = part.id
            part.leader_epoch = order.leader_epoch
            part.told_error = 0
            part.failures = 0
            part.first_offset = 0
            if part.state != FOLLOW_TRUNCATING:
                enter(part, FOLLOW_FETCHING)
            if load_i32(&p.log.leader_epoch) < 0 and load_i64(&p.log.log_end_offset) > load_i64(&p.log.high_watermark):
                part_truncate(part, load_i64(&p.log.high_watermark), False)     # without epochs nothing else is known
        else:
            replica_event(f.reactor.plane, FETCH_FAILED, p, KAFKA_STORAGE_ERROR, order.leader_id)
    order_drop(order)


cdef void part_free(FollowPart *part) noexcept nogil:
    cdef Partition *p = part.partition
    leave(part)
    id_remove(&part.fetcher.reactor.follows, part.id)
    partition_release(p)
    free(part)


cdef int64_t pause_ms(int64_t most_ms, int64_t failures) noexcept nogil:
    """The first pauses are short: most errors come while a change of the cluster has reached one of two brokers."""
    return min(most_ms, FIRST_PAUSE_MS << min(failures, 20))


cdef void part_fail(FollowPart *part, int16_t error) noexcept nogil:
    cdef Reactor *r = part.fetcher.reactor
    cdef bint final = error == FENCED_LEADER_EPOCH or (
        error == KAFKA_STORAGE_ERROR and load_i32(&part.partition.log.failed) == FAILED_FOR_GOOD)
    if part.told_error != error:
        part.told_error = error
        replica_event(r.plane, FETCH_FAILED, part.partition, error, part.fetcher.leader_id)
    enter(part, FOLLOW_FAILED if final else FOLLOW_DELAYED)
    part.due_ms = r.now_ms + pause_ms(r.plane.replication.backoff_ms, part.failures)
    part.failures = min(part.failures + 1, 100)

# ---------------------------------------------------------------- truncation


cdef enum:
    NOTHING_CUT = -1                                     # in TruncateJob.offset once it is done


cdef void run_truncate(StorageJob *base, bint dropped) noexcept nogil:
    cdef TruncateJob *job = <TruncateJob *>base
    cdef Partition *p = job.partition
    cdef int64_t start_offset, end_offset
    cdef bint cuts
    pthread_mutex_lock(&p.truncate_lock)                 # the control thread changes the role under it
    if not dropped and not load_i32(&p.deleted) and not load_i32(&p.is_leader) \
            and load_i32(&p.leader_epoch) == job.leader_epoch:
        start_offset, end_offset = load_i64(&p.log.log_start_offset), load_i64(&p.log.log_end_offset)
        cuts = start_offset < end_offset and (job.fully or job.offset < end_offset)
        if job.fully:                                    # p.log may be another one than when the job was made
            job.error = log_truncate_fully(p.log, job.offset, wall_clock_ms())
        else:
            job.error = log_truncate_to(p.log, job.offset, wall_clock_ms())
        if not cuts:                                     # an epoch has begun where nothing was written
            job.offset = NOTHING_CUT
    pthread_mutex_unlock(&p.truncate_lock)
    if not post(&job.reactor.mailbox, MAIL_TRUNCATED, 0, 0, job):
        truncate_drop(job)


cdef void part_truncate(FollowPart *part, int64_t offset, bint fully) noexcept nogil:
    cdef Partition *p = part.partition
    cdef TruncateJob *job
    if part.state == FOLLOW_TRUNCATING:
        return
    job = <TruncateJob *>calloc(1, sizeof(TruncateJob))
    if job == NULL:
        part_fail(part, KAFKA_STORAGE_ERROR)
        return
    job.base.run = run_truncate
    job.reactor = part.fetcher.reactor
    job.partition = p
    job.leader_epoch = part.leader_epoch
    job.follow_id = part.id
    job.offset = offset
    job.fully = fully
    partition_retain(p)
    enter(part, FOLLOW_TRUNCATING)
    if not storage_submit(&job.reactor.plane.storage, &job.base):
        run_truncate(&job.base, False)


cdef void part_diverged(FollowPart *part, int32_t epoch, int64_t end_offset) noexcept nogil:
    cdef Partition *p = part.partition
    cdef int32_t own_epoch = -1
    cdef int64_t own_end_offset = -1, log_end_offset = load_i64(&p.log.log_end_offset), offset
    log_end_offset_for_epoch(p.log, epoch, &own_epoch, &own_end_offset)
    offset = truncation_offset(epoch, end_offset, own_epoch, own_end_offset, log_end_offset,
                               load_i64(&p.log.high_watermark))
    part_truncate(part, offset, False)


cdef void part_out_of_range(FollowPart *part, int64_t leader_start_offset, int64_t leader_end_offset) noexcept nogil:
    cdef int64_t log_end_offset = load_i64(&part.partition.log.log_end_offset)
    cdef OutOfRange found = out_of_range(leader_start_offset, leader_end_offset, log_end_offset)
    if found == TRUNCATE_TO_LEADER_END:
        part_truncate(part, leader_end_offset, False)
    elif found == RESTART_AT_LEADER_START:
        part_truncate(part, leader_start_offset, True)
    else:
        enter(part, FOLLOW_DELAYED)
        part.due_ms = part.fetcher.reactor.now_ms + part.fetcher.reactor.plane.replication.backoff_ms


cdef void part_truncated(Reactor *r, TruncateJob *job) noexcept nogil:
    cdef FollowPart *part = <FollowPart *>id_find(&r.follows, job.follow_id)
    cdef Partition *p = job.partition
    if part != NULL and not load_i32(&p.deleted):
        enter(part, FOLLOW_FETCHING)
        part.fetcher.retry_ms = 0
        if job.error != 0:
            part_fail(part, KAFKA_STORAGE_ERROR if load_i32(&p.log.failed) else CORRUPT_MESSAGE)
        else:
            replica_event(r.plane, REPLICA_TRUNCATED, p, job.offset == NOTHING_CUT, load_i64(&p.log.log_end_offset))
        partition_advanced(p, 0, r)
    truncate_drop(job)


cdef void truncate_drop(TruncateJob *job) noexcept nogil:
    partition_release(job.partition)
    free(job)


cdef void order_drop(FollowOrder *order) noexcept nogil:
    if order.partition != NULL:
        partition_release(order.partition)
    free(order)
