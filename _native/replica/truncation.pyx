"""Where a follower truncates its log to, see truncation.pxd."""
from libc.stdint cimport int32_t, int64_t


cdef int64_t truncation_offset(int32_t leader_epoch, int64_t leader_end_offset, int32_t own_epoch, int64_t own_end_offset,
                               int64_t log_end_offset, int64_t high_watermark) noexcept nogil:
    cdef int64_t offset = leader_end_offset
    if leader_end_offset < 0:
        return high_watermark                            # the leader lacks the epoch
    if leader_epoch >= 0 and own_epoch >= 0:
        # Without the leader's epoch, the end of the greatest one below it; the next fetch then compares that one.
        offset = own_end_offset if own_epoch != leader_epoch else min(own_end_offset, leader_end_offset)
    return offset if offset < log_end_offset else log_end_offset


def truncate_to(int32_t leader_epoch, int64_t leader_end_offset, int32_t own_epoch, int64_t own_end_offset,
                int64_t log_end_offset, int64_t high_watermark):
    """Returns the offset that a follower truncates to; see truncation.pxd."""
    return truncation_offset(leader_epoch, leader_end_offset, own_epoch, own_end_offset, log_end_offset, high_watermark)
