"""What a leader decides about its followers, see in_sync_replicas.pxd. The Python classes drive the same code in tests and
in the simulator."""
from libc.stdint cimport int16_t, int32_t, int64_t
from libc.stdlib cimport calloc, free
from bowstring._native.base.error_codes cimport (
    NOT_ENOUGH_REPLICAS_AFTER_APPEND, NOT_LEADER_OR_FOLLOWER, UNKNOWN_LEADER_EPOCH)


cdef ReplicaSet *replica_set_new(int32_t count) noexcept nogil:
    cdef ReplicaSet *s = <ReplicaSet *>calloc(1, sizeof(ReplicaSet) + count * sizeof(Replica))
    if s != NULL:
        s.items = <Replica *>(s + 1)
        s.count = count
    return s


cdef void replica_begin(Replica *replica, const Replica *before, int64_t now_ms) noexcept nogil:
    if before != NULL:
        replica.log_start_offset = before.log_start_offset
        replica.log_end_offset = before.log_end_offset
        replica.leader_end_offset = before.leader_end_offset
        replica.last_fetch_ms = before.last_fetch_ms
        replica.caught_up_ms = before.caught_up_ms
        return
    replica.log_start_offset = replica.log_end_offset = replica.leader_end_offset = -1
    replica.last_fetch_ms = replica.caught_up_ms = now_ms if replica.in_sync else 0


cdef Replica *replica_find(const ReplicaSet *s, int32_t broker_id) noexcept nogil:
    cdef int32_t i
    for i in range(s.count):
        if s.items[i].broker_id == broker_id:
            return &s.items[i]
    return NULL


cdef bint replica_current(const Replica *replica, int64_t broker_epoch) noexcept nogil:
    return broker_epoch < 0 or replica.broker_epoch < 0 or broker_epoch >= replica.broker_epoch


cdef void replica_fetched(Replica *replica, int64_t offset, int64_t start_offset, int64_t leader_end_offset,
                          int64_t now_ms) noexcept nogil:
    cdef int64_t caught_up_ms = replica.caught_up_ms
    if offset >= leader_end_offset:
        caught_up_ms = now_ms
    elif replica.leader_end_offset >= 0 and offset >= replica.leader_end_offset:
        caught_up_ms = replica.last_fetch_ms             # it has what the leader had at its last fetch
    if caught_up_ms > replica.caught_up_ms:
        replica.caught_up_ms = caught_up_ms
    replica.log_start_offset = start_offset
    replica.log_end_offset = offset
    replica.leader_end_offset = leader_end_offset
    replica.last_fetch_ms = now_ms


cdef bint caught_up(const ReplicaSet *s, const Replica *replica, int64_t leader_end_offset,
                    int64_t now_ms) noexcept nogil:
    return replica.log_end_offset == leader_end_offset or now_ms - replica.caught_up_ms <= s.lag_max_ms


cdef int64_t replica_high_watermark(const ReplicaSet *s, int64_t leader_end_offset, int64_t now_ms) noexcept nogil:
    cdef int64_t found = leader_end_offset
    cdef const Replica *replica
    cdef int32_t i
    if replicas_staying(s) < replicas_required(s):
        return -1
    for i in range(s.count):
        replica = &s.items[i]
        if replica.log_end_offset < found and (replica.in_sync or replica.joining or (
                replica.eligible and caught_up(s, replica, leader_end_offset, now_ms))):
            found = replica.log_end_offset
    return found


cdef bint replica_readable(const Replica *replica, int64_t offset) noexcept nogil:
    return replica.in_sync and replica.log_start_offset <= offset <= replica.log_end_offset


cdef bint replica_ahead(const Replica *replica, const Replica *other) noexcept nogil:
    if replica.log_end_offset != other.log_end_offset:
        return replica.log_end_offset > other.log_end_offset
    if replica.caught_up_ms != other.caught_up_ms:
        return replica.caught_up_ms > other.caught_up_ms
    return replica.broker_id > other.broker_id


cdef bint replica_may_join(const ReplicaSet *s, const Replica *replica, int64_t high_watermark) noexcept nogil:
    return (not s.changing and not replica.in_sync and replica.eligible
            and replica.log_end_offset >= high_watermark and replica.log_end_offset >= s.epoch_start_offset)


cdef bint replica_try_join(ReplicaSet *s, Replica *replica, int64_t high_watermark) noexcept nogil:
    if not replica_may_join(s, replica, high_watermark):
        replica.asked = False                            # its next fetch may request it again
        return False
    replica.joining = s.changing = True
    return True


cdef bint replica_lags(const ReplicaSet *s, const Replica *replica, int64_t leader_end_offset,
                       int64_t now_ms) noexcept nogil:
    return not s.changing and replica.in_sync and not caught_up(s, replica, leader_end_offset, now_ms)


cdef void replica_take_fetch(ReplicaSet *s, int32_t broker_id, int64_t broker_epoch, bint names_epoch, bint is_fresh,
                             int64_t offset, int64_t start_offset, int64_t leader_end_offset, int64_t own_end_offset,
                             int64_t high_watermark, int64_t now_ms, TakenFetch *taken) noexcept nogil:
    cdef Replica *replica = NULL
    taken.error = 0
    taken.joins = False
    taken.in_sync = True
    taken.high_watermark = -1
    if s != NULL:
        replica = replica_find(s, broker_id)
    if replica == NULL:                                  # the leader may not have a reassignment yet: the follower retries
        taken.error = UNKNOWN_LEADER_EPOCH if names_epoch else NOT_LEADER_OR_FOLLOWER
    elif not replica_current(replica, broker_epoch):
        taken.error = NOT_LEADER_OR_FOLLOWER
    else:
        taken.in_sync = replica.in_sync
        if replica.in_sync and broker_epoch > replica.broker_epoch >= 0:
            replica.leaving = True                       # the controller removes it when it registers again
    if taken.error == 0 and is_fresh:
        replica_fetched(replica, offset, start_offset, leader_end_offset, now_ms)
        taken.joins = not replica.asked and replica_may_join(s, replica, high_watermark)
        replica.asked = replica.asked or taken.joins
        taken.high_watermark = replica_high_watermark(s, own_end_offset, now_ms)


cdef bint replica_take_lag(ReplicaSet *s, Replica *replica, int64_t leader_end_offset, int64_t now_ms) noexcept nogil:
    cdef bint lags = not replica.asked and replica_lags(s, replica, leader_end_offset, now_ms)
    replica.asked = replica.asked or lags
    return lags


cdef void replica_set_state(Replica *replica, bint in_sync, bint joining, bint leaving, bint changing) noexcept nogil:
    replica.in_sync = in_sync
    replica.joining = joining
    replica.leaving = leaving
    replica.asked = changing


cdef int16_t replicas_ack_refused(const ReplicaSet *s) noexcept nogil:
    return NOT_ENOUGH_REPLICAS_AFTER_APPEND if replicas_maximal(s) < replicas_required(s) else 0


cdef int32_t replicas_staying(const ReplicaSet *s) noexcept nogil:
    cdef int32_t i, n = 1
    for i in range(s.count):
        if s.items[i].in_sync and not s.items[i].leaving:
            n += 1
    return n


cdef int32_t replicas_maximal(const ReplicaSet *s) noexcept nogil:
    cdef int32_t i, n = 1
    for i in range(s.count):
        n += s.items[i].in_sync or s.items[i].joining
    return n


cdef int32_t replicas_required(const ReplicaSet *s) noexcept nogil:
    return s.min_in_sync if s.min_in_sync < s.count + 1 else s.count + 1


cdef int64_t replicas_low_watermark(const ReplicaSet *s, int64_t leader_start_offset) noexcept nogil:
    cdef int64_t found = leader_start_offset
    cdef int32_t i
    for i in range(s.count):
        if s.items[i].eligible and s.items[i].log_start_offset < found:
            found = s.items[i].log_start_offset
    return found

# ---------------------------------------------------------------- for Python


cdef class Followers:
    """The followers of one led partition: a wrapper of ReplicaSet for tests and the simulator.

    Args:
        replicas: Ids of all followers.
        isr: Ids of those that are in sync.
        epoch_start_offset: The leader's log end when its epoch began.
        now_ms: A clock of the caller, the same as in later calls.
        broker_epochs: ``{broker id: epoch}`` of the registrations.
        ineligible: Ids that may not join the ISR.
        before: The followers before a change within the same leader epoch.
    """

    cdef ReplicaSet *s

    def __cinit__(self, replicas, isr, *, int64_t epoch_start_offset=0, int32_t min_in_sync=1,
                  int64_t lag_max_ms=30000, int64_t now_ms=0, broker_epochs=None, ineligible=(), Followers before=None):
        cdef const Replica *known
        cdef int32_t i
        self.s = replica_set_new(<int32_t>len(replicas))
        if self.s == NULL:
            raise MemoryError
        self.s.epoch_start_offset = epoch_start_offset
        self.s.min_in_sync = min_in_sync
        self.s.lag_max_ms = lag_max_ms
        for i, broker_id in enumerate(replicas):
            self.s.items[i].broker_id = broker_id
            self.s.items[i].broker_epoch = (broker_epochs or {}).get(broker_id, -1)
            self.s.items[i].eligible = broker_id not in ineligible
            self.s.items[i].in_sync = broker_id in isr
            known = replica_find(before.s, self.s.items[i].broker_id) if before is not None else NULL
            replica_begin(&self.s.items[i], known, now_ms)

    def __dealloc__(self):
        free(self.s)

    cdef Replica *find(self, int32_t broker_id) except NULL:
        cdef Replica *replica = replica_find(self.s, broker_id)
        if replica == NULL:
            raise KeyError(f"broker {broker_id} is not a replica")
        return replica

    def fetched(self, int32_t broker_id, int64_t offset, int64_t leader_end_offset, int64_t now_ms):
        """Notes a fetch of a follower."""
        replica_fetched(self.find(broker_id), offset, 0, leader_end_offset, now_ms)

    def take_fetch(self, int32_t broker_id, int64_t broker_epoch, int64_t offset, *, int64_t leader_end_offset,
                   int64_t own_end_offset, int64_t high_watermark, int64_t now_ms):
        """Takes a fetch that names a leader epoch.

        Returns:
            tuple: (error code, whether the follower may join, the high watermark or -1: it must not move).
        """
        cdef TakenFetch taken
        replica_take_fetch(self.s, broker_id, broker_epoch, True, True, offset, 0, leader_end_offset, own_end_offset,
                           high_watermark, now_ms, &taken)
        return taken.error, taken.joins != 0, taken.high_watermark

    def take_lags(self, int64_t leader_end_offset, int64_t now_ms):
        """Returns the followers that the controller should remove, each once until the ISR changes."""
        cdef int32_t i
        return [self.s.items[i].broker_id for i in range(self.s.count)
                if replica_take_lag(self.s, &self.s.items[i], leader_end_offset, now_ms)]

    def ack_error(self):
        """Returns the error code of an acks=all write that the high watermark has passed; 0 when it is safe."""
        return replicas_ack_refused(self.s)

    def end_of(self, int32_t broker_id):
        """Returns the last fetch offset of a follower; -1 before its first fetch in this leader epoch."""
        return self.find(broker_id).log_end_offset

    def high_watermark(self, int64_t leader_end_offset, int64_t now_ms):
        """Returns the high watermark; -1: it must not move."""
        return replica_high_watermark(self.s, leader_end_offset, now_ms)

    def may_join(self, int32_t broker_id, int64_t high_watermark):
        """Returns whether the follower may join the ISR."""
        return replica_may_join(self.s, self.find(broker_id), high_watermark) != 0

    def try_join(self, int32_t broker_id, int64_t high_watermark):
        """Begins to add the follower to the ISR; returns whether it may join."""
        return replica_try_join(self.s, self.find(broker_id), high_watermark) != 0

    def lags(self, int32_t broker_id, int64_t leader_end_offset, int64_t now_ms):
        """Returns whether the follower should leave the ISR."""
        return replica_lags(self.s, self.find(broker_id), leader_end_offset, now_ms) != 0

    def set_isr(self, isr, joining=(), leaving=(), changing=None):
        """Sets the committed ISR, and the followers that a change under way adds and removes. Without `changing`, one is
        under way if there are any."""
        cdef int32_t i
        cdef bint is_changing = len(joining) + len(leaving) > 0 if changing is None else changing
        for i in range(self.s.count):
            replica_set_state(&self.s.items[i], self.s.items[i].broker_id in isr, self.s.items[i].broker_id in joining,
                              self.s.items[i].broker_id in leaving, is_changing)
        self.s.changing = is_changing

    def set_eligible(self, int32_t broker_id, bint eligible):
        """Sets whether the follower may join the ISR."""
        self.find(broker_id).eligible = eligible
