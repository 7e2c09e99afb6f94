"""A shell with topics, and members of consumer groups (KIP-848) that tests move step by step."""

from __future__ import annotations

from typing import Any

from bowstring.engine.coordinators.effects import Respond
from bowstring.engine.groups.classic.rebalance import session_timer
from bowstring.engine.groups.consumer.group import ConsumerGroup
from bowstring.engine.groups.consumer.heartbeat import only_kept_alive
from bowstring.engine.groups.consumer_protocol import decoded_assignment, encoded_assignment
from bowstring.engine.groups.effects import SetTimer
from bowstring.engine.groups.state import RequestContext
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord
from bowstring.protocol.records.cluster_metadata.topics import PartitionRecord, RemoveTopicRecord, TopicRecord
from tests.support.group_harness import Shell, subscription

GROUP_RESOURCE = 32


class ConsumerShell(Shell):
    """The group is `g` unless a test names another; assignments are computed at once."""

    def __init__(self, **config: Any) -> None:
        config.setdefault("group_consumer_assignment_interval_ms", 0)
        super().__init__(**config)
        self.created = 0

    # ---- the cluster

    def create(self, name: str, partitions: int) -> bytes:
        """Creates a topic; returns its id."""
        self.created += 1
        topic_id = self.created.to_bytes(16, "big")
        self.end_offset += 1
        self.image.apply(TopicRecord(name=name, topic_id=topic_id))
        self.grow(name, partitions)
        return topic_id

    def grow(self, name: str, partitions: int) -> None:
        """Adds partitions to a topic."""
        topic = self.image.topics[name]
        for index in range(len(topic.partitions), partitions):
            self.image.apply(
                PartitionRecord(partition_id=index, topic_id=topic.id, replicas=[1], isr=[1], leader=1)
            )

    def delete(self, name: str) -> None:
        """Deletes a topic as the broker does: the shards get the deletion."""
        topic_id = self.image.topics[name].id
        self.image.apply(RemoveTopicRecord(topic_id=topic_id))
        self._carry(self.shard.topic_deleted(name, topic_id))

    def configure(self, name: str, value: str, group: str = "g") -> None:
        """Sets a config of a group."""
        self.image.apply(
            ConfigRecord(resource_type=GROUP_RESOURCE, resource_name=group, name=name, value=value)
        )

    # ---- requests

    def beat(self, member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Sends a heartbeat and returns its answer."""
        return self.ask(self.send_beat(member_id, epoch, **fields))

    def send_beat(
        self,
        member_id: str,
        epoch: int,
        *,
        group: str = "g",
        owned: dict[bytes, set[int]] | None = None,
        client: str = "c",
        **fields: Any,
    ) -> int:
        """Sends a heartbeat; returns its token."""
        if owned is not None:
            fields["topic_partitions"] = [
                TopicPartitions(topic_id=topic_id, partitions=sorted(indexes))
                for topic_id, indexes in owned.items()
            ]
        request = ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=member_id, member_epoch=epoch, **fields
        )
        token = next(self._tokens)
        context = RequestContext(1, client, "/127.0.0.1")
        kept = only_kept_alive(self.shard.state, request, client, context.client_host)
        effects = self.shard.consumer_group_heartbeat(request, context, token, self.now_ms)
        if kept is not None:  # a broker's fast path does the same
            timer = SetTimer(session_timer(group, member_id), kept.session_timeout_ms)
            assert effects == [timer, Respond(token, kept.response)], effects
        self._carry(effects)
        return token

    def classic_member(self, topic: str) -> ClassicConsumer:
        """Returns a new member of the classic protocol."""
        return ClassicConsumer(self, topic)

    def consumer_group(self, group: str = "g") -> ConsumerGroup:
        """The group, which must be a consumer group."""
        found = self.shard.state.groups[group]
        assert isinstance(found, ConsumerGroup)
        return found


class Member:
    """A member that behaves as Kafka's consumer. `step` sends one heartbeat and follows the answer."""

    def __init__(self, shell: ConsumerShell, member_id: str, *topics: str, **fields: Any) -> None:
        self.shell = shell
        self.member_id = member_id
        self.fields: dict[str, Any] = {"rebalance_timeout_ms": 60_000, **fields}
        if topics or "subscribed_topic_regex" not in fields:
            self.fields["subscribed_topic_names"] = list(topics)
        self.epoch = 0
        self.owned: dict[bytes, set[int]] = {}
        self.error = 0

    def step(self) -> ConsumerGroupHeartbeatResponse:
        """Joins, or reports what it has; adopts an assignment at once."""
        joining = {"owned": {}, **self.fields} if self.epoch <= 0 else {"owned": self.owned}
        joining["instance_id"] = self.fields.get("instance_id")
        answer = self.shell.beat(self.member_id, max(self.epoch, 0), **joining)
        self.take(answer)
        return answer

    def take(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        """Follows an answer."""
        self.error = answer.error_code
        if answer.error_code in (Errors.UNKNOWN_MEMBER_ID.code, Errors.FENCED_MEMBER_EPOCH.code):
            self.epoch, self.owned = 0, {}
        elif not answer.error_code:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = {
                    each.topic_id: set(each.partitions) for each in answer.assignment.topic_partitions
                }

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        """Leaves the group, for good (-1) or for now (-2)."""
        answer = self.shell.beat(self.member_id, epoch, instance_id=self.fields.get("instance_id"))
        self.epoch, self.owned = 0, {}
        return answer

    @property
    def partitions(self) -> list[int]:
        """Its partitions, of all topics."""
        return sorted(index for indexes in self.owned.values() for index in indexes)


def settle(*members: Member, rounds: int = 20) -> None:
    """Lets members send heartbeats until nothing changes."""
    for _ in range(rounds):
        before = [(member.epoch, dict(member.owned)) for member in members]
        for member in members:
            member.step()
        if before == [(member.epoch, dict(member.owned)) for member in members]:
            return
    raise AssertionError(f"not settled: {[(each.member_id, each.epoch, each.owned) for each in members]}")


class ClassicConsumer:
    """A consumer of the classic protocol. If it leads, it assigns all partitions of the topic in turn."""

    def __init__(self, shell: ConsumerShell, topic: str) -> None:
        self.shell = shell
        self.topic = topic
        self.member_id, self.generation, self.error = "", -1, 0
        self.partitions: list[int] = []
        self.token: int | None = None
        self.phase = "join"
        self.plan: dict[str, bytes] | None = None

    def step(self) -> None:
        """Joins, syncs or heartbeats, and follows the answer when it is there."""
        if self.token is None:
            self.token = self._send()
        answer = self.shell.answers.get(self.token)
        if answer is not None:
            self.token = None
            self._take(answer)

    def _send(self) -> int:
        if self.phase == "join":
            return self.shell.join(self.member_id, protocols=[("range", subscription(self.topic))])
        if self.phase == "sync":
            return self.shell.sync(self.member_id, self.generation, self.plan)
        return self.shell.send_heartbeat(self.member_id, self.generation)

    def _take(self, answer: Any) -> None:
        self.error = answer.error_code
        if answer.error_code == Errors.MEMBER_ID_REQUIRED.code:
            self.member_id, self.error = answer.member_id, 0
        elif answer.error_code:
            self.phase = "join"
            if answer.error_code == Errors.UNKNOWN_MEMBER_ID.code:
                self.member_id, self.partitions = "", []
        elif self.phase == "join":
            self.member_id, self.generation = answer.member_id, answer.generation_id
            ids = [member.member_id for member in answer.members]
            count = len(self.shell.image.topics[self.topic].partitions)
            self.plan = {
                each: encoded_assignment(0, {self.topic: range(place, count, len(ids))})
                for place, each in enumerate(ids)
            }
            self.phase = "sync"
        elif self.phase == "sync":
            found = decoded_assignment(answer.assignment)
            assert found is not None
            self.partitions = [index for each in found.assigned_partitions for index in each.partitions]
            self.phase = "heartbeat"

    def leave(self) -> None:
        """Leaves the group."""
        if self.member_id:
            self.shell.leave(self.member_id)
