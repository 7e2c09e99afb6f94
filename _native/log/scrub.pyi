"""Types of scrub."""

from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.log.verify import VerifiedPiece

def scrub_piece(
    log: PartitionLog,
    base_offset: int,
    *,
    position: int = 0,
    next_offset: int = -1,
    max_bytes: int = ...,
) -> VerifiedPiece | None: ...
