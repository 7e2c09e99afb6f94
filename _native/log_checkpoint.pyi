"""Types of log_checkpoint's Python face."""

from typing import TypedDict

from bowstring._native.log import PartitionLog

class FlushOutcome(TypedDict):
    # logs that had something to flush, and have it on the medium now
    flushed: int
    # logs that could not be flushed and are out of service
    failed: int
    # synced as a whole; 0 when the logs were flushed one by one
    file_systems: int

def flush_logs(logs: list[PartitionLog], *, bulk_from: int = ...) -> FlushOutcome: ...
def flush_rolled(logs: list[PartitionLog]) -> int: ...
