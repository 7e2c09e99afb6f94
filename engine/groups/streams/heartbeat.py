"""Handles StreamsGroupHeartbeat (KIP-1071): joins, keeps alive, reconciles and removes members.

A heartbeat reads the state, collects records with what they change, and answers when they are committed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from bowstring.engine.groups.modern.changes import Changes
from bowstring.engine.groups.modern.cluster import ClusterView
from bowstring.engine.groups.state import RequestContext, ShardState
from bowstring.engine.groups.streams import records, static_members
from bowstring.engine.groups.streams.configured_topology import ConfiguredTopology, InternalTopic, configure
from bowstring.engine.groups.streams.conversion import found_or_new
from bowstring.engine.groups.streams.endpoints import partitions_by_endpoint
from bowstring.engine.groups.streams.group import NOT_VALIDATED, StreamsGroup
from bowstring.engine.groups.streams.member import MemberState, StreamsMember
from bowstring.engine.groups.streams.membership import fence, initial_timer, rebalance_timer, session_timer
from bowstring.engine.groups.streams.reconciliation import FencedEpoch, Target, reconcile
from bowstring.engine.groups.streams.request_checks import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH, check
from bowstring.engine.groups.streams.settings import StreamsSettings, settings
from bowstring.engine.groups.streams.statuses import InvalidTopology, Status
from bowstring.engine.groups.streams.target import Plan, compute_target
from bowstring.engine.groups.streams.task_offsets import NO_OFFSETS, TaskOffsets
from bowstring.engine.groups.streams.tasks import NO_TASKS, Tasks, contains, in_order, task_set
from bowstring.engine.groups.streams.topology import Topology, from_request
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages import streams_group_heartbeat as messages

TAGS_VERSION = 1
Request = messages.StreamsGroupHeartbeatRequest
Response = messages.StreamsGroupHeartbeatResponse


class HeartbeatAnswer(NamedTuple):
    """The response, and the internal topics that the broker should create."""

    response: Response
    missing: tuple[InternalTopic, ...] = ()


def heartbeat(
    state: ShardState, request: Request, context: RequestContext, token: object, now_ms: int
) -> None:
    """Handles a heartbeat; answers with a HeartbeatAnswer."""
    try:
        check(request)
        if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
            return _leave(state, request, token)
        return _Heartbeat(state, request, context, now_ms).run(token)
    except KafkaError as error:
        return state.respond(token, refusal(error.error, error.detail))
    except InvalidTopology as error:
        return state.respond(token, refusal(Errors.STREAMS_INVALID_TOPOLOGY, str(error)))
    except FencedEpoch as error:
        return state.respond(token, refusal(Errors.FENCED_MEMBER_EPOCH, str(error)))


def refusal(error: Error, detail: str | None = None) -> HeartbeatAnswer:
    """Returns an answer that has only the error."""
    return HeartbeatAnswer(Response(error_code=error.code, error_message=detail or error.message))


def existing_group(state: ShardState, group_id: str) -> StreamsGroup:
    """Returns the streams group.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND.
    """
    group = state.groups.get(group_id)
    if group is None:
        raise KafkaError(Errors.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
    if not isinstance(group, StreamsGroup):
        raise KafkaError(Errors.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
    return group


def _existing_member(group: StreamsGroup, member_id: str) -> StreamsMember:
    member = group.members.get(member_id)
    if member is None:
        raise KafkaError(
            Errors.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}."
        )
    return member


def _leave(state: ShardState, request: Request, token: object) -> None:
    group = existing_group(state, request.group_id)
    if request.shutdown_application:
        group.shutdown_member_id = group.shutdown_member_id or request.member_id
    if request.instance_id is None:
        member = _existing_member(group, request.member_id)
    else:
        member = static_members.known(group, request.instance_id, request.member_id)
    changes = Changes()
    if request.instance_id is not None and request.member_epoch == LEAVE_STATIC_EPOCH:
        static_members.go_away(group, member, changes)
    else:
        fence(state, group, member.member_id, changes)
        state.note(f"streams group {group.group_id}: member {member.member_id} left")
    response = Response(member_id=request.member_id, member_epoch=request.member_epoch, status=[])
    changes.commit(state, token, HeartbeatAnswer(response), refusal)


@dataclass(slots=True)
class _Heartbeat:
    """One heartbeat of a member that stays or joins."""

    state: ShardState
    request: Request
    context: RequestContext
    now_ms: int
    replaced: StreamsMember | None = None  # the static member whose place the member takes
    changes: Changes = field(default_factory=Changes)
    statuses: list[messages.Status] = field(default_factory=list)

    @property
    def cluster(self) -> ClusterView:
        return self.state.cluster

    @property
    def is_joining(self) -> bool:
        return self.request.member_epoch == JOIN_EPOCH

    def run(self, token: object) -> None:
        """Carries the heartbeat out."""
        request = self.request
        group, is_known = self._group()
        config = settings(self.state, group.group_id)
        member = self._member(group)
        described = self._described(member)
        topology = self._topology(group)
        self._add_status_of_topology(group, described)
        configured, metadata_hash = self._configured(group, topology)
        self._check_tasks(configured)
        facts = records.GroupFacts(
            group.epoch,
            metadata_hash,
            topology.epoch if configured.is_ready else NOT_VALIDATED,
            config.assignment_configs,
        )
        offsets = self._offsets(group)
        is_changed = self._is_changed(group, member, described)
        if topology is not group.topology:
            self.changes.add(
                records.topology(group.group_id, topology), lambda: setattr(group, "topology", topology)
            )
        if is_changed or facts != group.facts():
            facts = facts._replace(epoch=group.epoch + 1)
            self.changes.add(records.group(group.group_id, facts), lambda: group.set_facts(facts))
            self.state.rebalances[group.group_type] += 1
        self._begin_delay(group, config)
        target = self._target(group, facts.epoch, described, configured, config)
        reconciled = self._reconciled(group, described, target)
        self.state.set_timer(session_timer(group.group_id, member.member_id), config.session_timeout_ms)
        if request.shutdown_application:
            group.shutdown_member_id = group.shutdown_member_id or member.member_id
        response = self._response(group, member, reconciled, config)
        self._add_endpoints(response, group, member, reconciled, configured)
        self._add_statuses(group, reconciled, configured, config)
        response.status = self.statuses
        if not is_known:
            group.endpoint_epoch = 0  # as in Kafka, which counts from the second heartbeat on
        elif offsets != NO_OFFSETS:
            self.changes.then(lambda: group.offsets.update({member.member_id: offsets}))
        response.endpoint_information_epoch = group.endpoint_epoch
        self.changes.commit(self.state, token, HeartbeatAnswer(response, configured.missing), refusal)

    # ---- group and member

    def _group(self) -> tuple[StreamsGroup, bool]:
        """Returns the group, and whether it existed before."""
        group_id = self.request.group_id
        if not self.is_joining:
            return existing_group(self.state, group_id), True
        group, is_known = found_or_new(self.state, group_id, self.changes)
        if self.request.instance_id in group.static_members:
            return group, is_known  # it takes the place that it has
        most = self.state.config.group_streams_max_size
        if len(group.members) >= most and self.request.member_id not in group.members:
            raise KafkaError(
                Errors.GROUP_MAX_SIZE_REACHED,
                f"The streams group has reached its maximum capacity of {most} members.",
            )
        return group, is_known

    def _member(self, group: StreamsGroup) -> StreamsMember:
        """Returns the member as it was, or a new one.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID or FENCED_MEMBER_EPOCH.
                The previous epoch is allowed to a member that has no other tasks than its present ones: the
                answer with the new epoch may be lost.
        """
        request = self.request
        if self.is_joining:
            present = None if request.instance_id is None else group.static_member(request.instance_id)
            if present is not None:
                self.replaced = present
                return static_members.take_place(group, present, request.member_id, self.changes)
            return group.members.get(request.member_id) or StreamsMember(request.member_id)
        if request.instance_id is None:
            member = _existing_member(group, request.member_id)
        else:
            member = static_members.known(group, request.instance_id, request.member_id)
        epoch = request.member_epoch
        if epoch == member.member_epoch:
            return member
        if epoch < member.member_epoch and epoch == member.previous_member_epoch:
            owned = _owned(request)
            if (
                owned is not None
                and contains(member.tasks.active, owned.active)
                and contains(member.tasks.standby, owned.standby)
                and contains(member.tasks.warmup, owned.warmup)
            ):
                return member
        than = "greater" if epoch > member.member_epoch else "smaller"
        raise KafkaError(
            Errors.FENCED_MEMBER_EPOCH,
            f"The streams group member has a {than} member epoch ({epoch}) than the one known by the group "
            f"coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin.",
        )

    def _described(self, member: StreamsMember) -> StreamsMember:
        """Returns the member with what it says about itself."""
        request = self.request
        told: dict[str, Any] = {
            "client_id": self.context.client_id,
            "client_host": self.context.client_host,
        }
        if request.instance_id is not None:
            told["instance_id"] = request.instance_id
        if request.rack_id is not None:
            told["rack_id"] = request.rack_id
        if request.rebalance_timeout_ms != -1:
            told["rebalance_timeout_ms"] = request.rebalance_timeout_ms
        if request.topology is not None:
            told["topology_epoch"] = request.topology.epoch
        if request.process_id is not None:
            told["process_id"] = request.process_id
        if request.client_tags is not None:
            told["client_tags"] = {each.key: each.value for each in request.client_tags}
        if request.user_endpoint is not None:
            told["user_endpoint"] = (request.user_endpoint.host, request.user_endpoint.port)
        elif self.is_joining:
            told["user_endpoint"] = None
        return replace(member, **told)

    def _is_changed(self, group: StreamsGroup, member: StreamsMember, described: StreamsMember) -> bool:
        """Writes what the member says about itself, and returns whether that raises the group epoch."""
        is_new = member.member_id not in group.members and self.replaced is None
        if described == member and not is_new:
            return False
        self.changes.add(records.member(group.group_id, described), lambda: group.put_member(described))
        return self.request.instance_id is None or static_members.needs_assignment(member, described)

    def _offsets(self, group: StreamsGroup) -> TaskOffsets:
        """Returns how far the member says that its tasks are."""
        known = group.offsets.get(self.request.member_id, NO_OFFSETS)
        return known.updated(self.request.task_offsets, self.request.task_end_offsets)

    # ---- topology

    def _topology(self, group: StreamsGroup) -> Topology:
        """Returns the group's topology: the present one, or that of the request if there is none."""
        present = group.topology
        if self.request.topology is None:
            if present is None:
                raise KafkaError(
                    Errors.UNKNOWN_SERVER_ERROR, "The topology is null and the group topology is also null."
                )
            return present
        sent = from_request(self.request.topology)
        if present is None:
            return sent
        if present.epoch <= sent.epoch and present != sent:
            raise KafkaError(Errors.INVALID_REQUEST, "Topology updates are not supported yet.")
        return present

    def _add_status_of_topology(self, group: StreamsGroup, member: StreamsMember) -> None:
        if group.topology is not None and member.topology_epoch < group.topology.epoch:
            self._add_status(
                Status.STALE_TOPOLOGY,
                f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
                f"{group.topology.epoch}.",
            )

    def _add_status(self, status: Status, detail: str) -> None:
        self.statuses.append(messages.Status(status_code=status, status_detail=detail))

    def _configured(self, group: StreamsGroup, topology: Topology) -> tuple[ConfiguredTopology, int]:
        """Returns the topology as applied to the present topics, and the hash of those."""
        cluster = self.cluster
        version = cluster.topics_version
        configured = group.configured
        if group.topology is not None and configured is not None and group.configured_version == version:
            return configured, group.metadata_hash
        metadata_hash = cluster.metadata_hash(topology.required_topics)
        if group.topology is None or configured is None or metadata_hash != group.metadata_hash:
            configured = configure(topology, self._partitions_of)
        found = configured
        self.changes.then(lambda: group.set_configured(found, version))
        return configured, metadata_hash

    def _partitions_of(self, topic: str) -> int | None:
        topic_id = self.cluster.topic_id(topic)
        return None if topic_id is None else self.cluster.partition_count(topic_id)

    def _check_tasks(self, configured: ConfiguredTopology) -> None:
        """Refuses tasks that the topology does not have."""
        if not configured.is_ready:
            return
        request = self.request
        for task in (
            *(request.active_tasks or ()),
            *(request.standby_tasks or ()),
            *(request.warmup_tasks or ()),
        ):
            subtopology = configured.subtopologies.get(task.subtopology_id)
            if subtopology is None:
                raise KafkaError(
                    Errors.INVALID_REQUEST,
                    f"Subtopology {task.subtopology_id} does not exist in the topology.",
                )
            wrong = next((each for each in task.partitions if not 0 <= each < subtopology.tasks), None)
            if wrong is not None:
                raise KafkaError(
                    Errors.INVALID_REQUEST,
                    f"Task {wrong} for subtopology {task.subtopology_id} is invalid. Number of tasks for "
                    f"this subtopology: {subtopology.tasks}",
                )

    # ---- assignment

    def _begin_delay(self, group: StreamsGroup, config: StreamsSettings) -> None:
        """Waits for more members before the first assignment of a group without members."""
        if group.members or group.is_delayed or config.initial_rebalance_delay_ms <= 0:
            return
        group.is_delayed = True
        self.state.set_timer(initial_timer(group.group_id), config.initial_rebalance_delay_ms)

    def _target(
        self,
        group: StreamsGroup,
        epoch: int,
        member: StreamsMember,
        configured: ConfiguredTopology,
        config: StreamsSettings,
    ) -> Target:
        """Returns the member's target assignment; computes it anew if the group epoch has risen."""
        if group.is_delayed:
            self._add_status(
                Status.ASSIGNMENT_DELAYED,
                "Assignment delayed due to the configured initial rebalance delay.",
            )
            return Target(group.assignment_epoch, NO_TASKS)
        replaced_id = member.member_id if self.replaced is None else self.replaced.member_id
        present = Target(group.assignment_epoch, group.target_of(replaced_id))
        if group.assignment_epoch >= epoch:
            return present
        computed_ms, interval_ms = group.assignment_timestamp_ms, config.assignment_interval_ms
        if computed_ms and interval_ms and self.now_ms < computed_ms + interval_ms:
            self._add_status(
                Status.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval."
            )
            return present
        others = {name: each for name, each in group.members.items() if name != replaced_id}
        members = {**others, member.member_id: member}
        before = dict(group.target)
        if replaced_id in before:
            before[member.member_id] = before.pop(replaced_id)
        plan = Plan(epoch, configured, config.num_standby_replicas, self.now_ms)
        targets = compute_target(group, members, before, plan, self.changes)
        return Target(epoch, targets[member.member_id])

    def _reconciled(self, group: StreamsGroup, member: StreamsMember, target: Target) -> StreamsMember:
        reconciled = reconcile(member, target, group, _owned(self.request))
        if reconciled is member:
            return member
        self.changes.add(records.current(group.group_id, reconciled), lambda: group.put_member(reconciled))
        timer = rebalance_timer(group.group_id, member.member_id)
        if reconciled.state is MemberState.UNREVOKED_TASKS:
            group.rebalance_epochs[member.member_id] = reconciled.member_epoch
            self.state.set_timer(timer, max(0, reconciled.rebalance_timeout_ms))
        else:
            group.rebalance_epochs.pop(member.member_id, None)
            self.state.cancel_timer(timer)
        return reconciled

    # ---- the answer

    def _response(
        self, group: StreamsGroup, before: StreamsMember, member: StreamsMember, config: StreamsSettings
    ) -> Response:
        response = Response(
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            task_offset_interval_ms=config.task_offset_interval_ms,
            acceptable_recovery_lag=config.acceptable_recovery_lag,
        )
        if self.is_joining or member.tasks != before.tasks:
            response.active_tasks = _task_ids(member.tasks.active)
            response.standby_tasks = _task_ids(member.tasks.standby)
            response.warmup_tasks = _task_ids(member.tasks.warmup)
        return response

    def _add_endpoints(
        self,
        response: Response,
        group: StreamsGroup,
        before: StreamsMember,
        member: StreamsMember,
        configured: ConfiguredTopology,
    ) -> None:
        """Informs the member which endpoints serve which tasks, if that has changed since the last time."""
        if member.user_endpoint != before.user_endpoint or (
            member.user_endpoint is not None and member.tasks != before.tasks
        ):
            group.endpoint_epoch += 1
        if group.endpoint_epoch != self.request.endpoint_information_epoch:
            left_out = {member.member_id, "" if self.replaced is None else self.replaced.member_id}
            others = [each for name, each in group.members.items() if name not in left_out]
            response.partitions_by_user_endpoint = partitions_by_endpoint(
                [*others, member], configured, self._partitions_of
            )

    def _add_statuses(
        self,
        group: StreamsGroup,
        member: StreamsMember,
        configured: ConfiguredTopology,
        config: StreamsSettings,
    ) -> None:
        if configured.problem is not None:
            self._add_status(configured.problem.status, configured.problem.detail)
        if group.shutdown_member_id is not None:
            self._add_status(
                Status.SHUTDOWN_APPLICATION,
                f"Streams group member {group.shutdown_member_id} encountered a fatal error and requested a "
                "shutdown for the entire application.",
            )
        self._add_status_of_tags(member, config)

    def _add_status_of_tags(self, member: StreamsMember, config: StreamsSettings) -> None:
        """Names client tags that the member lacks. Older clients throw on the status."""
        lacking = [key for key in config.rack_aware_tags if key not in member.client_tags]
        if lacking and self.context.api_version >= TAGS_VERSION:
            self._add_status(
                Status.MISSING_CLIENT_TAGS,
                f"Missing required client tags for rack-aware standby assignment: [{', '.join(lacking)}]. "
                "Configure them via 'client.tag.<tagKey>' in your Streams config.",
            )


def _owned(request: Request) -> Tasks | None:
    """Returns what the member says that it owns."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return Tasks(
        task_set(request.active_tasks), task_set(request.standby_tasks), task_set(request.warmup_tasks)
    )


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> list[messages.TaskIds]:
    return [
        messages.TaskIds(subtopology_id=subtopology_id, partitions=partitions)
        for subtopology_id, partitions in in_order(tasks)
    ]
