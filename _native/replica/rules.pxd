"""A broker's decisions about a request for a replicated partition, and a follower's about an answer. Pure and without
state: a leader's view of its followers is in in_sync_replicas.pxd, a follower's truncation in truncation.pxd."""
from libc.stdint cimport int16_t, int32_t, int64_t
from bowstring._native.base.error_codes cimport (
    FENCED_LEADER_EPOCH, NOT_ENOUGH_REPLICAS, NOT_LEADER_OR_FOLLOWER, UNKNOWN_LEADER_EPOCH)

cdef enum Position:
    POSITION_FITS
    POSITION_DIVERGES               # the reader truncates to where its last epoch ended here
    POSITION_UNKNOWN                # this log does not reach back to the reader's last epoch: OFFSET_OUT_OF_RANGE

cdef enum OutOfRange:
    TRUNCATE_TO_LEADER_END
    RESTART_AT_LEADER_START
    FETCH_AGAIN                     # the leader's log has changed since

# ---------------------------------------------------------------- the leader

# The error of a fetch, or 0. `named_epoch`: the leader epoch in the request, -1: none.
cdef inline int16_t fetch_refused(bint of_follower, bint may_read_followers, bint is_leader, bint has_followers,
                                  int32_t named_epoch, int32_t leader_epoch) noexcept nogil:
    if not is_leader and (of_follower or not may_read_followers):
        return NOT_LEADER_OR_FOLLOWER
    if of_follower and not has_followers:                # it is no replica, or this broker has not learned it yet
        return UNKNOWN_LEADER_EPOCH if named_epoch == leader_epoch else NOT_LEADER_OR_FOLLOWER
    if named_epoch >= 0:
        if named_epoch < leader_epoch:
            return FENCED_LEADER_EPOCH
        if named_epoch > leader_epoch:
            return UNKNOWN_LEADER_EPOCH
    return 0

# Whether a reader's log is a prefix of this one (KIP-595): its last record is of `last_epoch`, and this log says that
# the greatest epoch up to that, `found_epoch`, ended at `found_end_offset`; -1 when it has none.
cdef inline Position fetch_position(int32_t last_epoch, int64_t fetch_offset, int32_t found_epoch,
                                    int64_t found_end_offset) noexcept nogil:
    if last_epoch < 0:
        return POSITION_FITS
    if found_epoch < 0 or found_end_offset < 0:
        return POSITION_UNKNOWN
    if found_epoch < last_epoch or found_end_offset < fetch_offset:
        return POSITION_DIVERGES
    return POSITION_FITS

# The error of a produce request, or 0.
cdef inline int16_t produce_refused(int16_t acks, bint is_leader, int32_t in_sync, int32_t min_in_sync) noexcept nogil:
    if not is_leader:
        return NOT_LEADER_OR_FOLLOWER
    if acks == -1 and in_sync < min_in_sync:
        return NOT_ENOUGH_REPLICAS
    return 0

# ---------------------------------------------------------------- the follower

# In commit mode a fetch offset says that all below is on the medium.
cdef inline bint may_claim(bint commit_mode, int64_t durable_end_offset, int64_t log_end_offset) noexcept nogil:
    return not commit_mode or durable_end_offset >= log_end_offset

# Whether records belong to the end of the log: the answer counts for the requested offset.
cdef inline bint answer_follows(int64_t sent_offset, int64_t log_end_offset) noexcept nogil:
    return sent_offset == log_end_offset

# What a follower does whose fetch offset the leader does not have.
cdef inline OutOfRange out_of_range(int64_t leader_start_offset, int64_t leader_end_offset,
                                    int64_t log_end_offset) noexcept nogil:
    if leader_end_offset < log_end_offset:
        return TRUNCATE_TO_LEADER_END
    if leader_start_offset > log_end_offset:
        return RESTART_AT_LEADER_START
    return FETCH_AGAIN
