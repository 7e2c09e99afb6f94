"""Holds a member of a consumer group."""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

# by topic id and partition: the member epoch in which the partition was assigned
PartitionEpochs = Mapping[bytes, Mapping[int, int]]

NO_PARTITIONS: PartitionEpochs = {}
NEVER = -1
CLASSIC = 0
CONSUMER = 1


class MemberState(IntEnum):
    """How far a member is with its target assignment; values as in records."""

    STABLE = 0
    # The member must give up partitions before it gets others.
    UNREVOKED_PARTITIONS = 1
    # The member waits for partitions that others have not given up yet.
    UNRELEASED_PARTITIONS = 2
    # written by a newer version
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> "MemberState":
        return cls.UNKNOWN


class ClassicMember(NamedTuple):
    """What a member of the classic protocol has said when it joined."""

    session_timeout_ms: int
    # (name, metadata), most preferred first
    protocols: tuple[tuple[str, bytes], ...]


class Member(NamedTuple):
    """One member. Its assignment is the one to use, not its target assignment.

    Attributes:
        subscribed_regex: Regular expression in RE2's syntax for topics; empty for none.
        assigned: Partitions that the member may use.
        pending_revocation: Partitions that the member has to give up and may still use.
        classic: Set if the member uses the classic protocol.
    """

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = NEVER
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    subscribed_topics: frozenset[str] = frozenset()
    subscribed_regex: str | None = ""
    assignor: str | None = None
    assigned: PartitionEpochs = NO_PARTITIONS
    pending_revocation: PartitionEpochs = NO_PARTITIONS
    classic: ClassicMember | None = None

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has its target assignment of this epoch."""
        return self.member_epoch == epoch and self.state is MemberState.STABLE

    def at_epoch(self, epoch: int) -> "Member":
        """Returns the member with another member epoch; the present one becomes the previous one."""
        return self._replace(member_epoch=epoch, previous_member_epoch=self.member_epoch)

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """Returns the member epoch in which a partition was assigned that the member still uses; None if it
        does not have the partition.
        """
        for held in (self.assigned, self.pending_revocation):
            epoch = held.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None
