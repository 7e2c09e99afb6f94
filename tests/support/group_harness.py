"""A shell for one shard that keeps its contract, with a clock that tests advance and a log that can delay or fail."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any

from bowstring._native.protocol.message_codec import encode
from bowstring.engine.coordinators.effects import AppendRecords, Note, Record, Respond
from bowstring.engine.groups.classic.group import ClassicGroup, GroupState
from bowstring.engine.groups.classic.membership import only_kept_alive
from bowstring.engine.groups.classic.rebalance import session_timer
from bowstring.engine.groups.config import GroupConfig
from bowstring.engine.groups.consumer.regexes import Search
from bowstring.engine.groups.effects import (
    CancelTimer,
    Effect,
    InitializeShareState,
    ResolveRegexes,
    SetTimer,
)
from bowstring.engine.groups.modern.cluster import ClusterView
from bowstring.engine.groups.shard import GroupShard
from bowstring.engine.groups.state import RequestContext
from bowstring.engine.groups.timers import TimerQueue
from bowstring.engine.metadata.image import ClusterImage
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.messages.heartbeat import HeartbeatRequest
from bowstring.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from bowstring.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from bowstring.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bowstring.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from bowstring.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from bowstring.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from bowstring.protocol.records.consumer_protocol import ConsumerProtocolSubscription

START_MS = 1_700_000_000_000


def subscription(*topics: str) -> bytes:
    """A consumer's metadata."""
    return b"\x00\x01" + encode(ConsumerProtocolSubscription(topics=list(topics)), 1)


class Shell:
    def __init__(self, **config: Any) -> None:
        self.config = GroupConfig(**config)
        self.now_ms = START_MS
        self.log: list[Record] = []
        self.notes: list[str] = []
        self.timers = TimerQueue()
        self.answers: dict[int, Any] = {}
        self.hold = False
        self.fail: Error | None = None
        self.held: deque[int | Respond] = deque()
        self.searches: list[tuple[str, Search]] = []
        self.asked: list[InitializeShareState] = []
        self._tokens = itertools.count(1)
        self._uuids = itertools.count(1)
        self.image = ClusterImage()
        self.end_offset = 0
        self.shard = self._new_shard()
        self._carry(self.shard.loaded(self.now_ms))

    def _new_shard(self) -> GroupShard:
        shard = GroupShard(self.config, lambda: f"id{next(self._uuids)}", ClusterView(self))
        shard.state.session_left_ms = self._session_left_ms
        return shard

    def _session_left_ms(self, group_id: str, member_id: str) -> int | None:
        deadline_ms = self.timers.deadline_ms(session_timer(group_id, member_id))
        return None if deadline_ms is None else deadline_ms - self.now_ms

    # ---- the contract

    def _carry(self, effects: list[Effect]) -> None:
        todo = deque(effects)
        while todo:
            effect = todo.popleft()
            if isinstance(effect, AppendRecords):
                todo.extend(self._append(effect))
            elif isinstance(effect, Respond):
                self._respond(effect)
            elif isinstance(effect, SetTimer):
                self.timers.set(effect.key, self.now_ms + effect.delay_ms)
            elif isinstance(effect, CancelTimer):
                self.timers.cancel(effect.key)
            elif isinstance(effect, ResolveRegexes):
                self.searches.append(
                    (effect.group_id, Search(ClusterView(self), effect.regexes, self.now_ms))
                )
            elif isinstance(effect, InitializeShareState):
                self.asked.append(effect)
            else:
                assert isinstance(effect, Note)
                self.notes.append(effect.text)

    def _append(self, effect: AppendRecords) -> list[Effect]:
        assert effect.records
        if self.fail is not None:
            return self.shard.append_finished(effect.append_id, self.fail, self.now_ms)
        base_offset = len(self.log)
        self.log += effect.records
        self.shard.append_written(effect.append_id, base_offset)
        if self.hold:
            self.held.append(effect.append_id)
            return []
        return self.shard.append_finished(effect.append_id, Errors.NONE, self.now_ms)

    def _respond(self, effect: Respond) -> None:
        if self.held:
            self.held.append(effect)
            return
        token = effect.token
        assert isinstance(token, int)
        assert token not in self.answers, f"request {token} is answered twice: {effect.body}"
        self.answers[token] = effect.body

    def release(self, error: Error = Errors.NONE) -> None:
        """Raises the high watermark to the log end. With an error, the waiting appends fail instead."""
        self.hold = False
        while self.held:
            item = self.held.popleft()
            if isinstance(item, Respond):
                held, self.held = self.held, deque()
                self._respond(item)
                self.held = held
            else:
                self._carry(self.shard.append_finished(item, error, self.now_ms))

    def advance(self, delay_ms: int) -> None:
        """Advances the clock and fires every timer at its time."""
        end_ms = self.now_ms + delay_ms
        while (deadline_ms := self.timers.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            for key in self.timers.pop_due(self.now_ms):
                self._carry(self.shard.timer_fired(key, self.now_ms))
        self.now_ms = end_ms

    def wait(self, token: int) -> Any:
        """Advances the clock until the request is answered."""
        while token not in self.answers:
            self.advance(500)
        return self.answers[token]

    def restart(self) -> None:
        """Creates a new shard from the log."""
        self.shard = self._new_shard()
        self.timers = TimerQueue()
        keys = [key for key, _ in self.log]
        self.shard.replay.add(range(len(self.log)), keys, [value for _, value in self.log])
        self._carry(self.shard.loaded(self.now_ms))

    def resolve(self) -> None:
        """Ends the lookups of regular expressions that have begun."""
        searches, self.searches = self.searches, []
        for group_id, search in searches:
            while not search.step():
                pass
            self._carry(self.shard.regexes_resolved(group_id, search.found))

    # ---- requests: each returns its token, or with ask() its answer

    def ask(self, token: int) -> Any:
        assert token in self.answers, "not answered yet"
        return self.answers[token]

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        version: int = 9,
        instance: str | None = None,
        protocols: list[tuple[str, bytes]] | None = None,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        client: str = "c",
    ) -> int:
        protocols = [("range", subscription("t"))] if protocols is None else protocols
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols],
        )
        token = next(self._tokens)
        context = RequestContext(version, client, "/127.0.0.1")
        self._carry(self.shard.join(request, context, token, self.now_ms))
        return token

    def join_twice(self, **how: Any) -> tuple[str, int]:
        """Lets a dynamic member join, get its id and join with it; returns the id and the parked request."""
        first = self.ask(self.join(**how))
        assert first.error_code == Errors.MEMBER_ID_REQUIRED.code
        return first.member_id, self.join(first.member_id, **how)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol: str | None = "range",
    ) -> int:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=part)
                for each, part in (assignments or {}).items()
            ],
        )
        token = next(self._tokens)
        self._carry(self.shard.sync(request, token, self.now_ms))
        return token

    def heartbeat(
        self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None
    ) -> int:
        """Returns the error code."""
        return self.ask(self.send_heartbeat(member_id, generation, group=group, instance=instance)).error_code

    def send_heartbeat(
        self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None
    ) -> int:
        request = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        token = next(self._tokens)
        kept = only_kept_alive(self.shard.state, request)
        effects = self.shard.heartbeat(request, token)
        if kept is not None:  # a broker's fast path does the same
            timer = SetTimer(session_timer(group, member_id), kept.session_timeout_ms)
            assert effects == [timer, Respond(token, kept.response)], effects
        self._carry(effects)
        return token

    def leave(self, *members: str | tuple[str, str | None], group: str = "g") -> list[int]:
        """Returns the error codes, one per member given as an id or as (id, instance id)."""
        identities = []
        for member in members:
            member_id, instance = (member, None) if isinstance(member, str) else member
            identities.append(MemberIdentity(member_id=member_id, group_instance_id=instance))
        token = next(self._tokens)
        request = LeaveGroupRequest(group_id=group, members=identities)
        self._carry(self.shard.leave(request, token, self.now_ms))
        assert self.ask(token).error_code == 0
        return [each.error_code for each in self.ask(token).members]

    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        member_id: str = "",
        generation: int = -1,
        group: str = "g",
        instance: str | None = None,
        metadata: str | None = "",
        retention_ms: int = -1,
        topic_id: bytes = bytes(16),
        version: int = 9,
    ) -> int:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, index), offset in offsets.items():
            topics.setdefault(topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=index, committed_offset=offset, committed_metadata=metadata
                )
            )
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=partitions)
                for name, partitions in topics.items()
            ],
        )
        token = next(self._tokens)
        context = RequestContext(version, "c", "/127.0.0.1")
        self._carry(self.shard.commit_offsets(request, context, token, self.now_ms))
        return token

    def commit_error(self, *args: Any, **how: Any) -> int:
        """Returns the error code, which is the same for every partition."""
        codes = {
            part.error_code
            for topic in self.ask(self.commit(*args, **how)).topics
            for part in topic.partitions
        }
        assert len(codes) == 1
        return codes.pop()

    def fetch(
        self,
        wanted: dict[str, list[int]] | None = None,
        *,
        group: str = "g",
        require_stable: bool = False,
        topic_id: bytes = bytes(16),
    ) -> int:
        topics = None
        if wanted is not None:
            topics = [
                OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=indexes)
                for name, indexes in wanted.items()
            ]
        token = next(self._tokens)
        request = OffsetFetchRequestGroup(group_id=group, topics=topics)
        self._carry(self.shard.fetch_offsets(request, token, require_stable=require_stable))
        return token

    def fetched(self, *args: Any, **how: Any) -> dict[tuple[str, int], tuple[int, int]]:
        """Returns offset and error code by topic and partition."""
        body = self.ask(self.fetch(*args, **how))
        assert body.error_code == 0
        return {
            (topic.name, part.partition_index): (part.committed_offset, part.error_code)
            for topic in body.topics
            for part in topic.partitions
        }

    def delete_offsets(self, wanted: dict[str, list[int]], *, group: str = "g") -> Any:
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequestTopic(
                    name=name,
                    partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
                )
                for name, indexes in wanted.items()
            ],
        )
        token = next(self._tokens)
        self._carry(self.shard.delete_offsets(request, token))
        return self.ask(token)

    def delete_groups(self, *group_ids: str) -> list[int]:
        token = next(self._tokens)
        self._carry(self.shard.delete_groups(list(group_ids), token))
        return [result.error_code for result in self.ask(token).results]

    def expire(self) -> None:
        self._carry(self.shard.expire(self.now_ms))

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        self._carry(self.shard.topic_deleted(topic, topic_id))

    def unload(self) -> None:
        self._carry(self.shard.unload(self.now_ms))

    # ---- situations

    def group(self, group_id: str = "g") -> ClassicGroup:
        group = self.shard.state.classic(group_id)
        assert group is not None
        return group

    def members(self, count: int, *, group: str = "g", **how: Any) -> list[str]:
        """Creates a group of `count` dynamic members whose initial rebalance is over; returns ids, the leader's first."""
        joins = [self.join_twice(group=group, client=f"c{i}", **how) for i in range(count)]
        self.wait(joins[-1][1])
        answers = {member_id: self.ask(token) for member_id, token in joins}
        leader = answers[joins[0][0]].leader
        return sorted(answers, key=lambda member_id: member_id != leader)

    def stable(self, count: int, *, group: str = "g", **how: Any) -> list[str]:
        """Like members(), with all members assigned; member i gets b"part i"."""
        ids = self.members(count, group=group, **how)
        self.assign(ids, group=group)
        return ids

    def assign(self, ids: list[str], *, group: str = "g") -> None:
        """Syncs the followers, then the leader (the first id)."""
        generation = self.group(group).generation
        protocol = self.group(group).protocol_name
        protocol_type = self.group(group).protocol_type
        parts = {member_id: b"part %d" % i for i, member_id in enumerate(ids)}
        how: dict[str, Any] = {"group": group, "protocol": protocol, "protocol_type": protocol_type}
        tokens = {each: self.sync(each, generation, **how) for each in ids[1:]}
        tokens[ids[0]] = self.sync(ids[0], generation, parts, **how)
        for member_id, token in tokens.items():
            assert self.ask(token).error_code == 0
            assert self.ask(token).assignment == parts[member_id]
        assert self.group(group).state is GroupState.STABLE


def snapshot(shard: GroupShard) -> dict[str, Any]:
    """Returns the state that a restart must restore: offsets, and groups as of their last completed rebalance."""
    groups = {}
    for group_id, group in shard.state.groups.items():
        assert isinstance(group, ClassicGroup)
        groups[group_id] = {
            "state": str(group.state),
            "generation": group.generation,
            "protocol": (group.protocol_type, group.protocol_name),
            "leader": group.leader_id,
            "members": {
                member.member_id: (
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    member.rebalance_timeout_ms,
                    member.session_timeout_ms,
                    dict(member.protocols).get(group.protocol_name),
                    member.assignment,
                )
                for member in group.members.values()
            },
            "topics": group.subscribed_topics,
        }
    offsets = {
        (group_id, topic, index): offset
        for group_id, topics in shard.offsets
        for topic, partitions in topics.items()
        for index, offset in partitions.items()
    }
    return {"groups": groups, "offsets": offsets}
