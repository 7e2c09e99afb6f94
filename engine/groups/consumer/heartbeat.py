"""Handles ConsumerGroupHeartbeat (KIP-848): members join, follow their assignments, and leave."""

from functools import partial

from bowstring.engine.groups import records as group_records
from bowstring.engine.groups.classic.group import ClassicGroup
from bowstring.engine.groups.classic.rebalance import session_timer
from bowstring.engine.groups.consumer import membership, migration
from bowstring.engine.groups.consumer.group import ConsumerGroup
from bowstring.engine.groups.consumer.member import Member, PartitionEpochs
from bowstring.engine.groups.consumer.reconciliation import Owned
from bowstring.engine.groups.consumer.settings import heartbeat_interval_ms, session_timeout_ms
from bowstring.engine.groups.consumer.update import MemberUpdate
from bowstring.engine.groups.modern.changes import Changes
from bowstring.engine.groups.modern.group import LEAVE_EPOCH, LEAVE_STATIC_EPOCH, NO_ASSIGNMENT
from bowstring.engine.groups.state import KeptAlive, RequestContext, ShardState
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN_EPOCH = 0


def heartbeat(
    state: ShardState,
    request: ConsumerGroupHeartbeatRequest,
    context: RequestContext,
    token: object,
    now_ms: int,
) -> None:
    """Answers with a ConsumerGroupHeartbeatResponse once all state in it is committed."""
    try:
        if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
            membership.leave(state, request, token, now_ms)
        else:
            _Heartbeat(state, request, context, now_ms).answer(token)
    except KafkaError as error:
        state.respond(token, refusal(error.error, error.detail))


def only_kept_alive(
    state: ShardState, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str
) -> KeptAlive | None:
    """Returns the answer to a heartbeat that only restarts the member's session: it reports nothing
    new, and the group is settled. Otherwise None.
    """
    if (
        request.subscribed_topic_names is not None
        or request.subscribed_topic_regex is not None
        or request.topic_partitions is not None
        or request.server_assignor is not None
        or request.rack_id is not None
        or request.rebalance_timeout_ms != -1
    ):
        return None
    group = state.groups.get(request.group_id)
    if not isinstance(group, ConsumerGroup) or group.regex_counts:
        return None
    epoch = group.assignment_epoch
    if epoch < group.epoch or group.refreshed_version != state.cluster.topics_version:
        return None
    member = group.members.get(request.member_id)
    if member is None or request.member_epoch != epoch or not member.is_reconciled_to(epoch):
        return None
    told = (request.instance_id, client_id, client_host, None)
    if told != (member.instance_id, member.client_id, member.client_host, member.classic):
        return None
    group_id = group.group_id
    response = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=epoch,
        heartbeat_interval_ms=heartbeat_interval_ms(state, group_id),
    )
    return KeptAlive(session_timeout_ms(state, group_id), response)


def refusal(error: Error, detail: str | None = None) -> ConsumerGroupHeartbeatResponse:
    """Returns the answer to a request that is refused."""
    return ConsumerGroupHeartbeatResponse(
        error_code=error.code, error_message=error.message if detail is None else detail
    )


class _Heartbeat:
    """One request in progress."""

    def __init__(
        self,
        state: ShardState,
        request: ConsumerGroupHeartbeatRequest,
        context: RequestContext,
        now_ms: int,
    ) -> None:
        self._state = state
        self._request = request
        self._context = context
        self._now_ms = now_ms
        self._changes = Changes()
        self._joins = request.member_epoch == JOIN_EPOCH

    def answer(self, token: object) -> None:
        """Handles the request.

        Raises:
            KafkaError: Why it is refused.
        """
        state, request = self._state, self._request
        group = self._group()
        self._check_room(group)
        member_id = request.member_id or state.new_uuid()
        member = self._member(group, member_id)
        sees = self._context.sees
        update = MemberUpdate(state, group, member, self._changes, self._now_ms, sees=sees)
        result = update.to(self._updated(member), request.topic_partitions)
        state.set_timer(
            session_timer(group.group_id, result.member_id), session_timeout_ms(state, group.group_id)
        )
        response = ConsumerGroupHeartbeatResponse(
            member_id=result.member_id,
            member_epoch=result.member_epoch,
            heartbeat_interval_ms=heartbeat_interval_ms(state, group.group_id),
        )
        if self._joins or self._is_full or result.assigned != member.assigned:
            response.assignment = Assignment(topic_partitions=_topic_partitions(result.assigned))
        self._changes.commit(state, token, response, refusal)

    @property
    def _is_full(self) -> bool:
        """Whether the request has every field, as after an error: the member may have missed an answer."""
        request = self._request
        return (
            request.rebalance_timeout_ms != -1
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )

    # ---- the group

    def _group(self) -> ConsumerGroup:
        group_id = self._request.group_id
        group = self._state.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if not self._joins:
            raise KafkaError(Errors.GROUP_ID_NOT_FOUND, f"There is no consumer group {group_id}.")
        if group is not None:
            if not isinstance(group, ClassicGroup):
                raise KafkaError(Errors.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
            if not group.is_empty:
                return migration.upgraded(self._state, group, self._changes)
            if not group.is_simple:
                self._changes.add(group_records.group_tombstone(group_id))
        new = ConsumerGroup(group_id)
        self._changes.then(partial(self._state.groups.__setitem__, group_id, new))
        return new

    def _check_room(self, group: ConsumerGroup) -> None:
        """Refuses new members of a full group; a static member's instance takes no more room."""
        if self._request.instance_id in group.static_members:
            return
        most = self._state.config.group_consumer_max_size
        if len(group.members) >= most and self._request.member_id not in group.members:
            raise KafkaError(
                Errors.GROUP_MAX_SIZE_REACHED, f"The consumer group has its most members already: {most}."
            )

    # ---- the member

    def _member(self, group: ConsumerGroup, member_id: str) -> Member:
        request = self._request
        if request.instance_id is not None:
            return self._static_member(group, member_id, request.instance_id)
        member = group.members.get(member_id)
        if member is None:
            if not self._joins:
                raise membership.unknown_member(group, member_id)
            member = Member(member_id)
        self._check_epoch(member)
        return member

    def _static_member(self, group: ConsumerGroup, member_id: str, instance_id: str) -> Member:
        present = group.static_member(instance_id)
        if not self._joins:
            membership.check_instance(present, member_id, instance_id)
            assert present is not None
            self._check_epoch(present)
            return present
        if present is None:
            return group.members.get(member_id) or Member(member_id)
        if present.classic is None and present.member_epoch != LEAVE_STATIC_EPOCH:
            raise KafkaError(
                Errors.UNRELEASED_INSTANCE_ID,
                f"Member {present.member_id} has the instance id {instance_id} and has not left.",
            )
        return membership.replace_static(group, present, member_id, self._changes)

    def _check_epoch(self, member: Member) -> None:
        """Fences members whose epoch is not the present one. Also accepts the previous one if the answer
        with the new epoch may have been lost.
        """
        epoch = self._request.member_epoch
        if epoch in (JOIN_EPOCH, member.member_epoch):
            return
        is_previous = epoch == member.previous_member_epoch and epoch < member.member_epoch
        if is_previous and _is_subset(self._request.topic_partitions, member.assigned):
            return
        raise KafkaError(
            Errors.FENCED_MEMBER_EPOCH,
            f"Member epoch {epoch} is not {member.member_epoch}, the coordinator's: the member must give up "
            "its partitions and rejoin.",
        )

    def _updated(self, member: Member) -> Member:
        """Returns the member updated by the request; the same object if nothing changes."""
        request, context = self._request, self._context
        names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
        timeout_ms = request.rebalance_timeout_ms
        instance_id, rack_id = request.instance_id, request.rack_id
        assignor = request.server_assignor
        new = member._replace(
            subscribed_topics=member.subscribed_topics if names is None else frozenset(names),
            subscribed_regex=member.subscribed_regex if regex is None else regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
            instance_id=member.instance_id if instance_id is None else instance_id,
            rack_id=member.rack_id if rack_id is None else rack_id,
            assignor=member.assignor if assignor is None else assignor,
            client_id=context.client_id,
            client_host=context.client_host,
            classic=None,
        )
        return member if new == member else new


def _is_subset(owned: Owned, assigned: PartitionEpochs) -> bool:
    if owned is None:
        return False
    return all(
        index in assigned.get(topic.topic_id, NO_ASSIGNMENT) for topic in owned for index in topic.partitions
    )


def _topic_partitions(assigned: PartitionEpochs) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=sorted(epochs)) for topic_id, epochs in assigned.items()
    ]
