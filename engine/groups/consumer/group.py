"""Holds a consumer group: its members, the owner of each partition, and its regular expressions."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bowstring.engine.groups.consumer.member import Member, PartitionEpochs
from bowstring.engine.groups.group import PartitionCheck
from bowstring.engine.groups.modern.group import NO_ASSIGNMENT, Assignment, SubscribingGroup, count_all
from bowstring.protocol.errors import Error, Errors

FREE = -1
# OffsetCommit names member epochs
MEMBER_EPOCH_VERSION = 9


class ResolvedRegex(NamedTuple):
    """Topics that a regular expression matched."""

    topics: frozenset[str] = frozenset()
    # end of the metadata log, and wall time, when the topics were looked up
    version: int = 0
    timestamp_ms: int = -(1 << 62)


NOTHING_RESOLVED = ResolvedRegex()


class ConsumerGroup(SubscribingGroup[Member]):
    """A consumer group of KIP-848. Members of the classic protocol may be in it, too.

    Attributes:
        static_members: Member id by instance id.
        partition_epochs: By topic id and partition, the member epoch of the member that still has it.
        regex_counts: How many members subscribe with a regular expression.
        resolved: The topics of these regular expressions, if already looked up.
        regex_topic_counts: How many regular expressions match a topic.
        resolved_at: The `ClusterView.created_version` for which `resolved` was looked up.
        resolving: Whether regular expressions are being looked up.
        rejoining: Classic members that must rejoin.
        has_old_metadata_record: A record of Kafka 4.0 about the subscribed topics is still in the log.
        classic_count: How many members use the classic protocol.
    """

    group_type = "consumer"
    protocol_type = "consumer"

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.static_members: dict[str, str] = {}
        self.partition_epochs: dict[bytes, dict[int, int]] = {}
        self.assignor_counts: dict[str, int] = {}
        self.regex_counts: dict[str, int] = {}
        self.regex_topic_counts: dict[str, int] = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        self.resolved_at = -1
        self.resolving = False
        self.rejoining: set[str] = set()
        self.has_old_metadata_record = False
        self.classic_count = 0

    # ---- questions

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads `topic`."""
        return topic in self.topic_counts or topic in self.regex_topic_counts

    @property
    def subscribed_topics(self) -> Iterable[str]:
        """Names of all topics to which members subscribe."""
        return self.topic_counts.keys() | self.regex_topic_counts.keys()

    def static_member(self, instance_id: str) -> Member | None:
        """Returns the member with an instance id."""
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def partition_epoch(self, topic_id: bytes, partition: int) -> int:
        """Returns the epoch of the member that has a partition; `FREE` if none has it."""
        return self.partition_epochs.get(topic_id, {}).get(partition, FREE)

    def topics_of(self, member: Member) -> frozenset[str]:
        """Returns the names of the topics to which a member subscribes, by name and by regular expression."""
        if not member.subscribed_regex:
            return member.subscribed_topics
        found = self.resolved.get(member.subscribed_regex, NOTHING_RESOLVED).topics
        return member.subscribed_topics | found if member.subscribed_topics else found

    def target_of(self, member: Member) -> Assignment:
        """Returns the target assignment of a member, or of the static member that it replaces."""
        member_id = member.member_id
        if member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id, member_id)
        return self.target.get(member_id, NO_ASSIGNMENT)

    def preferred_assignor(self, old: Member | None = None, new: Member | None = None) -> str | None:
        """Returns the assignor that most members request, with `new` in the place of `old`."""
        counts = Counter(self.assignor_counts)
        if old is not None and old.assignor is not None:
            counts[old.assignor] -= 1
        if new is not None and new.assignor is not None:
            counts[new.assignor] += 1
        found = counts.most_common(1)
        return found[0][0] if found and found[0][1] > 0 else None

    # ---- checks, each a row of the error table

    def check_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        transactional: bool = False,
        api_version: int = MEMBER_EPOCH_VERSION,
    ) -> Error:
        """Checks commits: by members of this epoch, or of an older one in which they already had the
        partitions (see `partition_check`), and anyone without an epoch while the group is empty.
        """
        if generation < 0 and not self.members:
            return Errors.NONE
        if transactional and generation == -1 and not member_id and instance_id is None:
            return Errors.NONE
        member = self.members.get(member_id)
        if member is None:
            return Errors.UNKNOWN_MEMBER_ID
        if not transactional and member.classic is None and api_version < MEMBER_EPOCH_VERSION:
            return Errors.UNSUPPORTED_VERSION
        return _stale(member) if generation > member.member_epoch else Errors.NONE

    def partition_check(self, member_id: str, generation: int) -> PartitionCheck | None:
        """Returns a check of single partitions for a commit that `check_offset_commit` allows;
        None if all may be committed.
        """
        member = self.members.get(member_id)
        if member is None or generation == member.member_epoch:
            return None

        def check(topic: str, topic_id: bytes, partition: int) -> Error:
            epoch = member.assignment_epoch(topic_id, partition)
            return Errors.NONE if epoch is not None and generation >= epoch else _stale(member)

        return check

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> Error:
        """Checks reads of offsets: by members of this epoch, and by clients that name neither member nor
        epoch.
        """
        if member_id is None and member_epoch < 0:
            return Errors.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return Errors.UNKNOWN_MEMBER_ID
        return Errors.NONE if member_epoch == member.member_epoch else _stale(member)

    # ---- changes

    def _member_changed(self, old: Member | None, new: Member | None) -> None:
        super()._member_changed(old, new)
        if old is not None:
            self._count(old, -1)
            if old.instance_id is not None and self.static_members.get(old.instance_id) == old.member_id:
                del self.static_members[old.instance_id]
            self._release(old.assigned, old.member_epoch)
            self._release(old.pending_revocation, old.member_epoch)
        if new is None and old is not None:
            self.rejoining.discard(old.member_id)
        if new is not None:
            self._count(new, 1)
            if new.instance_id is not None:
                self.static_members[new.instance_id] = new.member_id
            self._take(new.assigned, new.member_epoch)
            self._take(new.pending_revocation, new.member_epoch)

    def _count(self, member: Member, change: int) -> None:
        if member.subscribed_regex:
            count_all(self.regex_counts, (member.subscribed_regex,), change)
        if member.assignor is not None:
            count_all(self.assignor_counts, (member.assignor,), change)
        self.classic_count += change if member.classic is not None else 0

    def _release(self, partitions: PartitionEpochs, epoch: int) -> None:
        for topic_id, indexes in partitions.items():
            held = self.partition_epochs.get(topic_id)
            if held is None:
                continue
            for index in indexes:
                if held.get(index) == epoch:
                    del held[index]
            if not held:
                del self.partition_epochs[topic_id]

    def _take(self, partitions: PartitionEpochs, epoch: int) -> None:
        for topic_id, indexes in partitions.items():
            held = self.partition_epochs.setdefault(topic_id, {})
            for index in indexes:
                if held.get(index, epoch) <= epoch:
                    held[index] = epoch

    def set_resolved(self, regex: str, found: ResolvedRegex | None) -> None:
        """Sets or forgets the topics of a regular expression."""
        old = self.resolved.pop(regex, None)
        if old is not None:
            count_all(self.regex_topic_counts, old.topics, -1)
        if found is not None:
            self.resolved[regex] = found
            count_all(self.regex_topic_counts, found.topics, 1)

    def replayed(self) -> None:
        """Counts anew after the group was filled from the log without `put_member` and `set_resolved`."""
        for counts in (self.static_members, self.partition_epochs, self.assignor_counts, self.regex_counts):
            counts.clear()
        self.classic_count = 0
        super().replayed()


def _stale(member: Member) -> Error:
    return Errors.STALE_MEMBER_EPOCH if member.classic is None else Errors.ILLEGAL_GENERATION


def counts_with(counts: Mapping[str, int], old: Iterable[str], new: Iterable[str]) -> dict[str, int]:
    """Returns the counts with the names `new` in the place of `old`."""
    changed = dict(counts)
    count_all(changed, old, -1)
    count_all(changed, new, 1)
    return changed
