"""The partitions that a reactor follows: how they begin, fail, truncate and end. Only the reactor's thread calls."""
from libc.stdint cimport int16_t, int32_t, int64_t
from bowstring._native.server.follow_types cimport Fetcher, FollowOrder, FollowPart, TruncateJob
from bowstring._native.server.partition_types cimport Partition
from bowstring._native.server.reactor_types cimport Reactor

cdef enum:
    FOLLOW_NEVER = 0x7FFFFFFFFFFFFFFF
    FIRST_PAUSE_MS = 10

# Whether the part is over: this broker leads the partition now, follows it in another epoch, or has deleted it.
cdef bint part_void(const FollowPart *part) noexcept nogil
# Returns the part of a partition at this fetcher, or NULL.
cdef FollowPart *part_of(const Fetcher *f, const Partition *p) noexcept nogil
# Begins, or continues in a new epoch, and frees the order. The fetcher is that of the order.
cdef void part_begin(Fetcher *f, FollowOrder *order) noexcept nogil
# Frees the part, which its fetcher no longer lists.
cdef void part_free(FollowPart *part) noexcept nogil
# How long to wait after so many failures in a row: FIRST_PAUSE_MS, and twice as long each time up to `most_ms`.
cdef int64_t pause_ms(int64_t most_ms, int64_t failures) noexcept nogil
# Pauses the part after an error, or until the next order; notifies the control thread once.
cdef void part_fail(FollowPart *part, int16_t error) noexcept nogil
# Cuts the log to `offset` on a storage thread, or empties it to begin there.
cdef void part_truncate(FollowPart *part, int64_t offset, bint fully) noexcept nogil
# The leader's log and this one differ: the epoch of the last record here ended there at `end_offset`.
cdef void part_diverged(FollowPart *part, int32_t epoch, int64_t end_offset) noexcept nogil
# OFFSET_OUT_OF_RANGE: what the leader's log has. Truncates, or tries again later.
cdef void part_out_of_range(FollowPart *part, int64_t leader_start_offset, int64_t leader_end_offset) noexcept nogil
# MAIL_TRUNCATED. Frees the job.
cdef void part_truncated(Reactor *r, TruncateJob *job) noexcept nogil
# Frees a job or an order that no reactor will read.
cdef void truncate_drop(TruncateJob *job) noexcept nogil
cdef void order_drop(FollowOrder *order) noexcept nogil
