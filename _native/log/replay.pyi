"""Types of replay.pyx."""

from bowstring._native.log.partition_log import PartitionLog

def rewrite_unsynced(logs: list[PartitionLog]) -> None: ...
