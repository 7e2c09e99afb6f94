"""The leader's part of replication, see replica_leader.pxd.

A follower's fetch offset says that it has everything below. Replica states are guarded by Partition.replicas_lock,
because two followers may be connected to two reactors.
"""
from libc.stdint cimport int16_t, int32_t, int64_t
from bowstring._native.base.atomics cimport full_fence, load_i64, load_pointer
from bowstring._native.base.pthread cimport pthread_mutex_lock, pthread_mutex_unlock
from bowstring._native.log cimport log_advance_high_watermark
from bowstring._native.replica.replica_quota cimport quota_wait_ms
from bowstring._native.replica.in_sync_replicas cimport (
    Replica, TakenFetch, replica_high_watermark, replica_take_fetch, replica_take_lag, replicas_ack_refused)
from bowstring._native.server.mailbox cimport post
from bowstring._native.server.replica_events cimport replica_event
from bowstring._native.server.topic_table cimport partition_advanced
from bowstring._native.server.fetch_types cimport Waiter
from bowstring._native.server.mail_types cimport MAIL_WAKE_FETCH
from bowstring._native.server.replica_types cimport REPLICA_LAGS, REPLICA_MAY_JOIN


cdef int64_t own_end(const Partition *p) noexcept nogil:
    """The end of the leader's own part: in commit mode, what is on the medium."""
    return load_i64(&p.log.durable_end_offset) if p.log.wal != NULL else load_i64(&p.log.log_end_offset)


cdef int16_t leader_fetched(Reactor *r, FetchRequest *request, FetchPart *part, Partition *p) noexcept nogil:
    cdef TakenFetch taken
    cdef bint moved
    pthread_mutex_lock(&p.replicas_lock)
    replica_take_fetch(p.replicas, request.replica_id, request.replica_epoch, part.current_leader_epoch >= 0,
                       request.fresh, part.fetch_offset, part.follower_start_offset, load_i64(&p.log.log_end_offset),
                       own_end(p), load_i64(&p.log.high_watermark), r.now_ms, &taken)
    # Under the lock: nobody may join the ISR by an older high watermark (replica_try_join).
    moved = (taken.high_watermark > load_i64(&p.log.high_watermark)
             and log_advance_high_watermark(p.log, taken.high_watermark))
    pthread_mutex_unlock(&p.replicas_lock)
    if moved:
        partition_advanced(p, 0, r)
    part.throttled = (not taken.in_sync and p.leader_throttled
                      and quota_wait_ms(&r.plane.replication.leader_quota, r.now_ms) > 0)
    if taken.joins:
        replica_event(r.plane, REPLICA_MAY_JOIN, p, request.replica_id, request.replica_epoch)
    return taken.error


cdef bint leader_advance(Partition *p, int64_t now_ms) noexcept nogil:
    cdef int64_t high_watermark = -1
    cdef bint moved
    if p.log == NULL:                                    # its directory is offline
        return False
    pthread_mutex_lock(&p.replicas_lock)
    if p.replicas != NULL:
        high_watermark = replica_high_watermark(p.replicas, own_end(p), now_ms)
    moved = high_watermark > load_i64(&p.log.high_watermark) and log_advance_high_watermark(p.log, high_watermark)
    pthread_mutex_unlock(&p.replicas_lock)
    return moved


cdef void replicated_durable(Partition *p, int64_t now_ms) noexcept nogil:
    if p.replicas != NULL:
        leader_advance(p, now_ms)
    elif not p.is_leader:
        log_advance_high_watermark(p.log, load_i64(&p.leader_high_watermark))


cdef void followers_wake(Partition *p, int64_t bytes, Reactor *here) noexcept nogil:
    cdef Waiter *w
    full_fence()
    if load_pointer(<void **>&p.fetch_waiters) == NULL:
        return
    pthread_mutex_lock(&p.waiters_lock)
    w = p.fetch_waiters
    while w != NULL:
        if w.follower and w.reactor == here:
            w.request.arrived_bytes += bytes
            if not w.request.ready:
                w.request.ready = True
                w.request.next_ready = here.ready_fetches
                here.ready_fetches = w.request
        elif w.follower:
            post(&w.reactor.mailbox, MAIL_WAKE_FETCH, w.fetch_id, bytes, NULL)
        w = w.next
    pthread_mutex_unlock(&p.waiters_lock)


cdef int16_t leader_enough(Partition *p) noexcept nogil:
    cdef int16_t error = 0
    pthread_mutex_lock(&p.replicas_lock)
    if p.replicas != NULL:
        error = replicas_ack_refused(p.replicas)
    pthread_mutex_unlock(&p.replicas_lock)
    return error


cdef void leader_check_lag(Plane *plane, Partition *p, int64_t now_ms) noexcept nogil:
    cdef Replica *replica
    cdef int32_t i, n
    cdef bint lags
    cdef int64_t end_offset
    n = p.replicas.count                                 # only the control thread replaces it
    for i in range(n):
        pthread_mutex_lock(&p.replicas_lock)
        replica = &p.replicas.items[i]
        end_offset = replica.log_end_offset
        lags = replica_take_lag(p.replicas, replica, load_i64(&p.log.log_end_offset), now_ms)
        pthread_mutex_unlock(&p.replicas_lock)
        if lags:
            replica_event(plane, REPLICA_LAGS, p, replica.broker_id, end_offset)
    if leader_advance(p, now_ms):                        # one that is no longer caught up does not hold it up
        partition_advanced(p, 0, NULL)
