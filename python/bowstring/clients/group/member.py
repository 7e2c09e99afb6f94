"""Implements membership of a classic consumer group: finds the coordinator, joins, assigns, commits.

The consumer's thread drives it through `tick`; answers arrive during its polls. Heartbeats have their own
thread and connection (heartbeat.py), because the consumer's thread may be busy with records for a long time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from enum import Enum

from bowstring.clients.errors import ClientError, ConfigError, broker_error
from bowstring.clients.group.assignors import Assignor, Subscription
from bowstring.clients.group.coordinated import (
    COORDINATOR_ERRORS,
    IDLE_S,
    RETRY_PAUSE_S,
    CoordinatedMember,
    Done,
    GroupEvents,
    commit_failed,
)
from bowstring.clients.group.heartbeat import GroupConfig, Heartbeat, leave_request
from bowstring.clients.group.protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.connection import Api, Body, Pending
from bowstring.clients.net.metadata import ClusterMetadata
from bowstring.clients.net.purposes import Purpose
from bowstring.clients.records import OffsetAndMetadata, TopicPartition
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from bowstring.protocol.messages.leave_group import LeaveGroupRequest
from bowstring.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

LEAVE_TIMEOUT_S = 2.0
# The coordinator answers JoinGroup within the rebalance timeout; this is extra time for the network.
JOIN_GRACE_S = 5.0

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


class GroupMember(CoordinatedMember):
    """One member of one classic group."""

    def __init__(
        self,
        client: NetworkClient,
        cluster: ClusterMetadata,
        config: GroupConfig,
        events: GroupEvents,
        heartbeat: Heartbeat,
    ):
        super().__init__(client, cluster, config.group_id, config.group_instance_id)
        self._config = config
        self._events = events
        self._heartbeat = heartbeat
        self._life = 0
        self._joined: JoinGroupResponse | None = None
        self._assignor: Assignor | None = None
        self._assigned: list[TopicPartition] = []
        self._told_topics: tuple[str, ...] = ()
        self._shared_counts: dict[str, int] = {}
        self._wanted_topics: set[str] = set()
        self.state = State.OUTSIDE
        self.rejoin = True
        self.cooperative = all(assignor.cooperative for assignor in config.assignors)

    # ------------------------------------------------------------ the clockwork

    @property
    def stable(self) -> bool:
        """Whether the assignment is complete and in force."""
        return self.state is State.STABLE and not self.rejoin

    def polled(self) -> None:
        """See CoordinatedMember."""
        self._heartbeat.last_poll = time.monotonic()

    def tick(self, *, join: bool = True) -> float:
        """See CoordinatedMember."""
        self._hear_heartbeat()
        wait_s = self._find()
        if wait_s is None:
            return self._advance() if join else IDLE_S
        return wait_s

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

    def _leave_late(self, joined: Pending) -> None:
        """Leaves again after a late answer made an abandoned member join, so that the others do not wait for
        it.
        """
        member_id = joined.response.member_id
        if member_id and self._config.group_instance_id is None:
            request = leave_request(self._config.group_id, member_id, "left while joining")
            self._client.send(joined.node, LeaveGroupRequest, request, timeout_s=LEAVE_TIMEOUT_S)

    def _purpose(self) -> Purpose | None:
        """See CoordinatedMember: the coordinator keeps a member that joins waiting for the others."""
        joining = self.state in (State.JOINING, State.SYNCING) and self._pending is not None
        return Purpose.GENERAL if joining else None

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
        elif code in COORDINATOR_ERRORS:
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

    def _watch_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], done: Done
    ) -> Callable[[TopicPartition, int], None]:
        life, generation = self._life, self.generation

        def refused(partition: TopicPartition, code: int) -> None:
            # A refusal affects the membership only if the same member sent the commit.
            current = life == self._life and generation == self.generation and self.state is State.STABLE
            if current and code in _MEMBER_LOST:
                self._heartbeat.lost = code
            elif current and code in _COMMIT_LOST:
                self.rejoin = True
            done(self._commit_error(partition, code))

        return refused

    def _commit_error(self, partition: TopicPartition, code: int) -> ClientError:
        if code not in _COMMIT_LOST:
            return super()._commit_error(partition, code)
        return commit_failed(self._group_id, code)

    def leave(self, *, for_good: bool = True) -> None:
        """Leaves the group, so that others take over at once; a static member stays (KIP-345)."""
        if for_good:
            self._heartbeat.close()
        else:
            self._heartbeat.stop()
        purpose = self._purpose()
        self._begin_anew()
        if self._coordinator is None or not self.member_id or self._config.group_instance_id is not None:
            return
        pending = self._client.send(
            self._coordinator,
            LeaveGroupRequest,
            leave_request(self._config.group_id, self.member_id, "the consumer was closed"),
            timeout_s=LEAVE_TIMEOUT_S,
            purpose=purpose,
        )
        while not pending.done:
            self._client.poll(LEAVE_TIMEOUT_S)
        self.generation = -1
        self.member_id = ""
