from bowstring._native.log.partition_log import PartitionLog

SharedSegment = tuple[int, int, int, int, int, int, bool, str, list[tuple[int, int]], int]

def shared_segments(
    log: PartitionLog,
    offset: int,
    *,
    read_committed: bool = False,
    max_segments: int = 16,
    below_offset: int = ...,
) -> tuple[int, int, int, int, int, list[SharedSegment]]: ...
