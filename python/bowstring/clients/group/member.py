"""Implements membership of a classic consumer group: finds the coordinator, joins, assigns, commits.

The consumer's thread drives it through `tick`; answers arrive during its polls. Heartbeats have their own
thread and connection (heartbeat.py), because the consumer's thread may be busy with records for a long time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from bowstring.clients.errors import ClientError, CommitFailedError, ConfigError, broker_error
from bowstring.clients.group.assignors import Assignor, Subscription
from bowstring.clients.group.heartbeat import GroupConfig, Heartbeat, leave_request
from bowstring.clients.group.offset_requests import commit_request, commit_results, coordinator_request
from bowstring.clients.group.protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.connection import Api, Body, Pending
from bowstring.clients.net.metadata import Cluster
from bowstring.clients.records import Node, OffsetAndMetadata, TopicPartition
from bowstring.clients.troubles import GRACE_S
from bowstring.engine.errors import Errors
from bowstring.engine.protocol.messages.find_coordinator import FindCoordinatorRequest
from bowstring.engine.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from bowstring.engine.protocol.messages.leave_group import LeaveGroupRequest
from bowstring.engine.protocol.messages.offset_commit import OffsetCommitRequest
from bowstring.engine.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

RETRY_PAUSE_S = 0.1
LEAVE_TIMEOUT_S = 2.0
# The coordinator answers JoinGroup within the rebalance timeout; this is extra time for the network.
JOIN_GRACE_S = 5.0

_COORDINATOR_ERRORS = (
    Errors.NOT_COORDINATOR.code,
    Errors.COORDINATOR_NOT_AVAILABLE.code,
    Errors.COORDINATOR_LOAD_IN_PROGRESS.code,
)
_MEMBER_LOST = (Errors.UNKNOWN_MEMBER_ID.code, Errors.ILLEGAL_GENERATION.code)
_COMMIT_LOST = (*_MEMBER_LOST, Errors.REBALANCE_IN_PROGRESS.code, Errors.FENCED_INSTANCE_ID.code)


class State(Enum):
    """Progress of the member in joining the group."""

    OUTSIDE = "outside"
    JOINING = "joining"
    SHARING = "sharing"  # the leader waits for the metadata of every member's topics
    SYNCING = "syncing"
    ASSIGNED = "assigned"  # has an assignment that is not applied yet
    STABLE = "stable"


@dataclass(slots=True)
class GroupEvents:
    """Requests of the member to its consumer, always during `tick` or a poll.

    `revoke` takes partitions away (the consumer commits and calls its listener first), `assign` gives the
    complete new assignment, `lose` takes all partitions away without a chance to commit.
    """

    topics: Callable[[], tuple[str, ...]]
    owned: Callable[[], tuple[TopicPartition, ...]]
    revoke: Callable[[list[TopicPartition]], None]
    assign: Callable[[list[TopicPartition]], None]
    lose: Callable[[], None]


class GroupMember:
    """One member of one group."""

    def __init__(
        self,
        client: NetworkClient,
        cluster: Cluster,
        config: GroupConfig,
        events: GroupEvents,
        heartbeat: Heartbeat,
    ):
        self._client = client
        self._cluster = cluster
        self._config = config
        self._events = events
        self._heartbeat = heartbeat
        self._coordinator: Node | None = None
        self._pending: Pending | None = None
        self._retry_at = 0.0
        self._life = 0
        self._joined: JoinGroupResponse | None = None
        self._assignor: Assignor | None = None
        self._assigned: list[TopicPartition] = []
        self._told_topics: tuple[str, ...] = ()
        self._shared_counts: dict[str, int] = {}
        self._wanted_topics: set[str] = set()
        self.state = State.OUTSIDE
        self.rejoin = True
        self.member_id = ""
        self.generation = -1
        self.error: ClientError | None = None
        self.cooperative = all(assignor.cooperative for assignor in config.assignors)

    # ------------------------------------------------------------ the clockwork

    @property
    def stable(self) -> bool:
        """Whether the assignment is complete and in force."""
        return self.state is State.STABLE and not self.rejoin

    def tick(self, *, join: bool = True) -> float:
        """Takes the next step if one is due; returns seconds until the next check.

        With `join` false it only looks for the coordinator, which is enough to commit without being a member.
        """
        self._hear_heartbeat()
        now = time.monotonic()
        if self._pending is not None:
            return 3600.0
        if now < self._retry_at:
            return self._retry_at - now
        if self._coordinator is None:
            self._find_coordinator()
        elif join:
            return self._advance()
        return 3600.0

    def _advance(self) -> float:
        """Takes the next step of a member whose coordinator is known."""
        if self.state is State.SHARING:
            return self._share_out()
        if self.state is State.ASSIGNED:
            self._take_in()
            return 0.0
        if self.state is State.STABLE and not self.rejoin:
            self._watch_topics()
            return 0.0 if self.rejoin else 3600.0
        self._join()
        return 3600.0 if self._pending is not None else RETRY_PAUSE_S

    def _hear_heartbeat(self) -> None:
        beat = self._heartbeat
        if beat.lost:
            code, beat.lost = beat.lost, 0
            if code == Errors.FENCED_INSTANCE_ID.code:
                self.error = broker_error(code, f"group {self._config.group_id!r}")
            self._leave_generation()
        if beat.overdue:
            beat.overdue = False
            self._leave_generation()
        if beat.coordinator_moved:
            beat.coordinator_moved = False
            self._coordinator = None
        if beat.rejoin:
            beat.rejoin = False
            self.rejoin = True

    def _leave_generation(self) -> None:
        """Leaves the generation after the coordinator has removed the member."""
        self._heartbeat.stop()
        if self.generation >= 0:
            self._events.lose()
        self._begin_anew()
        self.generation = -1
        self.member_id = ""

    def _begin_anew(self) -> None:
        """Resets the state to not joined; answers to earlier join requests are ignored."""
        self._life += 1
        self._pending = None
        self.state = State.OUTSIDE
        self.rejoin = True

    def _pause(self) -> None:
        self._retry_at = time.monotonic() + RETRY_PAUSE_S

    def _ask(
        self, api: Api, body: Body, then: Callable[[Pending], None], timeout_s: float | None = None
    ) -> None:
        assert self._coordinator is not None
        life = self._life

        def answered(pending: Pending) -> None:
            self._done(pending)
            if life == self._life:
                then(pending)
            elif api is JoinGroupRequest and pending.error is None:
                self._leave_late(pending)

        pending = self._client.send(self._coordinator, api, body, timeout_s=timeout_s, callback=answered)
        if not pending.done:
            self._pending = pending

    def _note(self, error: ClientError) -> None:
        if error.retriable:  # other errors are raised
            self._client.troubles.note(f"group {self._config.group_id!r}", error, grace_s=GRACE_S)

    def _over(self) -> None:
        self._client.troubles.over(f"group {self._config.group_id!r}")

    def _done(self, pending: Pending) -> None:
        if self._pending is pending:
            self._pending = None

    def _leave_late(self, joined: Pending) -> None:
        """Leaves again after a late answer made an abandoned member join, so that the others do not wait for
        it.
        """
        member_id = joined.response.member_id
        if member_id and self._config.group_instance_id is None:
            request = leave_request(self._config.group_id, member_id, "left while joining")
            self._client.send(joined.node, LeaveGroupRequest, request, timeout_s=LEAVE_TIMEOUT_S)

    # ------------------------------------------------------------ coordinator

    def _find_coordinator(self) -> None:
        pending = self._client.send(
            self._cluster.any_node(),
            FindCoordinatorRequest,
            coordinator_request(self._config.group_id),
            callback=self._found_coordinator,
        )
        if not pending.done:
            self._pending = pending

    def _found_coordinator(self, pending: Pending) -> None:
        self._done(pending)
        if pending.error is not None:
            if not pending.error.retriable:
                self.error = pending.error
            self._pause()
            return
        answer = pending.response
        found = answer.coordinators[0] if answer.coordinators else answer
        if found.error_code:
            error = broker_error(
                found.error_code, f"coordinator of group {self._config.group_id!r}", found.error_message
            )
            if not error.retriable:
                self.error = error
            self._note(error)
            self._pause()
            return
        self._over()
        self._coordinator = Node(found.node_id, found.host, found.port)

    @property
    def coordinator(self) -> Node | None:
        """The broker that coordinates the group, None while it is being looked up."""
        return self._coordinator

    def coordinator_lost(self, node: Node | None = None) -> None:
        """Handles an answer (of `node`, if given) that says that the coordinator is another broker."""
        if node is None or node == self._coordinator:
            self._coordinator = None
            self._pause()

    # ------------------------------------------------------------ joining

    def _join(self) -> None:
        self._heartbeat.stop()
        topics = self._events.topics()
        if self.state is not State.JOINING:
            owned = self._events.owned()
            leaving = [p for p in owned if p.topic not in topics] if self.cooperative else list(owned)
            if leaving:
                self._events.revoke(leaving)
            self.state = State.JOINING
        self.rejoin = False
        self._told_topics = topics
        owned = self._events.owned() if self.cooperative else ()
        metadata = encode_subscription(Subscription(topics, owned, self.generation))
        config = self._config

        def request(version: int) -> JoinGroupRequest:
            return JoinGroupRequest(
                group_id=config.group_id,
                session_timeout_ms=int(config.session_timeout_s * 1000),
                rebalance_timeout_ms=int(config.max_poll_interval_s * 1000),
                member_id=self.member_id,
                group_instance_id=config.group_instance_id if version >= 5 else None,
                protocol_type="consumer",
                protocols=[
                    JoinGroupRequestProtocol(name=a.name, metadata=metadata) for a in config.assignors
                ],
            )

        self._ask(JoinGroupRequest, request, self._join_answered, config.max_poll_interval_s + JOIN_GRACE_S)

    def _join_answered(self, pending: Pending) -> None:
        if pending.error is not None:
            self._failed(pending.error)
            return
        answer: JoinGroupResponse = pending.response
        code = answer.error_code
        if code == Errors.MEMBER_ID_REQUIRED.code:
            self.member_id = answer.member_id
            self.rejoin = True
            return
        if code:
            self._refused(code, "joining")
            return
        self.member_id = answer.member_id
        self.generation = answer.generation_id
        self._assignor = next((a for a in self._config.assignors if a.name == answer.protocol_name), None)
        if self._assignor is None:
            self.error = ConfigError(
                f"the group chose the assignor {answer.protocol_name!r}, which is not configured"
            )
            return
        self._joined = answer
        if answer.leader == answer.member_id:
            self.state = State.SHARING
        else:
            self.state = State.SYNCING
            self._sync([])

    def _share_out(self) -> float:
        """Assigns partitions as leader, after the metadata of all topics has arrived."""
        assert self._joined is not None and self._assignor is not None
        members = {
            member.member_id: decode_subscription(member.metadata, member.group_instance_id)
            for member in self._joined.members
        }
        counts: dict[str, int] = {}
        self._wanted_topics = {topic for told in members.values() for topic in told.topics}
        for topic in sorted(self._wanted_topics):
            info = self._cluster.topics.get(topic)
            if info is not None:
                counts[topic] = len(info.partitions)
            elif topic not in self._cluster.topic_errors:
                for name in self._wanted_topics:
                    self._cluster.want(name)
                return RETRY_PAUSE_S
        self._shared_counts = counts
        given = self._assignor.assign(counts, members)
        self._sync(
            [
                SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(partitions))
                for member, partitions in given.items()
            ]
        )
        return 3600.0

    def _sync(self, assignments: list[SyncGroupRequestAssignment]) -> None:
        assert self._joined is not None and self._assignor is not None
        self.state = State.SYNCING
        name, config = self._assignor.name, self._config

        def request(version: int) -> SyncGroupRequest:
            return SyncGroupRequest(
                group_id=config.group_id,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=config.group_instance_id if version >= 3 else None,
                protocol_type="consumer",
                protocol_name=name,
                assignments=assignments,
            )

        self._ask(SyncGroupRequest, request, self._synced)

    def _synced(self, pending: Pending) -> None:
        if pending.error is not None:
            self._failed(pending.error)
            return
        answer = pending.response
        if answer.error_code:
            self._refused(answer.error_code, "synchronizing with")
            return
        self._assigned = decode_assignment(answer.assignment)
        self.state = State.ASSIGNED

    def _take_in(self) -> None:
        """Revokes partitions that moved to other members, then reads the assigned ones."""
        assigned = self._assigned
        revoked = sorted(set(self._events.owned()) - set(assigned))
        if revoked:
            self._events.revoke(revoked)
        self._events.assign(assigned)
        self._over()
        self.state = State.STABLE
        assert self._coordinator is not None
        self._heartbeat.start(
            self._coordinator, self.member_id, self.generation, self._config.group_instance_id
        )
        if revoked and self.cooperative:
            self.rejoin = True  # so that revoked partitions can be assigned to their new owners (KIP-429)

    def _failed(self, error: ClientError) -> None:
        if not error.retriable:
            self.error = error
        self._coordinator = None
        self.state = State.OUTSIDE
        self.rejoin = True
        self._pause()

    def _refused(self, code: int, doing: str) -> None:
        self.state = State.OUTSIDE
        self.rejoin = True
        if code in _MEMBER_LOST:
            self._leave_generation()
        elif code in _COORDINATOR_ERRORS:
            self._note(broker_error(code, f"{doing} group {self._config.group_id!r}"))
            self.coordinator_lost()
        elif code != Errors.REBALANCE_IN_PROGRESS.code:
            self.error = broker_error(code, f"{doing} group {self._config.group_id!r}")
            self._pause()

    def _watch_topics(self) -> None:
        """Rejoins when the subscription changed, or, as leader, when topics have more partitions."""
        if self._events.topics() != self._told_topics:
            self.rejoin = True
        if self._joined is not None and self._joined.leader == self.member_id:
            for topic in self._wanted_topics:
                self._cluster.want(topic)
                info = self._cluster.topics.get(topic)
                if info is not None and len(info.partitions) != self._shared_counts.get(topic):
                    self.rejoin = True

    # ------------------------------------------------------------ committing and leaving

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], done: Callable[[ClientError | None], None]
    ) -> None:
        """Sends a commit; `done` gets None, or the error (retriable when it may be sent again)."""
        if self._coordinator is None:
            done(broker_error(Errors.COORDINATOR_NOT_AVAILABLE.code, "committing offsets"))
            return

        life, generation = self._life, self.generation

        def answered(pending: Pending) -> None:
            current = life == self._life and generation == self.generation and self.state is State.STABLE
            if pending.error is not None:
                self.coordinator_lost(pending.node)
                done(pending.error)
            else:
                codes = commit_results(pending.response)
                refused = {p: code for p, code in codes.items() if code}
                done(self._commit_error(refused, pending.node, current) if refused else None)

        self._client.send(
            self._coordinator,
            OffsetCommitRequest,
            commit_request(
                self._config.group_id,
                offsets,
                generation=self.generation,
                member_id=self.member_id,
                group_instance_id=self._config.group_instance_id,
            ),
            callback=answered,
        )

    def _commit_error(self, codes: dict[TopicPartition, int], node: Node, current: bool) -> ClientError:
        """Returns the error of a refused commit. It affects the membership only if the same member sent
        it.
        """
        partition, code = next(iter(codes.items()))
        if code in _COMMIT_LOST:
            if current and code in _MEMBER_LOST:
                self._heartbeat.lost = code
            elif current:
                self.rejoin = True
            return CommitFailedError(
                code,
                f"offsets of group {self._config.group_id!r} were not committed",
                "the group rebalanced and may have given the partitions to another member; poll() more "
                "often, or raise max_poll_interval_ms",
            )
        if code in _COORDINATOR_ERRORS:
            self.coordinator_lost(node)
        return broker_error(code, f"committing the offset of {partition} in group {self._config.group_id!r}")

    def leave(self, *, for_good: bool = True) -> None:
        """Leaves the group, so that others take over at once; a static member stays (KIP-345)."""
        if for_good:
            self._heartbeat.close()
        else:
            self._heartbeat.stop()
        self._begin_anew()
        if self._coordinator is None or not self.member_id or self._config.group_instance_id is not None:
            return
        pending = self._client.send(
            self._coordinator,
            LeaveGroupRequest,
            leave_request(self._config.group_id, self.member_id, "the consumer was closed"),
            timeout_s=LEAVE_TIMEOUT_S,
        )
        while not pending.done:
            self._client.poll(LEAVE_TIMEOUT_S)
        self.generation = -1
        self.member_id = ""
