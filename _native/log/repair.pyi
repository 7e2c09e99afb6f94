"""Types of repair.pyx."""

from typing_extensions import Buffer

from bowstring._native.log.partition_log import PartitionLog

def corrupt_offsets(log: PartitionLog) -> list[tuple[int, int, int, int, int, int]]: ...
def write_back(log: PartitionLog, place: tuple[int, int, int, int, int, int], data: Buffer) -> bool: ...
