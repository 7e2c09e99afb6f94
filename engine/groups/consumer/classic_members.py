"""Answers JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic members in a consumer group.

The coordinator assigns to them, too. An assignment that changes looks like a rebalance to them: a heartbeat
makes them rejoin, JoinGroup takes them to the next epoch as followers, and SyncGroup returns what they
have then.
"""

from dataclasses import dataclass

from bowstring.engine.groups.append_errors import append_error_of_group
from bowstring.engine.groups.classic.rebalance import session_timer
from bowstring.engine.groups.consumer import membership, migration
from bowstring.engine.groups.consumer.group import FREE, ConsumerGroup
from bowstring.engine.groups.consumer.member import ClassicMember, Member, MemberState
from bowstring.engine.groups.consumer.reconciliation import Owned, Reconciliation
from bowstring.engine.groups.consumer.timers import join_timer, sync_timer
from bowstring.engine.groups.consumer.update import MemberUpdate
from bowstring.engine.groups.consumer_protocol import decoded_subscription, protocol_version
from bowstring.engine.groups.modern.changes import Changes
from bowstring.engine.groups.state import RequestContext, ShardState
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.consumer_group_heartbeat import TopicPartitions
from bowstring.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from bowstring.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from bowstring.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from bowstring.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from bowstring.protocol.records.consumer_protocol import ConsumerProtocolSubscription

PROTOCOL_TYPE = "consumer"
MEMBER_ID_REQUIRED_VERSION = 4


# ---- JoinGroup


@dataclass(slots=True)
class _Join:
    """One JoinGroup in progress."""

    state: ShardState
    group: ConsumerGroup
    request: JoinGroupRequest
    context: RequestContext
    now_ms: int
    member_id: str
    subscription: ConsumerProtocolSubscription

    @property
    def classic(self) -> ClassicMember:
        """What the request says of the protocol."""
        request = self.request
        protocols = tuple((each.name, bytes(each.metadata)) for each in request.protocols)
        return ClassicMember(request.session_timeout_ms, protocols)

    @property
    def owned(self) -> Owned:
        """What the member says it has."""
        found = []
        for topic in self.subscription.owned_partitions:
            topic_id = self.state.cluster.topic_id(topic.topic)
            if topic_id is not None:
                found.append(TopicPartitions(topic_id=topic_id, partitions=topic.partitions))
        return found

    def updated(self, member: Member) -> Member:
        """Returns the member with what the request says; the same object if that is nothing new."""
        request, context = self.request, self.context
        timeout_ms = request.rebalance_timeout_ms
        if timeout_ms == -1:
            timeout_ms = request.session_timeout_ms
        instance_id = request.group_instance_id
        new = member._replace(
            instance_id=member.instance_id if instance_id is None else instance_id,
            rack_id=self.subscription.rack_id or member.rack_id,
            rebalance_timeout_ms=timeout_ms,
            subscribed_topics=frozenset(self.subscription.topics),
            subscribed_regex="",
            client_id=context.client_id,
            client_host=context.client_host,
            classic=self.classic,
        )
        return member if new == member else new


def join(
    state: ShardState,
    request: JoinGroupRequest,
    context: RequestContext,
    token: object,
    now_ms: int,
) -> None:
    """Answers when the member's next epoch is committed. The group must be a consumer group."""
    try:
        _join(state, request, context, token, now_ms)
    except KafkaError as error:
        state.respond(token, _refused_join(error.error))


def _refused_join(error: Error, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error.code, member_id=member_id)


def _join(
    state: ShardState,
    request: JoinGroupRequest,
    context: RequestContext,
    token: object,
    now_ms: int,
) -> None:
    group = state.groups[request.group_id]
    assert isinstance(group, ConsumerGroup), group
    if state.config.group_consumer_migration_policy == migration.DISABLED:
        raise KafkaError(Errors.INCONSISTENT_GROUP_PROTOCOL)
    is_new = not request.member_id
    instance_id = request.group_instance_id
    if (
        instance_id not in group.static_members
        and request.member_id not in group.members
        and len(group.members) >= state.config.group_consumer_max_size
    ):
        raise KafkaError(Errors.GROUP_MAX_SIZE_REACHED)
    _check_protocols(group, request)
    member_id = request.member_id or state.new_uuid()
    if is_new and instance_id is None and context.api_version >= MEMBER_ID_REQUIRED_VERSION:
        return state.respond(token, _refused_join(Errors.MEMBER_ID_REQUIRED, member_id))
    subscription = decoded_subscription(bytes(request.protocols[0].metadata))
    if subscription is None:
        raise KafkaError(Errors.INCONSISTENT_GROUP_PROTOCOL)
    attempt = _Join(state, group, request, context, now_ms, member_id, subscription)
    if instance_id is None:
        if subscription.owned_partitions and member_id not in group.members:
            # It was removed, and others may have its partitions: it must not use them until it has synced.
            raise KafkaError(Errors.UNKNOWN_MEMBER_ID)
        return _enter(attempt, group.members.get(member_id, Member(member_id)), Changes(), token)
    present = group.static_member(instance_id)
    if not is_new:
        membership.check_instance(present, member_id, instance_id)
    if present is not None and migration.may_downgrade(state, group, [present], joining=1):
        return _enter_downgraded(attempt, present, token)
    changes = Changes()
    if present is None:
        present = group.members.get(member_id, Member(member_id))
    elif is_new:
        present = membership.replace_static(group, present, member_id, changes)
    return _enter(attempt, present, changes, token)


def _check_protocols(group: ConsumerGroup, request: JoinGroupRequest) -> None:
    """Checks that all classic members of the group have a protocol in common with the new one."""
    counts: dict[str, int] = {}
    for member in group.members.values():
        for name in {name for name, _ in member.classic.protocols} if member.classic is not None else ():
            counts[name] = counts.get(name, 0) + 1
    names = {each.name for each in request.protocols}
    fits = any(counts.get(name, 0) == group.classic_count for name in names)
    if request.protocol_type != PROTOCOL_TYPE or not fits:
        raise KafkaError(Errors.INCONSISTENT_GROUP_PROTOCOL)


def _enter(attempt: _Join, member: Member, changes: Changes, token: object) -> None:
    state, group = attempt.state, attempt.group
    sees = attempt.context.sees
    update = MemberUpdate(state, group, member, changes, attempt.now_ms, sees=sees)
    result = update.to(attempt.updated(member), attempt.owned)
    group_id, member_id = group.group_id, result.member_id
    state.cancel_timer(join_timer(group_id, member_id))
    group.rejoining.discard(member_id)
    state.set_timer(session_timer(group_id, member_id), attempt.request.session_timeout_ms)
    state.set_timer(sync_timer(group_id, member_id), result.rebalance_timeout_ms)
    changes.commit(state, token, _joined(result), _refused_join)


def _enter_downgraded(attempt: _Join, present: Member, token: object) -> None:
    """Takes the place of the last member of the new protocol: the group becomes a classic one."""
    state, group = attempt.state, attempt.group
    member = present._replace(member_id=attempt.member_id)
    if member.member_id != present.member_id:
        member = member._replace(member_epoch=0, previous_member_epoch=0)
    updated = attempt.updated(member)
    same = (updated.subscribed_topics, updated.subscribed_regex or "") == (
        present.subscribed_topics,
        present.subscribed_regex or "",
    )
    is_new_metadata = state.cluster.metadata_hash(group.subscribed_topics) != group.metadata_hash
    others_wait = any(
        not each.is_reconciled_to(group.assignment_epoch)
        for each in group.members.values()
        if each is not present
    )
    rebalances = not same or is_new_metadata or group.assignment_epoch < group.epoch or others_wait
    if not rebalances and not updated.is_reconciled_to(group.assignment_epoch):
        subscribed = state.cluster.topic_ids(updated.subscribed_topics)
        target = group.target_of(updated)
        step = Reconciliation(group, updated, target, group.assignment_epoch, subscribed)
        updated = step.next(attempt.owned, subscription_changed=False)

    def finished(error: Error) -> None:
        refusal = append_error_of_group(error)
        state.respond(token, _refused_join(refusal) if error else _joined(updated))

    new = migration.downgrade(
        *(state, group, [present], updated, attempt.now_ms), rebalances=rebalances, finished=finished
    )
    if rebalances:
        migration.rebalance(state, new, "the group became a classic one", attempt.now_ms)


def _joined(member: Member) -> JoinGroupResponse:
    assert member.classic is not None
    return JoinGroupResponse(
        generation_id=member.member_epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=member.classic.protocols[0][0],
        member_id=member.member_id,
    )


# ---- SyncGroup and Heartbeat


def _member(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> Member:
    """Returns a classic member in its present epoch.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
    """
    if instance_id is None:
        member = group.members.get(member_id)
    else:
        member = group.static_member(instance_id)
        membership.check_instance(member, member_id, instance_id)
    if member is None or member.classic is None:
        raise KafkaError(Errors.UNKNOWN_MEMBER_ID)
    if member.member_epoch != generation:
        raise KafkaError(Errors.ILLEGAL_GENERATION)
    return member


def sync(state: ShardState, group: ConsumerGroup, request: SyncGroupRequest, token: object) -> None:
    """Answers with the assignment of the member."""
    try:
        body = _synced(state, group, request)
    except KafkaError as error:
        body = SyncGroupResponse(error_code=error.code)
    state.respond(token, body)


def _synced(state: ShardState, group: ConsumerGroup, request: SyncGroupRequest) -> SyncGroupResponse:
    member = _member(group, request.member_id, request.group_instance_id, request.generation_id)
    assert member.classic is not None
    name, metadata = member.classic.protocols[0]
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, name):
        raise KafkaError(Errors.INCONSISTENT_GROUP_PROTOCOL)
    is_behind = group.assignment_epoch > member.member_epoch
    if is_behind and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _expect_join(state, group, member)
        raise KafkaError(Errors.REBALANCE_IN_PROGRESS)
    state.cancel_timer(sync_timer(group.group_id, member.member_id))
    state.set_timer(session_timer(group.group_id, member.member_id), member.classic.session_timeout_ms)
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=migration.classic_assignment(state.cluster, protocol_version(metadata), member.assigned),
    )


def _expect_join(state: ShardState, group: ConsumerGroup, member: Member) -> None:
    """Removes the member if it does not rejoin within its rebalance timeout."""
    if member.member_id not in group.rejoining:
        group.rejoining.add(member.member_id)
        state.set_timer(join_timer(group.group_id, member.member_id), member.rebalance_timeout_ms)


def heartbeat(state: ShardState, group: ConsumerGroup, request: HeartbeatRequest, token: object) -> None:
    """Restarts the member's session, and makes it rejoin when its assignment is to change."""
    error = Errors.NONE
    try:
        member = _member(group, request.member_id, request.group_instance_id, request.generation_id)
    except KafkaError as refusal:
        error = refusal.error
    else:
        assert member.classic is not None
        state.set_timer(session_timer(group.group_id, member.member_id), member.classic.session_timeout_ms)
        if _should_rejoin(state, group, member):
            error = Errors.REBALANCE_IN_PROGRESS
            _expect_join(state, group, member)
    state.respond(token, HeartbeatResponse(error_code=error.code))


def _should_rejoin(state: ShardState, group: ConsumerGroup, member: Member) -> bool:
    if member.member_epoch < group.assignment_epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if group.classic_count == len(group.members) and _is_assignment_old(state, group):
        return True  # no member sends the heartbeats of the new protocol, which assign
    return member.state is MemberState.UNRELEASED_PARTITIONS and not _waits(group, member)


def _is_assignment_old(state: ShardState, group: ConsumerGroup) -> bool:
    version = state.cluster.topics_version
    if group.epoch > group.assignment_epoch or group.refreshed_version == version:
        return group.epoch > group.assignment_epoch
    if state.cluster.metadata_hash(group.subscribed_topics) != group.metadata_hash:
        return True
    group.refreshed_version = version
    return False


def _waits(group: ConsumerGroup, member: Member) -> bool:
    """Whether another member still has a partition of this one's target assignment."""
    return any(
        index not in member.assigned.get(topic_id, {}) and group.partition_epoch(topic_id, index) != FREE
        for topic_id, indexes in group.target.get(member.member_id, {}).items()
        for index in indexes
    )


# ---- LeaveGroup


def leave(
    state: ShardState, group: ConsumerGroup, request: LeaveGroupRequest, token: object, now_ms: int
) -> None:
    """Removes members, by id or by instance id, in one append."""
    answers: list[MemberResponse] = []
    leaving: dict[str, Member] = {}
    for identity in request.members:
        error = Errors.NONE
        try:
            member = _leaving(group, identity)
            leaving[member.member_id] = member
        except KafkaError as refusal:
            error = refusal.error
        answers.append(
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=error.code,
            )
        )
    body = LeaveGroupResponse(members=answers)
    if not leaving:
        return state.respond(token, body)
    state.note(f"group {group.group_id}: members left: {', '.join(leaving)}")
    return membership.remove(
        *(state, group, list(leaving.values()), now_ms),
        answer=membership.Answer(token, body, lambda error: LeaveGroupResponse(error_code=error.code)),
    )


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> Member:
    instance_id = identity.group_instance_id
    if instance_id is None:
        member = group.members.get(identity.member_id)
    else:
        member = group.static_member(instance_id)
        if identity.member_id:  # an admin client may remove a static member without its id
            membership.check_instance(member, identity.member_id, instance_id)
    if member is None:
        raise KafkaError(Errors.UNKNOWN_MEMBER_ID)
    return member
