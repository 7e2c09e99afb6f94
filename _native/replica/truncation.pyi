"""Types of a follower's truncation; see truncation.pyx."""

def truncate_to(
    leader_epoch: int,
    leader_end_offset: int,
    own_epoch: int,
    own_end_offset: int,
    log_end_offset: int,
    high_watermark: int,
) -> int: ...
