"""Types of log_damage."""

from typing import TypedDict

from bowstring._native.log import PartitionLog
from bowstring._native.log_verify import VerifiedPiece

class Finding(TypedDict):
    # what is wrong, for people
    what: str
    # the file's name in the partition's directory; None when there is no such file
    file: str | None
    # the bytes concerned
    position: int
    size_bytes: int
    # the offsets concerned, [first_offset, end_offset); -1 when unknown
    first_offset: int
    end_offset: int
    # the bytes are still there, and are not to be read
    out_of_service: bool

def take_findings(log: PartitionLog) -> list[Finding]: ...
def scrub_piece(
    log: PartitionLog,
    base_offset: int,
    *,
    position: int = 0,
    next_offset: int = -1,
    max_bytes: int = ...,
) -> VerifiedPiece | None: ...
