"""The rules of rules.pxd for Python: tests and the simulator call the same code as the data plane."""
from libc.stdint cimport int32_t, int64_t


def fetch_error(bint of_follower, bint is_leader, bint has_followers, int32_t named_epoch, int32_t leader_epoch):
    """Returns the error code of a fetch whose version may read from followers; 0 when it may go on."""
    return fetch_refused(of_follower, True, is_leader, has_followers, named_epoch, leader_epoch)


def position(int32_t last_epoch, int64_t fetch_offset, int32_t found_epoch, int64_t found_end_offset):
    """Returns "fits", "diverges" or "unknown"; see fetch_position() in rules.pxd."""
    cdef Position found = fetch_position(last_epoch, fetch_offset, found_epoch, found_end_offset)
    return "fits" if found == POSITION_FITS else "diverges" if found == POSITION_DIVERGES else "unknown"


def produce_error(int acks, bint is_leader, int32_t in_sync, int32_t min_in_sync):
    """Returns the error code of a produce request; 0 when it may go on."""
    return produce_refused(acks, is_leader, in_sync, min_in_sync)


def claims(bint commit_mode, int64_t durable_end_offset, int64_t log_end_offset):
    """Returns whether a follower may fetch from its log end; see may_claim() in rules.pxd."""
    return may_claim(commit_mode, durable_end_offset, log_end_offset) != 0


def follows(int64_t sent_offset, int64_t log_end_offset):
    """Returns whether the records of an answer belong to the log end."""
    return answer_follows(sent_offset, log_end_offset) != 0


def when_out_of_range(int64_t leader_start_offset, int64_t leader_end_offset, int64_t log_end_offset):
    """Returns "truncate", "restart" or "again"; see out_of_range() in rules.pxd."""
    cdef OutOfRange found = out_of_range(leader_start_offset, leader_end_offset, log_end_offset)
    return "truncate" if found == TRUNCATE_TO_LEADER_END else "restart" if found == RESTART_AT_LEADER_START else "again"
