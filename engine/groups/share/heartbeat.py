"""Handles ShareGroupHeartbeat (KIP-932): members join, follow their assignments, and leave."""

from collections.abc import Iterable
from functools import partial

from bowstring.engine.groups.classic.rebalance import session_timer
from bowstring.engine.groups.modern.assignor import MemberSpec
from bowstring.engine.groups.modern.changes import Changes
from bowstring.engine.groups.modern.group import LEAVE_EPOCH, NO_ASSIGNMENT, Assignment, count_all
from bowstring.engine.groups.share import assignor, membership, records, state_changes
from bowstring.engine.groups.share.group import ShareGroup
from bowstring.engine.groups.share.member import ShareMember
from bowstring.engine.groups.share.settings import (
    assignment_interval_ms,
    heartbeat_interval_ms,
    session_timeout_ms,
)
from bowstring.engine.groups.share.state_partitions import NO_PARTITIONS
from bowstring.engine.groups.state import RequestContext, ShardState
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.share_group_heartbeat import Assignment as AssignmentBody
from bowstring.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN_EPOCH = 0
# The interval for a member that waits for an assignment. Kafka sends the usual one, and the first records
# of a new group come after five seconds.
WAITING_INTERVAL_MS = 200


def heartbeat(
    state: ShardState,
    request: ShareGroupHeartbeatRequest,
    context: RequestContext,
    token: object,
    now_ms: int,
) -> None:
    """Answers with a ShareGroupHeartbeatResponse once all state in it is committed."""
    try:
        if request.member_epoch == LEAVE_EPOCH:
            membership.leave(state, request, token)
        else:
            _Heartbeat(state, request, context, now_ms).answer(token)
    except KafkaError as error:
        state.respond(token, membership.refusal(error.error, error.detail))


class _Heartbeat:
    """One request in progress. Reads the group as it is; changes are collected in `_changes`."""

    def __init__(
        self, state: ShardState, request: ShareGroupHeartbeatRequest, context: RequestContext, now_ms: int
    ) -> None:
        self._state = state
        self._request = request
        self._context = context
        self._now_ms = now_ms
        self._changes = Changes()
        self._joins = request.member_epoch == JOIN_EPOCH
        self._ids: dict[frozenset[str], frozenset[bytes]] = {}

    def answer(self, token: object) -> None:
        """Handles the request.

        Raises:
            KafkaError: Why it is refused.
        """
        state, request = self._state, self._request
        group = self._group()
        member = self._member(group)
        updated = self._updated(member)
        if updated != member or member.member_id not in group.members:
            self._changes.add(records.member(group.group_id, updated))
        bumps = updated.subscribed_topics != member.subscribed_topics or self._has_unassigned(group)
        epoch, bumped = self._epoch(group, member, updated, bumps=bumps)
        target_epoch, target = self._target(group, updated, epoch)
        result = self._reconciled(updated, target_epoch, target, subscription_changed=bumped)
        if result is not updated:
            self._changes.add(records.assignment(group.group_id, result))
        if result is not member:
            self._changes.then(partial(group.put_member, result))
        state.set_timer(
            session_timer(group.group_id, member.member_id), session_timeout_ms(state, group.group_id)
        )
        response = ShareGroupHeartbeatResponse(
            member_id=result.member_id,
            member_epoch=result.member_epoch,
        )
        is_full = request.subscribed_topic_names is not None
        if self._joins or is_full or result.assigned != member.assigned:
            response.assignment = _body(result.assigned)
        names = self._subscribed(group, member, updated)
        begun = state_changes.begin(state, group, names, self._changes, self._now_ms)
        interval_ms = heartbeat_interval_ms(state, group.group_id)
        if begun.topics or target_epoch < epoch or self._awaits_state(group, names):
            interval_ms = min(interval_ms, WAITING_INTERVAL_MS)
        response.heartbeat_interval_ms = interval_ms
        self._changes.commit(
            state,
            token,
            response,
            membership.refusal,
            committed=partial(state_changes.request, state, group.group_id, epoch, begun),
        )

    # ---- group and member

    def _group(self) -> ShareGroup:
        group_id = self._request.group_id
        if group_id in self._state.groups or not self._joins:
            group = membership.found_group(self._state, group_id)
        else:
            group = ShareGroup(group_id)
            self._changes.then(partial(self._state.groups.__setitem__, group_id, group))
        most = self._state.config.group_share_max_size
        if len(group.members) >= most and self._request.member_id not in group.members:
            raise KafkaError(
                Errors.GROUP_MAX_SIZE_REACHED, f"The share group has its most members already: {most}."
            )
        return group

    def _member(self, group: ShareGroup) -> ShareMember:
        member_id, epoch = self._request.member_id, self._request.member_epoch
        if self._joins:
            return group.members.get(member_id) or ShareMember(member_id)
        member = membership.found_member(group, member_id)
        # The answer with the newest epoch may have been lost.
        is_previous = epoch == member.previous_member_epoch and epoch < member.member_epoch
        if epoch != member.member_epoch and not is_previous:
            raise KafkaError(
                Errors.FENCED_MEMBER_EPOCH,
                f"Member epoch {epoch} is not {member.member_epoch}, the coordinator's: the member must give "
                "up its partitions and rejoin.",
            )
        return member

    def _updated(self, member: ShareMember) -> ShareMember:
        """Returns the member updated by the request."""
        request, context = self._request, self._context
        new = member._replace(client_id=context.client_id, client_host=context.client_host)
        if request.rack_id is not None:
            new = new._replace(rack_id=request.rack_id)
        if request.subscribed_topic_names is not None:
            new = new._replace(subscribed_topics=frozenset(request.subscribed_topic_names))
        return member if new == member else new

    def _topic_ids(self, names: frozenset[str]) -> frozenset[bytes]:
        found = self._ids.get(names)
        if found is None:
            found = self._ids[names] = self._state.cluster.topic_ids(names)
        return found

    # ---- the group epoch

    def _has_unassigned(self, group: ShareGroup) -> bool:
        """Whether subscribed share partitions have got their state since the last assignment."""
        if group.assignment_epoch < group.epoch or group.is_empty or group.partitions is None:
            return False
        assigned: dict[bytes, set[int]] = {}
        for assignment in group.target.values():
            for topic_id, indexes in assignment.items():
                assigned.setdefault(topic_id, set()).update(indexes)
        return any(
            group.is_subscribed_to(topic.name) and assigned.get(topic_id, set()) != set(topic.partitions)
            for topic_id, topic in group.partitions.initialized.items()
        )

    @staticmethod
    def _awaits_state(group: ShareGroup, names: Iterable[str]) -> bool:
        """Whether share coordinators are creating the state of subscribed partitions."""
        held = group.partitions or NO_PARTITIONS
        return not {topic.name for topic in held.initializing.values()}.isdisjoint(names)

    @staticmethod
    def _subscribed(group: ShareGroup, member: ShareMember, updated: ShareMember) -> Iterable[str]:
        """Returns the names of all topics to which members subscribe after the request."""
        if updated.subscribed_topics == member.subscribed_topics:
            return group.topic_counts
        counts = dict(group.topic_counts)
        count_all(counts, member.subscribed_topics, -1)
        count_all(counts, updated.subscribed_topics, 1)
        return counts

    def _epoch(
        self, group: ShareGroup, member: ShareMember, updated: ShareMember, *, bumps: bool
    ) -> tuple[int, bool]:
        """Returns the group epoch, and whether it is new: if `bumps`, or if subscribed topics changed."""
        cluster = self._state.cluster
        version = cluster.topics_version
        if not bumps and group.refreshed_version == version:
            return group.epoch, False
        metadata_hash = cluster.metadata_hash(self._subscribed(group, member, updated))
        if not bumps and metadata_hash == group.metadata_hash:
            group.refreshed_version = version
            return group.epoch, False
        epoch = group.epoch + 1
        self._changes.add(
            records.group_epoch(group.group_id, epoch, metadata_hash),
            partial(group.set_epoch, epoch, metadata_hash, version),
        )
        self._state.rebalances[group.group_type] += 1
        return epoch, True

    # ---- assignments

    def _target(self, group: ShareGroup, updated: ShareMember, epoch: int) -> tuple[int, Assignment]:
        """Returns epoch and target assignment of the member; computes it if the group has a newer epoch and
        the last assignment is old enough.
        """
        member_id = updated.member_id
        if group.assignment_epoch >= epoch or not self._may_assign(group):
            return group.assignment_epoch, group.target.get(member_id, NO_ASSIGNMENT)
        specs = {
            each.member_id: MemberSpec(
                None,
                self._topic_ids(each.subscribed_topics),
                group.target.get(each.member_id, NO_ASSIGNMENT),
            )
            for each in ({**group.members, member_id: updated}).values()
        }
        initialized = {} if group.partitions is None else group.partitions.initialized
        result = assignor.assign(
            specs, {topic_id: topic.partitions for topic_id, topic in initialized.items()}
        )
        for each_id, assignment in result.items():
            if group.target.get(each_id) != assignment:
                self._changes.add(
                    records.target(group.group_id, each_id, assignment),
                    partial(group.set_target, each_id, assignment),
                )
        self._changes.add(
            records.target_epoch(group.group_id, epoch, self._now_ms),
            partial(group.set_target_epoch, epoch, self._now_ms),
        )
        return epoch, result[member_id]

    def _may_assign(self, group: ShareGroup) -> bool:
        last_ms = group.assignment_timestamp_ms
        interval_ms = assignment_interval_ms(self._state, group.group_id)
        # An assignment of nothing, before the first partition had its state, delays no other.
        is_first = not any(group.target.values())
        return is_first or interval_ms == 0 or self._now_ms >= last_ms + interval_ms

    def _reconciled(
        self, member: ShareMember, epoch: int, target: Assignment, *, subscription_changed: bool
    ) -> ShareMember:
        """Returns the member with its target assignment, restricted to its subscribed topics."""
        if member.member_epoch == epoch and not subscription_changed:
            return member
        topics = self._topic_ids(member.subscribed_topics)
        assigned = {topic_id: indexes for topic_id, indexes in target.items() if topic_id in topics}
        new = member._replace(assigned=assigned)
        if member.member_epoch != epoch:
            new = new._replace(member_epoch=epoch, previous_member_epoch=member.member_epoch)
        return member if new == member else new


def _body(assigned: Assignment) -> AssignmentBody:
    return AssignmentBody(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(indexes))
            for topic_id, indexes in assigned.items()
        ]
    )
