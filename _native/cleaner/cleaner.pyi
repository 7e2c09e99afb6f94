"""Types of cleaner.pyx."""

from typing import Self, TypedDict, type_check_only

from bowstring._native.log.partition_log import PartitionLog

class CleaningStopped(Exception): ...
class UncleanableLog(Exception): ...

@type_check_only
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
    def __new__(cls, bytes_per_second: float = ...) -> Self: ...

class Cleaning:
    def __new__(
        cls,
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
    ) -> Self: ...
    def stop(self) -> None: ...
    def end_at(self, offset: int) -> None: ...
    def run(self) -> CleaningFigures: ...

def segment_facts(
    log: PartitionLog, *, first_timestamps: bool = False
) -> list[tuple[int, int, int, int]]: ...
