from bowstring._native.log import PartitionLog

SharedSegment = tuple[int, int, int, int, int, int, bool, str, list[tuple[int, int]], int]

def shared_segments(
    log: PartitionLog, offset: int, *, read_committed: bool = False, max_segments: int = 16
) -> tuple[int, int, int, int, int, list[SharedSegment]]: ...
