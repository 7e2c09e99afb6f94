"""Brings a member's assignment to its target: it gives up partitions, then it gets others (KIP-848)."""

from collections.abc import Sequence

from bowstring.engine.groups.consumer.group import FREE, ConsumerGroup
from bowstring.engine.groups.consumer.member import NO_PARTITIONS, Member, MemberState, PartitionEpochs
from bowstring.engine.groups.modern.group import Assignment
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.consumer_group_heartbeat import TopicPartitions

# partitions that the member says it has; None if it does not say
Owned = Sequence[TopicPartitions] | None


class Reconciliation:
    """One step of one member.

    Args:
        group: The group, with the partitions of all members.
        member: The member, with its new subscription.
        target: Its target assignment, of the epoch `target_epoch`.
        subscribed: Ids of the topics to which it subscribes.
    """

    def __init__(
        self,
        group: ConsumerGroup,
        member: Member,
        target: Assignment,
        target_epoch: int,
        subscribed: frozenset[bytes],
    ) -> None:
        self._group = group
        self._member = member
        self._target = target
        self._target_epoch = target_epoch
        self._subscribed = subscribed

    def next(self, owned: Owned, *, subscription_changed: bool) -> Member:
        """Returns the member after the step; the same object if nothing changes.

        Raises:
            KafkaError: FENCED_MEMBER_EPOCH: a newer version left the member in a state unknown here, and the
                member still has partitions.
        """
        member = self._member
        match member.state:
            case MemberState.STABLE:
                if member.member_epoch != self._target_epoch:
                    return self._step(member.member_epoch, owned)
            case MemberState.UNREVOKED_PARTITIONS:
                if not _has_any(owned, member.pending_revocation):
                    return self._step(member.member_epoch, owned)
            case MemberState.UNRELEASED_PARTITIONS:
                return self._step(member.member_epoch, owned)
            case _:
                if owned is None or owned:
                    raise KafkaError(
                        Errors.FENCED_MEMBER_EPOCH,
                        "The state of the member is unknown here; it must give up its partitions and rejoin.",
                    )
                return self._step(self._target_epoch, owned)
        return self._without_unsubscribed(owned) if subscription_changed else member

    def _without_unsubscribed(self, owned: Owned) -> Member:
        """Removes partitions of topics to which the member no longer subscribes."""
        member = self._member
        removed = {
            topic_id: epochs
            for topic_id, epochs in member.assigned.items()
            if topic_id not in self._subscribed
        }
        if not removed:
            return member
        kept = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id not in removed}
        pending = dict(member.pending_revocation)
        for topic_id, epochs in removed.items():
            pending[topic_id] = {**pending.get(topic_id, {}), **epochs}
        member = member.at_epoch(member.member_epoch)._replace(assigned=kept)
        if _has_any(owned, pending):
            return member._replace(state=MemberState.UNREVOKED_PARTITIONS, pending_revocation=pending)
        return member

    def _step(self, epoch: int, owned: Owned) -> Member:
        """Revokes partitions outside the target; if the member has given them up, assigns free ones."""
        member = self._member
        kept: dict[bytes, dict[int, int]] = {}
        revoked: dict[bytes, dict[int, int]] = {}
        added: dict[bytes, list[int]] = {}
        waits = False
        for topic_id in self._target.keys() | member.assigned.keys():
            wanted = self._target.get(topic_id, frozenset()) if topic_id in self._subscribed else frozenset()
            present = member.assigned.get(topic_id, {})
            stay = {index: since for index, since in present.items() if index in wanted}
            if stay:
                kept[topic_id] = stay
            if len(stay) < len(present):
                revoked[topic_id] = {index: since for index, since in present.items() if index not in wanted}
            missing = sorted(index for index in wanted if index not in stay)
            free = [index for index in missing if self._is_free(topic_id, index)]
            waits = waits or len(free) < len(missing)
            if free:
                added[topic_id] = free
        if revoked and _has_any(owned, revoked):
            return member.at_epoch(epoch)._replace(
                state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending_revocation=revoked
            )
        for topic_id, indexes in added.items():
            kept.setdefault(topic_id, {}).update(dict.fromkeys(indexes, self._target_epoch))
        return member.at_epoch(self._target_epoch)._replace(
            state=MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE,
            assigned=kept,
            pending_revocation=NO_PARTITIONS,
        )

    def _is_free(self, topic_id: bytes, index: int) -> bool:
        """Whether the partition has no owner, or only this member, which has just given it up."""
        if self._group.partition_epoch(topic_id, index) == FREE:
            return True
        return index in self._member.pending_revocation.get(topic_id, {})


def _has_any(owned: Owned, partitions: PartitionEpochs) -> bool:
    """Whether the member still has one of the partitions; a member that does not say may have them all."""
    if owned is None:
        return True
    return any(index in partitions.get(topic.topic_id, ()) for topic in owned for index in topic.partitions)
