"""Holds the state of one share partition."""

from dataclasses import dataclass
from typing import NamedTuple

from bowstring.engine.share.persister.interface import UNKNOWN_COUNT
from bowstring.protocol.share_batches import StateBatch, combine


class PartitionState(NamedTuple):
    """What a snapshot record holds.

    Attributes:
        snapshot_epoch: Counts the snapshots; an update carries that of the snapshot before it.
        state_epoch: Raised by an admin client that resets the share partition.
        leader_epoch: That of the last leader that read the state.
        start_offset: -1 before the group has read.
        delivery_complete_count: Records from the start offset on that are acknowledged or archived; -1 if
            unknown.
        created_ms: When the state was written that this snapshot repeats, in ms since 1970.
        written_ms: When the snapshot was written.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = UNKNOWN_COUNT
    batches: tuple[StateBatch, ...] = ()
    created_ms: int = 0
    written_ms: int = 0


class StateUpdate(NamedTuple):
    """What an update record changes. Offset and epoch of -1 change nothing."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


@dataclass(slots=True)
class SharePartition:
    """A share partition.

    Attributes:
        state: The snapshot with all later updates.
        newest_leader_epoch: Requests with an older one are fenced.
        newest_state_epoch: The same for state epochs.
        updates: Update records since the last snapshot that `update_limit` has caused.
        snapshot_offset: Offset of the last snapshot in the log; those before it are not needed.
    """

    state: PartitionState
    newest_leader_epoch: int
    newest_state_epoch: int
    updates: int = 0
    snapshot_offset: int = -1

    def snapshot(self, state: PartitionState, offset: int, update_limit: int) -> None:
        """Applies a snapshot record."""
        self.state = state
        self.newest_leader_epoch = max(self.newest_leader_epoch, state.leader_epoch)
        self.newest_state_epoch = max(self.newest_state_epoch, state.state_epoch)
        self.snapshot_offset = offset
        if self.updates >= update_limit:
            self.updates = 0

    def update(self, change: StateUpdate) -> None:
        """Applies an update record. One that arrives late has an older start offset, which does not count."""
        held = self.state
        start_offset = max(held.start_offset, change.start_offset)
        self.newest_leader_epoch = max(self.newest_leader_epoch, change.leader_epoch)
        self.state = held._replace(
            leader_epoch=held.leader_epoch if change.leader_epoch == -1 else change.leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=change.delivery_complete_count,
            batches=combine(held.batches, change.batches, start_offset),
        )
        self.updates += 1
