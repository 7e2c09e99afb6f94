"""Defines how the state of share partitions is read and written (KIP-932)."""

from typing import Final, NamedTuple, Protocol

from bowstring.protocol.errors import Error
from bowstring.protocol.ids import format_uuid, parse_uuid
from bowstring.protocol.share_batches import StateBatch
from bowstring.protocol.whole_numbers import whole_number

UNINITIALIZED_START_OFFSET: Final = -1
"""The group has not read the share partition yet, so share.auto.offset.reset decides where it starts."""
UNKNOWN_COUNT: Final = -1
"""The records whose delivery is complete were not counted."""


class SharePartitionKey(NamedTuple):
    """A partition as a share group reads it. `topic_id` has 16 bytes."""

    group_id: str
    topic_id: bytes
    partition: int


def coordinator_key(key: SharePartitionKey) -> str:
    """Returns the text whose hash chooses the coordinator, as FindCoordinator has it."""
    return f"{key.group_id}:{format_uuid(key.topic_id)}:{key.partition}"


def parse_coordinator_key(text: str) -> SharePartitionKey:
    """Parses what `coordinator_key` returns; the group id may contain colons.

    Raises:
        ValueError: The text is no key.
    """
    group_id, topic_id, partition = text.rsplit(":", 2)
    if not group_id.strip():
        raise ValueError("the group id is empty")
    number = whole_number(partition.removeprefix("-"), 1 << 31)
    if number is None or (number == 1 << 31 and not partition.startswith("-")):
        raise ValueError("the partition is no number")
    if partition.startswith("-"):
        number = -number
    return SharePartitionKey(group_id, parse_uuid(topic_id), number)


class ReadState(NamedTuple):
    """The answer to `Persister.read_state`. If `error` is set, the rest has no meaning."""

    error: Error
    state_epoch: int = 0
    start_offset: int = UNINITIALIZED_START_OFFSET
    batches: tuple[StateBatch, ...] = ()


class WrittenState(NamedTuple):
    """What `Persister.write_state` changes.

    Attributes:
        state_epoch: The one that was read; an older one is refused with FENCED_STATE_EPOCH.
        leader_epoch: That of the partition's leader; an older one is refused with FENCED_LEADER_EPOCH.
        start_offset: The new start of the share partition; -1 leaves it. State below it is forgotten.
        delivery_complete_count: Records from the start offset on that are acknowledged or archived; -1 if
            unknown.
        batches: New states of records. Those of other records stay.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class StateSummary(NamedTuple):
    """The answer to `Persister.read_summary`. If `error` is set, the rest has no meaning.

    A share partition without state has start offset -1.
    """

    error: Error
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNINITIALIZED_START_OFFSET
    delivery_complete_count: int = UNKNOWN_COUNT


class Persister(Protocol):
    """Each call ends when the change is committed, or with an error; none raises.

    Errors that pass are tried again for some seconds. Calls for one share partition are carried out in the
    order in which they are made, if each is awaited before the next.
    """

    async def read_state(self, key: SharePartitionKey, leader_epoch: int) -> ReadState:
        """Reads the state, and fences leaders of older epochs. INVALID_REQUEST: it was never initialized."""

    async def write_state(self, key: SharePartitionKey, written: WrittenState) -> Error:
        """Changes the state. INVALID_REQUEST: it was never initialized, or is deleted."""

    async def read_summary(self, key: SharePartitionKey, leader_epoch: int = -1) -> StateSummary:
        """Reads the state without its batches."""

    async def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> Error:
        """Creates the state, or replaces it, with nothing delivered from `start_offset` on."""

    async def delete(self, key: SharePartitionKey) -> Error:
        """Deletes the state; NONE if there is none."""
