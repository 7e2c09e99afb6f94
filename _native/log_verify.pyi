"""Types of log_verify's Python face."""

from os import PathLike
from typing import TypedDict

class Damage(TypedDict):
    what: str
    position: int
    size_bytes: int
    # the offset that was due there
    first_offset: int
    # where the log goes on; -1 when no good batch follows
    end_offset: int

class VerifiedPiece(TypedDict):
    position: int
    next_offset: int
    batches: int
    records: int
    damage: list[Damage]
    done: bool

def verify_file(
    path: str | PathLike[str],
    base_offset: int,
    *,
    position: int = 0,
    next_offset: int = -1,
    max_bytes: int = ...,
) -> VerifiedPiece: ...
