"""Decides what a follower truncates its log to when it diverges from the leader's. Pure. For a fetch offset that the
leader does not have, see out_of_range() in rules.pxd."""
from libc.stdint cimport int32_t, int64_t

# Where a follower truncates to: the leader says that the follower's epoch ended at (leader_epoch, leader_end_offset); the
# follower's own log has (own_epoch, own_end_offset) for leader_epoch, -1 when it has no epoch so old.
cdef int64_t truncation_offset(int32_t leader_epoch, int64_t leader_end_offset, int32_t own_epoch, int64_t own_end_offset,
                               int64_t log_end_offset, int64_t high_watermark) noexcept nogil
