"""Types of log compaction's native part; see cleaner.pyx."""

from typing import TypedDict

from bowstring._native.log import PartitionLog

class CleaningStopped(Exception): ...
class UncleanableLog(Exception): ...

class CleaningFigures(TypedDict):
    # where the next run's dirty part begins
    end_offset: int
    # first pass
    map_records: int
    map_bytes: int
    map_seconds: float
    map_keys: int
    map_utilization: float
    # second pass
    read_records: int
    read_bytes: int
    written_records: int
    written_bytes: int
    keyless_records: int
    removed_segments: int

class IoThrottle:
    bytes_per_second: float
    def __init__(self, bytes_per_second: float = ...) -> None: ...

class Cleaning:
    def __init__(
        self,
        log: PartitionLog,
        *,
        first_dirty_offset: int,
        first_uncleanable_offset: int,
        now_ms: int,
        delete_retention_ms: int,
        dedupe_bytes: int = ...,
        load_factor: float = ...,
        io_bytes: int = ...,
        throttle: IoThrottle | None = None,
    ) -> None: ...
    def stop(self) -> None: ...
    def run(self) -> CleaningFigures: ...

def segment_facts(
    log: PartitionLog, *, first_timestamps: bool = False
) -> list[tuple[int, int, int, int]]: ...
