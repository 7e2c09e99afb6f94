"""The log and the snapshots as a replica sees them."""

from typing import Protocol

from bowstring.engine.raft.keys import OffsetAndEpoch


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


def end_of(log: RaftLog) -> OffsetAndEpoch:
    """Returns the end of the log."""
    return OffsetAndEpoch(log.end_offset, log.last_epoch)
