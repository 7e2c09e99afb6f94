"""Takes a member from one subscription and epoch to the next, as a heartbeat or a JoinGroup requests."""

from collections.abc import Iterable
from functools import partial

from bowstring.engine.groups.consumer import records, regexes
from bowstring.engine.groups.consumer.assignors import ASSIGNORS, enabled_assignors
from bowstring.engine.groups.consumer.group import ConsumerGroup, counts_with
from bowstring.engine.groups.consumer.member import Member, MemberState
from bowstring.engine.groups.consumer.reconciliation import Owned, Reconciliation
from bowstring.engine.groups.consumer.settings import (
    assignment_interval_ms,
    heartbeat_interval_ms,
    session_timeout_ms,
)
from bowstring.engine.groups.consumer.timers import rebalance_timer
from bowstring.engine.groups.modern.assignor import MemberSpec
from bowstring.engine.groups.modern.changes import Changes
from bowstring.engine.groups.modern.group import NO_ASSIGNMENT, Assignment
from bowstring.engine.groups.state import ShardState


class MemberUpdate:
    """One update. Reads the group as it is; what changes is collected in `changes`.

    Args:
        group: The group; a new one is not in the state yet.
        member: The member as it was.
        changes: Takes the records.
        sees: Whether the member may see a topic; None: all of them.
    """

    def __init__(
        self,
        state: ShardState,
        group: ConsumerGroup,
        member: Member,
        changes: Changes,
        now_ms: int,
        *,
        sees: regexes.Sees,
    ) -> None:
        self._sees = sees
        self._state = state
        self._group = group
        self._member = member
        self._changes = changes
        self._now_ms = now_ms
        self._ids: dict[frozenset[str], frozenset[bytes]] = {}
        self.bumped = False

    def to(self, updated: Member, owned: Owned) -> Member:
        """Returns the member after the update: with its new subscription, the epoch that it may enter, and
        its assignment there.

        Args:
            updated: The member with its new subscription.
            owned: What the member says it has.

        Raises:
            KafkaError: INVALID_REGULAR_EXPRESSION, FENCED_MEMBER_EPOCH.
        """
        group, member = self._group, self._member
        names_changed = updated.subscribed_topics != member.subscribed_topics
        if updated is not member and updated != member:
            self._changes.add(records.member(group.group_id, updated))
        regex = regexes.change(self._state, group, member, updated, self._changes)
        regexes.refresh(self._state, group, member, updated, self._now_ms, sees=self._sees)
        epoch = group.epoch
        bumps = names_changed or regex.bumps or self._assignor(member, updated) != self._assignor()
        if bumps or group.refreshed_version != self._state.cluster.topics_version:
            epoch = self._refresh_metadata(updated, bumps=bumps)
        target_epoch, target = self._target(updated, epoch)
        subscription_changed = names_changed or regex.changed
        result = updated
        if subscription_changed or not updated.is_reconciled_to(target_epoch):
            step = Reconciliation(
                group, updated, target, target_epoch, self._topic_ids(group.topics_of(updated))
            )
            result = step.next(owned, subscription_changed=subscription_changed)
            if result is not updated and result != updated:
                self._changes.add(records.assignment(group.group_id, result))
                self._restart_rebalance_timer(result)
        if result is not member:
            self._changes.then(partial(group.put_member, result))
        return result

    def _restart_rebalance_timer(self, member: Member) -> None:
        if member.classic is not None:
            return  # it has a timer for JoinGroup instead
        key = rebalance_timer(self._group.group_id, member.member_id)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self._state.set_timer(key, member.rebalance_timeout_ms)
        else:
            self._state.cancel_timer(key)

    def _topic_ids(self, names: frozenset[str]) -> frozenset[bytes]:
        found = self._ids.get(names)
        if found is None:
            found = self._ids[names] = self._state.cluster.topic_ids(names)
        return found

    # ---- the group epoch

    def _refresh_metadata(self, updated: Member, *, bumps: bool) -> int:
        """Compares the metadata of the subscribed topics with that of the last epoch; returns the epoch."""
        group, cluster = self._group, self._state.cluster
        metadata_hash = cluster.metadata_hash(self._subscribed(updated))
        version = cluster.topics_version
        if not bumps and metadata_hash == group.metadata_hash:
            group.refreshed_version = version
            return group.epoch
        epoch = group.epoch + 1
        self._changes.add(
            records.group_epoch(group.group_id, epoch, metadata_hash),
            partial(group.set_epoch, epoch, metadata_hash, version),
        )
        if group.has_old_metadata_record:
            self._changes.add(
                records.old_metadata_tombstone(group.group_id),
                partial(setattr, group, "has_old_metadata_record", False),
            )
        why = f"member {updated.member_id} changed what it asks for" if bumps else "topics changed"
        self._state.note(f"group {group.group_id}: epoch {epoch}, {why}")
        self.bumped = True
        self._state.rebalances[group.group_type] += 1
        return epoch

    def _subscribed(self, updated: Member) -> Iterable[str]:
        """Returns the names of all topics to which members subscribe after the update."""
        group, member = self._group, self._member
        counts = group.topic_counts
        names = counts.keys() | updated.subscribed_topics
        # sets, because a member may name very many topics
        names -= {
            each for each in member.subscribed_topics - updated.subscribed_topics if counts.get(each) == 1
        }
        by_regex = group.regex_topic_counts
        old = member.subscribed_regex
        if (
            old
            and old != updated.subscribed_regex
            and group.regex_counts.get(old) == 1
            and old in group.resolved
        ):
            by_regex = counts_with(by_regex, group.resolved[old].topics, ())
        return names | by_regex.keys() if by_regex else names

    # ---- the target assignment

    def _target(self, updated: Member, epoch: int) -> tuple[int, Assignment]:
        """Returns epoch and target assignment of the member; computes it if the group has a newer epoch and
        the last assignment is old enough.
        """
        group = self._group
        if group.assignment_epoch >= epoch or not self._may_assign():
            return group.assignment_epoch, group.target_of(updated)
        name = self._assignor(self._member, updated)
        specs = self._specs(updated)
        topics = frozenset().union(*{spec.topics for spec in specs.values()})
        partitions = {topic_id: self._state.cluster.partition_count(topic_id) for topic_id in topics}
        result = ASSIGNORS[name](specs, partitions)
        changed = 0
        replaced = self._replaced(updated)
        for member_id, assignment in result.items():
            if group.target.get(replaced if member_id == updated.member_id else member_id) != assignment:
                changed += 1
                self._changes.add(
                    records.target(group.group_id, member_id, assignment),
                    partial(group.set_target, member_id, assignment),
                )
        self._changes.add(
            records.target_epoch(group.group_id, epoch, self._now_ms),
            partial(group.set_target_epoch, epoch, self._now_ms),
        )
        self._state.note(
            f"group {group.group_id}: assigned {sum(partitions.values())} partitions to {len(specs)} members "
            f"for epoch {epoch} ({name}), {changed} assignments changed"
        )
        return epoch, result.get(updated.member_id, NO_ASSIGNMENT)

    def _assignor(self, old: Member | None = None, new: Member | None = None) -> str:
        """Returns the assignor that the group uses, with `new` in the place of `old`."""
        preferred = self._group.preferred_assignor(old, new)
        enabled = enabled_assignors(self._state.config.group_consumer_assignors)
        return preferred if preferred in ASSIGNORS else enabled[0]

    def _replaced(self, updated: Member) -> str:
        """Returns the id of the static member that the member replaces, else its own."""
        instance_id, member_id = updated.instance_id, updated.member_id
        return member_id if instance_id is None else self._group.static_members.get(instance_id, member_id)

    def _may_assign(self) -> bool:
        last_ms = self._group.assignment_timestamp_ms
        interval_ms = assignment_interval_ms(self._state, self._group.group_id)
        return last_ms == 0 or interval_ms == 0 or self._now_ms >= last_ms + interval_ms

    def _specs(self, updated: Member) -> dict[str, MemberSpec]:
        """Returns all members for the assignor; a static member stands for the one that it replaces.

        Assignors give what is free to the last ones, and take from them: the member that sends this request,
        and before it those whose next heartbeats come soonest, because a member learns of its assignment by a
        heartbeat. Members whose heartbeat is overdue by half an interval come first:
        they may be dead, too.
        """
        group = self._group
        replaced = self._replaced(updated)
        others = [
            each for each in group.members.values() if each.member_id not in (updated.member_id, replaced)
        ]
        interval_ms = heartbeat_interval_ms(self._state, group.group_id)
        timeout_ms = session_timeout_ms(self._state, group.group_id)

        def delay(each: Member) -> tuple[bool, int]:
            left_ms = self._state.session_left_ms(group.group_id, each.member_id)
            wait_ms = 0 if left_ms is None else left_ms - timeout_ms + interval_ms
            return wait_ms < -interval_ms // 2, abs(wait_ms)

        others.sort(key=delay, reverse=True)
        specs = {
            each.member_id: MemberSpec(
                each.instance_id,
                self._topic_ids(group.topics_of(each)),
                group.target.get(each.member_id, NO_ASSIGNMENT),
            )
            for each in others
        }
        specs[updated.member_id] = MemberSpec(
            updated.instance_id, self._topic_ids(group.topics_of(updated)), group.target_of(updated)
        )
        return specs
