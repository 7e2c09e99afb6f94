from os import PathLike

from bowstring._native.log import PartitionLog

class LogCopy:
    source: PartitionLog
    target: PartitionLog
    def __init__(self, source: PartitionLog, target: PartitionLog) -> None: ...
    def copy(self, max_bytes: int) -> int: ...

def move_directory(log: PartitionLog, path: str | PathLike[str]) -> None: ...
