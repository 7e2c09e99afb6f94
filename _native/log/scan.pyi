"""Types of scan.pyx."""

from os import PathLike
from typing import TypedDict, type_check_only

SCAN_PIECE_BYTES: int

@type_check_only
class ScanFound(TypedDict):
    valid_end: int
    batches: int
    records: int
    # last offset + 1 of the last good batch; -1 without one
    next_offset: int
    # why the scan ended before the range did, or None
    bad: str | None

def scan_file(path: str | PathLike[str], position: int = 0, end: int = -1) -> ScanFound: ...
