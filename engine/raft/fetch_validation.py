"""Decides how a follower's log continues the leader's: by records, by a truncation, or by a snapshot."""

from typing import Final, NamedTuple

from bowstring.engine.raft.keys import BOOTSTRAP_SNAPSHOT, OffsetAndEpoch
from bowstring.engine.raft.log import RaftLog


class Validity:
    """How a follower's log continues."""

    VALID: Final = "valid"
    DIVERGING: Final = "diverging"
    SNAPSHOT: Final = "snapshot"


class Validation(NamedTuple):
    """`at` is where the follower truncates to (DIVERGING) or the snapshot that it must fetch (SNAPSHOT)."""

    kind: str
    at: OffsetAndEpoch


def validate_fetch(log: RaftLog, offset: int, last_epoch: int) -> Validation:
    """Compares the end of a follower's log with the leader's.

    The epoch decides, not the offset alone: two logs with the same epoch before the same offset are the same
    up to there. A follower below the log's start, or older than the snapshot there, gets the newest snapshot;
    so does an empty one, because that is less to read than the log.
    """
    earliest, latest = log.earliest_snapshot_id(), log.latest_snapshot_id()
    if offset == 0 and latest is not None and latest != BOOTSTRAP_SNAPSHOT:
        return Validation(Validity.SNAPSHOT, latest)
    if offset == 0 and log.start_offset == 0:
        return Validation(Validity.VALID, OffsetAndEpoch(0, 0))
    if earliest is not None and latest is not None:
        start = log.start_offset
        too_old = offset < start or (offset == start and last_epoch != earliest.epoch)
        if too_old or last_epoch < earliest.epoch:
            return Validation(Validity.SNAPSHOT, latest)
    end = log.end_offset_for_epoch(last_epoch)
    if end.epoch != last_epoch or end.offset < offset:
        return Validation(Validity.DIVERGING, end)
    return Validation(Validity.VALID, OffsetAndEpoch(offset, last_epoch))
