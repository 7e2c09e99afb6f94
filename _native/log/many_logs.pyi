"""Types of many_logs; see many_logs.pyx."""

from bowstring._native.disk.directory_health import DirectoryHealth
from bowstring._native.log.partition_log import LogError, PartitionLog

def open_logs(
    places: list[tuple[str, int, int]],
    config: dict[str, int],
    *,
    clean_shutdown: bool,
    health: DirectoryHealth,
) -> list[PartitionLog | LogError]: ...
def create_logs(
    places: list[tuple[str, bytes]], config: dict[str, int], *, health: DirectoryHealth
) -> tuple[list[PartitionLog], OSError | LogError | None]: ...
