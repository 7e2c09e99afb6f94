from os import PathLike
from typing import TypedDict

from bowstring._native.log import PartitionLog

class ReplayResult(TypedDict):
    last_frame: int
    superseded: tuple[int, int] | None
    frames: int
    bytes: int
    unknown: int
    # batches, bytes, batches that were there already, offsets that are nowhere (from, to)
    logs: dict[tuple[bytes, int], tuple[int, int, int, tuple[int, int] | None]]

def segment_numbers(path: str | PathLike[str]) -> list[int]: ...
def first_frame(path: str | PathLike[str]) -> tuple[int, int] | None: ...
def survey(path: str | PathLike[str]) -> int: ...
def supersede(path: str | PathLike[str], run: int, frame: int) -> None: ...
def replay(path: str | PathLike[str], logs: dict[tuple[bytes, int], PartitionLog]) -> ReplayResult: ...
