"""Holds what all groups of the new protocols have: members, epochs and a target assignment."""

from collections.abc import Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from bowstring.protocol.errors import Error, Errors

# partitions by topic id
Assignment = Mapping[bytes, frozenset[int]]

NO_ASSIGNMENT: Assignment = {}
FIRST_EPOCH = 1
DELETED_EPOCH = -1
# member epochs with which members leave
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2
NEVER_MS = 0
"""The assignment time of a group whose last member has left: the next assignment waits for no interval."""


class ModernMember(Protocol):
    """A member, as all groups of the new protocols see it. It is immutable: a change makes another one."""

    @property
    def member_id(self) -> str:
        """The member's id."""

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has its target assignment of this epoch."""


class SubscribingMember(ModernMember, Protocol):
    """A member that names the topics that it reads."""

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """Names of the topics to which the member subscribes."""


M = TypeVar("M", bound=ModernMember)
S = TypeVar("S", bound=SubscribingMember)
# what a member is to have
T = TypeVar("T")


class ModernGroup(Generic[M, T]):
    """Members, epochs and target assignment of one group. Implements most of `group.Group`.

    Change members only with `put_member` and `remove_member`, which keep the counts of them.

    Attributes:
        epoch: Group epoch. It rises when members, subscriptions or subscribed topics change.
        assignment_epoch: The group epoch for which `target` was computed.
        assignment_timestamp_ms: When it was computed, wall time; 0 if unknown.
        metadata_hash: `ClusterView.metadata_hash` of the topics that the group needs, in this group epoch.
        target: The target assignment, by member id.
    """

    group_type: str
    protocol_type: str | None = None

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        self.metadata_hash = 0
        self.members: dict[str, M] = {}
        self.target: dict[str, T] = {}

    def __repr__(self) -> str:
        size = len(self.members)
        return f"{type(self).__name__}({self.group_id!r}, {self.state}, epoch={self.epoch}, {size} members)"

    # ---- questions

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    @property
    def state(self) -> str:
        """The state's name, as in ListGroups."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        epoch = self.assignment_epoch
        if all(member.is_reconciled_to(epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def check_offset_delete(self) -> Error:
        """Allows the deletion of offsets; topics that the group reads are refused one by one."""
        return Errors.NONE

    def check_delete(self) -> Error:
        """Allows the deletion of empty groups only."""
        return Errors.NON_EMPTY_GROUP if self.members else Errors.NONE

    def offset_expiry_base_ms(self, commit_timestamp_ms: int) -> int | None:
        """Time from which retention counts for an offset committed then."""
        return commit_timestamp_ms

    # ---- changes

    def set_target_epoch(self, epoch: int, timestamp_ms: int) -> None:
        """Sets the epoch of the target assignment and when it was computed."""
        self.assignment_epoch = epoch
        self.assignment_timestamp_ms = timestamp_ms

    def set_target(self, member_id: str, assignment: T) -> None:
        """Sets the target assignment of a member."""
        self.target[member_id] = assignment

    def put_member(self, member: M) -> None:
        """Adds a member, or replaces the one with the same id."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self._member_changed(old, member)

    def remove_member(self, member_id: str) -> None:
        """Removes a member and its target assignment."""
        old = self.members.pop(member_id, None)
        self.target.pop(member_id, None)
        if old is not None:
            self._member_changed(old, None)

    def _member_changed(self, old: M | None, new: M | None) -> None:
        """Updates the counts. A subclass with more counts calls this one, too."""


class SubscribingGroup(ModernGroup[S, Assignment]):
    """A group whose members subscribe to topics and share their partitions.

    Attributes:
        topic_counts: How many members subscribe to a topic by name.
        refreshed_version: The `ClusterView.topics_version` with which `metadata_hash` was last compared.
    """

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.topic_counts: dict[str, int] = {}
        self.refreshed_version = -1

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads `topic`."""
        return topic in self.topic_counts

    @property
    def subscribed_topics(self) -> Iterable[str]:
        """Names of all topics to which members subscribe."""
        return self.topic_counts

    def set_epoch(self, epoch: int, metadata_hash: int, topics_version: int) -> None:
        """Sets the group epoch, and the metadata of the subscribed topics in it."""
        self.epoch = epoch
        self.metadata_hash = metadata_hash
        self.refreshed_version = topics_version

    def _member_changed(self, old: S | None, new: S | None) -> None:
        super()._member_changed(old, new)
        before = frozenset() if old is None else old.subscribed_topics
        after = frozenset() if new is None else new.subscribed_topics
        if before != after:
            count_all(self.topic_counts, before - after, -1)
            count_all(self.topic_counts, after - before, 1)

    def replayed(self) -> None:
        """Counts anew after `members` was filled from the log without `put_member`."""
        self.topic_counts.clear()
        for member in self.members.values():
            self._member_changed(None, member)


def count_all(counts: dict[str, int], names: Iterable[str], change: int) -> None:
    """Adds `change` to the count of each name; a count of 0 is removed."""
    get = counts.get
    for name in names:
        if count := get(name, 0) + change:
            counts[name] = count
        else:
            counts.pop(name, None)
