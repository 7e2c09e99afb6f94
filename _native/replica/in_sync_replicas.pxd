"""A leader's view of its followers, and its decisions about them. Pure: time is an argument, the caller locks."""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t

cdef struct Replica:
    # One follower, as its leader sees it.
    int32_t broker_id
    int8_t in_sync                  # in the committed ISR
    int8_t joining                  # not in it, but in the maximal ISR of the change under way
    int8_t leaving                  # in it, but perhaps not at the controller any more
    int8_t eligible                 # neither fenced nor shutting down: it may join
    int8_t asked                    # the control thread has the event that it may join or should leave
    int64_t broker_epoch            # of its registration; -1: unknown
    int64_t log_start_offset
    int64_t log_end_offset          # its last fetch offset; -1: it has not fetched in this leader epoch
    int64_t leader_end_offset       # the leader's log end at its last fetch; -1: none
    int64_t last_fetch_ms
    int64_t caught_up_ms            # the last time at which it is known to have had all the leader's records

cdef struct ReplicaSet:
    int32_t leader_epoch
    int64_t epoch_start_offset      # the leader's log end when its epoch began
    int32_t min_in_sync             # min.insync.replicas
    int64_t lag_max_ms              # replica.lag.time.max.ms
    int8_t changing                 # a change of the ISR is under way
    int32_t count
    Replica *items                  # follow the struct, in one block

# Allocates a set for `count` followers, freed with free(); NULL without memory.
cdef ReplicaSet *replica_set_new(int32_t count) noexcept nogil
# Sets a follower at the start of a leader epoch. `before`: its state in the same epoch, or NULL. A new leader assumes that
# in-sync replicas were caught up just now.
cdef void replica_begin(Replica *replica, const Replica *before, int64_t now_ms) noexcept nogil
cdef Replica *replica_find(const ReplicaSet *s, int32_t broker_id) noexcept nogil
# Whether a request of this incarnation of the broker may be used: an older one is fenced.
cdef bint replica_current(const Replica *replica, int64_t broker_epoch) noexcept nogil

cdef struct TakenFetch:
    # What a follower's fetch leads to.
    int16_t error
    int8_t joins                    # the controller should add it to the ISR
    int8_t in_sync                  # quotas spare it
    int64_t high_watermark          # -1: it must not move

# Takes a fetch over: `offset` counts once for each request (`is_fresh`). Without followers `s` is NULL. The leader's own
# part of the high watermark is `own_end_offset`: in commit mode what is on its medium.
cdef void replica_take_fetch(ReplicaSet *s, int32_t broker_id, int64_t broker_epoch, bint names_epoch, bint is_fresh,
                             int64_t offset, int64_t start_offset, int64_t leader_end_offset, int64_t own_end_offset,
                             int64_t high_watermark, int64_t now_ms, TakenFetch *taken) noexcept nogil
# Whether the controller should remove a lagging follower from the ISR; notes that it is requested.
cdef bint replica_take_lag(ReplicaSet *s, Replica *replica, int64_t leader_end_offset, int64_t now_ms) noexcept nogil
# Sets the committed ISR and the change under way of one follower.
cdef void replica_set_state(Replica *replica, bint in_sync, bint joining, bint leaving, bint changing) noexcept nogil
# The error of an acks=all write that the high watermark has passed: it may have passed with too few replicas.
cdef int16_t replicas_ack_refused(const ReplicaSet *s) noexcept nogil
# Notes a fetch: the follower has everything below `offset`.
cdef void replica_fetched(Replica *replica, int64_t offset, int64_t start_offset, int64_t leader_end_offset,
                          int64_t now_ms) noexcept nogil
# Returns the high watermark, or -1 when it must not move: the ISR is below min.insync.replicas, or will be if the controller
# removes those that leave; it may have done so before its answer reaches the leader. Otherwise it is the smallest end
# among the leader, the maximal ISR, and followers that are caught up and may join: the leader would run away from those.
cdef int64_t replica_high_watermark(const ReplicaSet *s, int64_t leader_end_offset, int64_t now_ms) noexcept nogil
# Whether a consumer may read from the follower: it is in sync and has the offset (KIP-392).
cdef bint replica_readable(const Replica *replica, int64_t offset) noexcept nogil
# Whether consumers shall rather read from `replica` than from `other`: it has more, or was caught up later.
cdef bint replica_ahead(const Replica *replica, const Replica *other) noexcept nogil
# Whether the follower may join the ISR.
cdef bint replica_may_join(const ReplicaSet *s, const Replica *replica, int64_t high_watermark) noexcept nogil
# Begins to add a follower to the ISR if it may join now; from then on the high watermark waits for it. Between the fetch
# that qualified it and the request to the controller, the high watermark may have passed it.
cdef bint replica_try_join(ReplicaSet *s, Replica *replica, int64_t high_watermark) noexcept nogil
# Whether a follower of the ISR has not been caught up for replica.lag.time.max.ms and should leave.
cdef bint replica_lags(const ReplicaSet *s, const Replica *replica, int64_t leader_end_offset,
                       int64_t now_ms) noexcept nogil
# Replicas that stay in the committed ISR, and those in the maximal one of a change under way; both with the leader.
cdef int32_t replicas_staying(const ReplicaSet *s) noexcept nogil
cdef int32_t replicas_maximal(const ReplicaSet *s) noexcept nogil
# min.insync.replicas, at most the number of replicas.
cdef int32_t replicas_required(const ReplicaSet *s) noexcept nogil
# The smallest log start of leader and followers: records below it are deleted everywhere.
cdef int64_t replicas_low_watermark(const ReplicaSet *s, int64_t leader_start_offset) noexcept nogil
