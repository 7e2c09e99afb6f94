"""Measures the group coordinator: pure Python, from a request to its effects; writes no record."""

from __future__ import annotations

import itertools
import time
from collections import deque
from typing import Any, ClassVar

from bowstring._native.protocol.message_codec import encode
from bowstring.engine.coordinators.effects import AppendRecords, Respond
from bowstring.engine.groups.config import GroupConfig
from bowstring.engine.groups.effects import Effect, SetTimer
from bowstring.engine.groups.modern.cluster import ClusterView
from bowstring.engine.groups.shard import GroupShard
from bowstring.engine.groups.state import RequestContext
from bowstring.engine.metadata.image import ClusterImage
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from bowstring.protocol.messages.heartbeat import HeartbeatRequest
from bowstring.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from bowstring.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from bowstring.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bowstring.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from bowstring.protocol.records.cluster_metadata.topics import PartitionRecord, TopicRecord
from bowstring.protocol.records.consumer_protocol import ConsumerProtocolSubscription

timer = time.process_time

GROUP, TOPIC = "bench", "orders"
NOW_MS = 1_700_000_000_000
SUBSCRIPTION = b"\x00\x01" + encode(ConsumerProtocolSubscription(topics=[TOPIC]), 1)
JOIN, COMMIT = RequestContext(9, "bench", "/127.0.0.1"), RequestContext(9, "bench", "/127.0.0.1")


class _Coordinated:
    """A shard whose appends succeed at once, and its answers."""

    def start(self) -> None:
        ids = itertools.count(1)
        self.image = ClusterImage()
        config = GroupConfig(group_consumer_assignment_interval_ms=0)
        self.shard = GroupShard(config, lambda: f"id{next(ids)}", ClusterView(self))
        self.answers: dict[int, Any] = {}
        self.timers: list[tuple[str, ...]] = []
        self.tokens = itertools.count(1)
        self.offset = 0
        self.carry(self.shard.loaded(NOW_MS))

    def carry(self, effects: list[Effect]) -> None:
        """Carries effects out like the broker, without its log."""
        todo = deque(effects)
        while todo:
            effect = todo.popleft()
            if isinstance(effect, AppendRecords):
                self.shard.append_written(effect.append_id, self.offset)
                self.offset += len(effect.records)
                todo.extend(self.shard.append_finished(effect.append_id, Errors.NONE, NOW_MS))
            elif isinstance(effect, Respond):
                self.answers[effect.token] = effect.body  # type: ignore[index]
            elif isinstance(effect, SetTimer) and effect.key[0] == "join":
                self.timers.append(effect.key)

    def rebalance(self, members: int) -> None:
        """Takes a group of `members` members from the first join to the last assignment."""
        tokens = []
        for _ in range(members):
            given = self.join("")
            tokens.append((given, self.join(self.answers.pop(given).member_id)))
        while self.timers:  # the initial delay, which is prolonged while members join
            self.carry(self.shard.timer_fired(self.timers.pop(), NOW_MS))
        joined = [self.answers.pop(token) for _, token in tokens]
        self.ids = [answer.member_id for answer in joined]
        self.generation = joined[0].generation_id
        leader = joined[0].leader
        self.sync(leader, [SyncGroupRequestAssignment(member_id=each, assignment=b"") for each in self.ids])
        for each in self.ids:
            if each != leader:
                self.sync(each, [])

    def join(self, member_id: str) -> int:
        token = next(self.tokens)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        )
        self.carry(self.shard.join(request, JOIN, token, NOW_MS))
        return token

    def sync(self, member_id: str, assignments: list[SyncGroupRequestAssignment]) -> None:
        token = next(self.tokens)
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        self.carry(self.shard.sync(request, token, NOW_MS))
        assert self.answers.pop(token).error_code == 0

    def leave(self) -> None:
        """Removes all members, so that the next rebalance starts from nothing."""
        token = next(self.tokens)
        everyone = [MemberIdentity(member_id=each, group_instance_id=None) for each in self.ids]
        self.carry(self.shard.leave(LeaveGroupRequest(group_id=GROUP, members=everyone), token, NOW_MS))
        self.answers.clear()
        self.timers.clear()


class Rebalance(_Coordinated):
    """New members from JoinGroup to SyncGroup's answers; they leave again."""

    param_names: ClassVar = ["members"]
    params: ClassVar = [1, 50]

    def setup(self, members: int) -> None:
        """An empty shard."""
        self.start()

    def time_rebalance(self, members: int) -> None:
        """Two joins and a sync a member, the timer of the join phase, and one leave."""
        self.rebalance(members)
        self.leave()


class Stable(_Coordinated):
    """The regular requests of the members of a group of 50."""

    def setup(self) -> None:
        """The group, and the requests of its last member."""
        self.start()
        self.rebalance(50)
        member = self.ids[-1]
        self.beat = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=member)
        partitions = [
            OffsetCommitRequestPartition(partition_index=n, committed_offset=n, committed_metadata="")
            for n in range(10)
        ]
        self.commit = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=member,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)],
        )

    def time_heartbeat(self) -> None:
        """One, with the session timer it sets."""
        self.carry(self.shard.heartbeat(self.beat, 0))
        assert self.answers.pop(0).error_code == 0

    def time_commit_offsets(self) -> None:
        """Of ten partitions: records encoded, kept and answered."""
        self.carry(self.shard.commit_offsets(self.commit, COMMIT, 0, NOW_MS))
        assert self.answers.pop(0).topics[0].partitions[0].error_code == 0


class ConsumerGroup(_Coordinated):
    """A consumer group of KIP-848: 500 members, 50 topics of 100 partitions."""

    MEMBERS, TOPICS, PARTITIONS = 500, 50, 100

    def setup(self) -> None:
        """The group, in which every member has its partitions."""
        self.start()
        names = [f"topic{number}" for number in range(self.TOPICS)]
        for number, name in enumerate(names):
            topic_id = number.to_bytes(16, "big")
            self.image.apply(TopicRecord(name=name, topic_id=topic_id))
            for index in range(self.PARTITIONS):
                self.image.apply(PartitionRecord(partition_id=index, topic_id=topic_id, replicas=[1]))
        self.joining = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": names,
            "topic_partitions": [],
        }
        epochs = {f"member{number}": 0 for number in range(self.MEMBERS)}
        while len(set(epochs.values())) > 1 or 0 in epochs.values():
            for member_id, epoch in epochs.items():
                fields = {"member_epoch": epoch, "topic_partitions": []} if epoch else self.joining
                epochs[member_id] = self.send(member_id, **fields).member_epoch
        last, epoch = epochs.popitem()
        self.beat = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=last, member_epoch=epoch)

    def send(self, member_id: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Sends a heartbeat that must succeed."""
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, **fields)
        token = next(self.tokens)
        self.carry(self.shard.consumer_group_heartbeat(request, JOIN, token, NOW_MS))
        answer = self.answers.pop(token)
        assert answer.error_code == 0, answer
        return answer  # type: ignore[no-any-return]

    def time_heartbeat(self) -> None:
        """A heartbeat that changes nothing."""
        self.carry(self.shard.consumer_group_heartbeat(self.beat, JOIN, 0, NOW_MS))

    def time_assign(self) -> None:
        """A member joins, all partitions are assigned anew, and it leaves."""
        self.send("one more", **self.joining)
        self.send("one more", member_epoch=-1)
