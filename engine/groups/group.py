"""Defines the interface of all group types for the parts of the coordinator that serve every type.

A type has a class with these methods and rows in `replay.APPLY`, `shard._TIMERS` and
`administration.TOMBSTONES`. Types of the new protocols extend `modern.group.ModernGroup`.
"""

from collections.abc import Callable
from typing import Protocol

from bowstring.protocol.errors import Error

# checks one partition, by topic name and id
PartitionCheck = Callable[[str, bytes, int], Error]


class Group(Protocol):
    """A group of any type, as offsets and administration use it."""

    group_type: str
    group_id: str

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""

    @property
    def state(self) -> str:
        """The state's name."""

    @property
    def protocol_type(self) -> str | None:
        """Protocol type for ListGroups."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads `topic`."""

    def check_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        transactional: bool = False,
        api_version: int = 9,
    ) -> Error:
        """Whether this member may commit at this generation or member epoch."""

    def partition_check(self, member_id: str, generation: int) -> PartitionCheck | None:
        """Returns what each partition of a commit must pass as well; None if nothing."""

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> Error:
        """Whether this member may read offsets."""

    def check_offset_delete(self) -> Error:
        """Whether offsets may be deleted by an admin client."""

    def check_delete(self) -> Error:
        """Whether the group may be deleted."""

    def offset_expiry_base_ms(self, commit_timestamp_ms: int) -> int | None:
        """Time from which retention counts for an offset committed then; None while it must be kept."""
