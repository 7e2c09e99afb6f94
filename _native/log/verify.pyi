"""Types of verify.pyx."""

from os import PathLike
from typing import TypedDict, type_check_only

@type_check_only
class Damage(TypedDict):
    what: str
    position: int
    size_bytes: int
    # the offset expected at `position`
    first_offset: int
    # the offset at which the log continues; -1 when no good batch follows
    end_offset: int

@type_check_only
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
