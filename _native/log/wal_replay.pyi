from collections.abc import Iterable
from os import PathLike
from typing import TypedDict, TypeVar, type_check_only

from bowstring._native.log.partition_log import PartitionLog

_Path = TypeVar("_Path", bound=str | PathLike[str])

@type_check_only
class ReplayResult(TypedDict):
    last_frame: int
    superseded: tuple[int, int] | None
    frames: int
    bytes: int
    unknown: int
    # batches, bytes, batches that the log already had, missing offsets (from, to), offset from
    # which on the log's own files had other data
    logs: dict[tuple[bytes, int], tuple[int, int, int, tuple[int, int] | None, int | None]]

def segment_numbers(path: str | PathLike[str]) -> list[int]: ...
def first_frame(path: str | PathLike[str]) -> tuple[int, int] | None: ...
def told_checkpoint(path: str | PathLike[str]) -> int: ...
def survey(path: str | PathLike[str]) -> int: ...
def supersede(path: str | PathLike[str], run: int, frame: int) -> None: ...
def replay(
    paths: Iterable[_Path], logs: dict[tuple[bytes, int], PartitionLog]
) -> dict[_Path, ReplayResult]: ...
