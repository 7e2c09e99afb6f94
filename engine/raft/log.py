"""The log and the snapshots as a replica sees them, and where a follower's log may continue the leader's."""

from enum import Enum
from typing import NamedTuple, Protocol

from bowstring.engine.raft.keys import BOOTSTRAP_SNAPSHOT, OffsetAndEpoch


class NotAppendedError(Exception):
    """A batch could not be appended now, as for want of descriptors; nothing of it is in the log, and another
    try may succeed.
    """


class RaftLog(Protocol):
    """The metadata log and its snapshots. Reads see what was appended, durable or not.

    Nothing here waits for the medium: `FlushLog` and `InstallSnapshot` leave that to the shell. Every error
    of the disk but `NotAppendedError` ends the replica; the shell stops it.
    """

    @property
    def start_offset(self) -> int:
        """Offset of the first record. Below it, there is a snapshot that ends here or later."""
        ...

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""
        ...

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record, or of the snapshot that the log starts after; 0 when there is neither."""
        ...

    def append(self, batch: bytes) -> None:
        """Appends record batches whose offsets and epochs are assigned and checked.

        Raises:
            NotAppendedError: Those before one of them were appended, and no more.
        """
        ...

    def truncate_to(self, offset: int) -> None:
        """Removes the records from `offset` on."""
        ...

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Returns the largest epoch up to `epoch` in the log, and the offset at which it ends.

        When all epochs of the log are larger: the log's start and the epoch of the snapshot there.
        """
        ...

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Returns complete batches from the one with `offset` on, at least one and then up to `max_bytes`."""
        ...

    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        """The newest complete snapshot."""
        ...

    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        """The oldest complete snapshot. The log starts at its end, unless that is the bootstrap snapshot."""
        ...

    def snapshot_size(self, id: OffsetAndEpoch) -> int | None:
        """The size in bytes of a complete snapshot; None when there is no such snapshot."""
        ...

    def read_snapshot(self, id: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        """Returns bytes of a complete snapshot."""
        ...

    def begin_snapshot(self, id: OffsetAndEpoch) -> None:
        """Begins an incomplete snapshot, in place of any other incomplete one."""
        ...

    def append_snapshot(self, id: OffsetAndEpoch, data: bytes) -> int:
        """Appends to the incomplete snapshot; returns its size in bytes."""
        ...


class Validity(Enum):
    """How a follower's log continues."""

    VALID = "valid"
    DIVERGING = "diverging"
    SNAPSHOT = "snapshot"


class Validation(NamedTuple):
    """`at` is where the follower truncates to (DIVERGING) or the snapshot that it must fetch (SNAPSHOT)."""

    kind: Validity
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


def truncation_offset(log: RaftLog, diverging: OffsetAndEpoch) -> int:
    """Returns where a follower truncates to: the end of the leader's epoch, or of its own last epoch up to
    that, whichever is smaller.
    """
    own = log.end_offset_for_epoch(diverging.epoch)
    if own.epoch != diverging.epoch:
        return own.offset
    return min(own.offset, diverging.offset)


def end_of(log: RaftLog) -> OffsetAndEpoch:
    """Returns the end of the log."""
    return OffsetAndEpoch(log.end_offset, log.last_epoch)
