"""Types of checkpoint.pyx."""

from typing import TypedDict, type_check_only

from bowstring._native.log.partition_log import PartitionLog

@type_check_only
class FlushOutcome(TypedDict):
    # logs that had unflushed data and are now on the medium
    flushed: int
    # logs that could not be flushed and are out of service
    failed: int
    # synced as a whole; 0 when the logs were flushed one by one
    file_systems: int

def flush_logs(logs: list[PartitionLog], *, bulk_from: int = ...) -> FlushOutcome: ...
def flush_rolled(logs: list[PartitionLog]) -> int: ...
