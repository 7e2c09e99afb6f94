from os import PathLike
from typing import Self

from bowstring._native.log.partition_log import PartitionLog

class FutureReplica:
    source: PartitionLog
    target: PartitionLog
    def __new__(cls, source: PartitionLog, target: PartitionLog) -> Self: ...
    def copy(self, max_bytes: int) -> int: ...

def move_directory(log: PartitionLog, path: str | PathLike[str]) -> None: ...
