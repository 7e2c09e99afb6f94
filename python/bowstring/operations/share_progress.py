"""Reads how far share groups are with single records, from the records of `__share_group_state` (KIP-932)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bowstring.protocol import ProtocolError
from bowstring.protocol.ids import format_uuid
from bowstring.protocol.partitioning import coordinator_partition
from bowstring.protocol.records import SHARE_GROUP_STATE
from bowstring.protocol.records.coordinator import decode_record
from bowstring.protocol.records.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from bowstring.protocol.records.share_state import StateBatch as StoredBatch
from bowstring.protocol.share_batches import StateBatch, combine

STATE_TOPIC = SHARE_GROUP_STATE.topic
AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED = 0, 2, 3, 4
STATE_NAMES: Mapping[int, str] = {
    AVAILABLE: "available again",
    ACKNOWLEDGED: "acknowledged",
    ARCHIVING: "on the way to the dead-letter topic",
    ARCHIVED: "archived",
}
BATCHES_MAX = 10_000
"""Of one share partition; brokers hold 2,000 records in flight by default."""


class ShareKey(NamedTuple):
    """A partition as a share group reads it. `topic_id` has 16 bytes."""

    group: str
    topic_id: bytes
    partition: int

    def state_partition(self, partitions: int) -> int:
        """Returns which partition of the state's topic has the records of this key."""
        return coordinator_partition(
            f"{self.group}:{format_uuid(self.topic_id)}:{self.partition}", partitions
        )


class SharePlace(NamedTuple):
    """Where a share group is in a partition.

    Attributes:
        start_offset: the first record that may still be delivered; -1 before the group has begun.
        batches: records from there on that were delivered and came back, or are done, in order. What a member
            holds now is only in the memory of the partition's leader.
    """

    start_offset: int
    batches: tuple[StateBatch, ...]

    def by_state(self) -> dict[str, int]:
        """Returns how many records are in each state, by its name."""
        found = Counter[str]()
        for each in self.batches:
            name = STATE_NAMES.get(each.delivery_state, f"in state {each.delivery_state}")
            found[name] += each.last_offset - each.first_offset + 1
        return dict(found)

    def by_count(self) -> dict[int, int]:
        """Returns how many records were delivered once, twice and so on."""
        found = Counter[int]()
        for each in self.batches:
            found[each.delivery_count] += each.last_offset - each.first_offset + 1
        return dict(sorted(found.items()))


class ShareStates:
    """The states that records of `__share_group_state` make, one record after the other.

    Args:
        wanted: whose states to keep.
    """

    def __init__(self, wanted: Sequence[ShareKey] = ()) -> None:
        self._wanted = frozenset(wanted)
        self._places: dict[ShareKey, SharePlace] = {}

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Takes the next record of a partition of the topic; those of unknown types change nothing."""
        try:
            decoded = decode_record(SHARE_GROUP_STATE, key or b"", value)
        except ProtocolError:
            return
        if decoded is None:
            return
        name, body = decoded
        if not isinstance(name, ShareSnapshotKey | ShareUpdateKey):
            return
        place = ShareKey(name.group_id, name.topic_id, name.partition)
        if place not in self._wanted:
            return
        if body is None:
            self._places.pop(place, None)
        elif isinstance(body, ShareSnapshotValue):
            whole = combine((), _batches(body.state_batches), body.start_offset)
            self._places[place] = SharePlace(body.start_offset, whole)
        elif isinstance(body, ShareUpdateValue) and place in self._places:
            held = self._places[place]
            start = max(held.start_offset, body.start_offset)
            merged = combine(held.batches, _batches(body.state_batches), start)
            self._places[place] = SharePlace(start, merged[:BATCHES_MAX])

    def of(self, key: ShareKey) -> SharePlace | None:
        """Returns the state of a share partition; None if no snapshot of it was read."""
        return self._places.get(key)


def _batches(stored: Sequence[StoredBatch]) -> list[StateBatch]:
    return [
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in stored[:BATCHES_MAX]
    ]
