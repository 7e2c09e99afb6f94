"""Types of index_rebuild."""

from bowstring._native.log.partition_log import PartitionLog

def rebuild_indexes(log: PartitionLog) -> list[int]: ...
