"""Holds a share group: its members and the state of its share partitions."""

from bowstring.engine.groups.group import PartitionCheck
from bowstring.engine.groups.modern.group import SubscribingGroup
from bowstring.engine.groups.share.member import ShareMember
from bowstring.engine.groups.share.state_partitions import StatePartitions
from bowstring.protocol.errors import Error, Errors


class ShareGroup(SubscribingGroup[ShareMember]):
    """A share group of KIP-932. It has no committed offsets, and never expires.

    Attributes:
        partitions: Which share partitions have state; None if there is no record of them.
    """

    group_type = "share"
    protocol_type = "share"

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.partitions: StatePartitions | None = None

    @property
    def state(self) -> str:
        """The state's name, as in ListGroups."""
        return "Stable" if self.members else "Empty"

    def check_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        transactional: bool = False,
        api_version: int = 0,
    ) -> Error:
        """Refuses all offsets."""
        return Errors.GROUP_ID_NOT_FOUND

    def partition_check(self, member_id: str, generation: int) -> PartitionCheck | None:
        """Checks nothing: no offset is committed."""
        return None

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> Error:
        """Refuses all offsets."""
        return Errors.GROUP_ID_NOT_FOUND

    def check_offset_delete(self) -> Error:
        """Refuses all offsets."""
        return Errors.GROUP_ID_NOT_FOUND

    def set_partitions(self, partitions: StatePartitions) -> None:
        """Sets which share partitions have state."""
        self.partitions = partitions
