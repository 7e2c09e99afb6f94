"""Coordinates the groups of one partition of ``__consumer_offsets``: events in, effects out."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any

from bowstring._native.protocol.commit_requests import CommitRequest, put_commits
from bowstring._native.protocol.fetched_offsets import OffsetQuery
from bowstring.engine.groups import administration
from bowstring.engine.groups.classic import join, membership, rebalance, sync
from bowstring.engine.groups.classic.group import ClassicGroup, GroupState
from bowstring.engine.groups.config import GroupConfig
from bowstring.engine.groups.consumer import classic_members, regexes
from bowstring.engine.groups.consumer import description as consumer_description
from bowstring.engine.groups.consumer import heartbeat as consumer_heartbeat
from bowstring.engine.groups.consumer import membership as consumer_membership
from bowstring.engine.groups.consumer.group import ConsumerGroup
from bowstring.engine.groups.effects import Effect, TimerKey
from bowstring.engine.groups.modern.cluster import ClusterView
from bowstring.engine.groups.offsets import requests as offset_requests
from bowstring.engine.groups.offsets import transactional as transactional_offsets
from bowstring.engine.groups.offsets.store import NO_EXPIRY, CommittedOffset, OffsetStore, TopicOffsets
from bowstring.engine.groups.replay import Replay
from bowstring.engine.groups.share import description as share_description
from bowstring.engine.groups.share import heartbeat as share_heartbeat
from bowstring.engine.groups.share import membership as share_membership
from bowstring.engine.groups.share import state_changes
from bowstring.engine.groups.share.group import ShareGroup
from bowstring.engine.groups.state import KeptAlive, RequestContext, ShardState
from bowstring.engine.groups.streams import describe as streams_description
from bowstring.engine.groups.streams import heartbeat as streams_heartbeat
from bowstring.engine.groups.streams import membership as streams_membership
from bowstring.engine.groups.streams.group import StreamsGroup
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from bowstring.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from bowstring.protocol.messages.describe_groups import DescribedGroup
from bowstring.protocol.messages.heartbeat import HeartbeatRequest
from bowstring.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from bowstring.protocol.messages.leave_group import LeaveGroupRequest
from bowstring.protocol.messages.list_groups import ListedGroup
from bowstring.protocol.messages.offset_commit import OffsetCommitRequest
from bowstring.protocol.messages.offset_delete import OffsetDeleteRequest
from bowstring.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from bowstring.protocol.messages.share_group_describe import DescribedGroup as DescribedShareGroup
from bowstring.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from bowstring.protocol.messages.streams_group_describe import DescribedGroup as DescribedStreamsGroup
from bowstring.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from bowstring.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from bowstring.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


class GroupShard:
    """Each event returns its effects; `effects` describes how the shell must carry them out.

    `now_ms` is wall-clock time in ms, used for the timestamps of commits and state changes. Timers run on the
    shell's steady clock.
    `token` identifies a request and is returned in exactly one `Respond`. Not thread-safe.
    """

    def __init__(
        self,
        config: GroupConfig,
        new_uuid: Callable[[], str],
        cluster: ClusterView | None = None,
        rebalances: Counter[str] | None = None,
    ) -> None:
        self.state = ShardState(config, new_uuid)
        if rebalances is not None:
            self.state.rebalances = rebalances
        if cluster is not None:
            self.state.cluster = cluster
        self._replay: Replay | None = Replay(self.state)

    # ---- the log

    @property
    def loading(self) -> bool:
        """Whether the log is still being read; until then requests get COORDINATOR_LOAD_IN_PROGRESS."""
        return self._replay is not None

    @property
    def replay(self) -> Replay:
        """Returns the replay that takes the partition's records while `loading`."""
        assert self._replay is not None, "the shard is already loaded"
        return self._replay

    def loaded(self, now_ms: int) -> list[Effect]:
        """Ends loading after the log has been read to its end."""
        self.replay.finish(now_ms)
        self._replay = None
        return self.state.take_effects()

    def append_written(self, append_id: int, base_offset: int) -> None:
        """Reports that the records of an append are in the log from `base_offset` on."""
        written = self.state.pending_appends[append_id].written
        if written is not None:
            written(base_offset)

    def append_finished(self, append_id: int, error: Error, now_ms: int) -> list[Effect]:
        """Reports that the records are below the high watermark (`error` is NONE), or that `error` prevented
        the write.
        """
        finished = self.state.pending_appends.pop(append_id).finished
        if finished is not None:
            finished(error, now_ms)
        return self.state.take_effects()

    def timer_fired(self, key: TimerKey, now_ms: int) -> list[Effect]:
        """Reports that a timer of `SetTimer` is due."""
        group = self.state.groups.get(key[1])
        if group is not None:
            _TIMERS[group.group_type](self.state, group, key, now_ms)
        return self.state.take_effects()

    def unload(self, now_ms: int) -> list[Effect]:
        """Ends the shard when another broker takes over or this one stops: answers parked requests with an
        error.
        """
        code = Errors.NOT_COORDINATOR.code
        for group in self.state.groups.values():
            if not isinstance(group, ClassicGroup) or not group.members:
                continue
            group.transition_to(GroupState.DEAD, now_ms)
            for member in group.members.values():
                answer = JoinGroupResponse(error_code=code, member_id=member.member_id)
                rebalance.answer_join(self.state, group, member, answer)
                if member.sync_token is not None:
                    self.state.respond(member.sync_token, SyncGroupResponse(error_code=code))
                    member.sync_token = None
        for pending in list(self.state.pending_appends.values()):
            if pending.finished is not None:
                pending.finished(Errors.NOT_COORDINATOR, now_ms)
        self.state.pending_appends.clear()
        return self.state.take_effects()

    def forget(self, most: int) -> bool:
        """Frees part of an unloaded shard: about `most` offsets and groups. Returns whether more is left."""
        groups = self.state.groups
        for _ in range(min(most, len(groups))):
            groups.popitem()
        return self.state.offsets.forget(most) or bool(groups)

    # ---- requests of members

    def join(
        self, request: JoinGroupRequest, context: RequestContext, token: object, now_ms: int
    ) -> list[Effect]:
        """Handles JoinGroup; answers with a JoinGroupResponse when the join phase is over."""
        group = self._consumer_group(request.group_id)
        if group is None or group.is_empty or not join.is_valid(self.state, request):
            join.join(self.state, request, context, token, now_ms)
        else:
            classic_members.join(self.state, request, context, token, now_ms)
        return self.state.take_effects()

    def sync(self, request: SyncGroupRequest, token: object, now_ms: int) -> list[Effect]:
        """Handles SyncGroup; answers with a SyncGroupResponse when the leader's assignment is committed."""
        group = self._consumer_group(request.group_id)
        if group is None:
            sync.sync(self.state, request, token, now_ms)
        else:
            classic_members.sync(self.state, group, request, token)
        return self.state.take_effects()

    def heartbeat(self, request: HeartbeatRequest, token: object) -> list[Effect]:
        """Handles Heartbeat; answers with a HeartbeatResponse."""
        group = self._consumer_group(request.group_id)
        if group is None:
            membership.heartbeat(self.state, request, token)
        else:
            classic_members.heartbeat(self.state, group, request, token)
        return self.state.take_effects()

    def leave(self, request: LeaveGroupRequest, token: object, now_ms: int) -> list[Effect]:
        """Handles LeaveGroup in the form of version 3, with a list of members; answers with a
        LeaveGroupResponse.
        """
        group = self._consumer_group(request.group_id)
        if group is None:
            membership.leave(self.state, request, token, now_ms)
        else:
            classic_members.leave(self.state, group, request, token, now_ms)
        return self.state.take_effects()

    def _consumer_group(self, group_id: str) -> ConsumerGroup | None:
        group = self.state.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def consumer_group_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        context: RequestContext,
        token: object,
        now_ms: int,
    ) -> list[Effect]:
        """Handles a valid ConsumerGroupHeartbeat; answers with a ConsumerGroupHeartbeatResponse."""
        consumer_heartbeat.heartbeat(self.state, request, context, token, now_ms)
        return self.state.take_effects()

    def streams_group_heartbeat(
        self,
        request: StreamsGroupHeartbeatRequest,
        context: RequestContext,
        token: object,
        now_ms: int,
    ) -> list[Effect]:
        """Handles StreamsGroupHeartbeat; answers with a HeartbeatAnswer."""
        streams_heartbeat.heartbeat(self.state, request, context, token, now_ms)
        return self.state.take_effects()

    def regexes_resolved(self, group_id: str, lookup: regexes.Lookup) -> list[Effect]:
        """Reports the topics that `ResolveRegexes` requested."""
        regexes.resolved(self.state, group_id, lookup)
        return self.state.take_effects()

    # ---- share groups

    def share_group_heartbeat(
        self, request: ShareGroupHeartbeatRequest, context: RequestContext, token: object, now_ms: int
    ) -> list[Effect]:
        """Handles a valid ShareGroupHeartbeat; answers with a ShareGroupHeartbeatResponse."""
        share_heartbeat.heartbeat(self.state, request, context, token, now_ms)
        return self.state.take_effects()

    def share_state_initialized(
        self,
        group_id: str,
        partitions: Iterable[tuple[bytes, int]],
        now_ms: int,
        *,
        error: Error = Errors.NONE,
        token: object = None,
    ) -> list[Effect]:
        """Reports what `InitializeShareState` requested; an error of one partition counts for all. With a
        token, answers with an Error.
        """
        state_changes.initialized(self.state, group_id, partitions, now_ms, error=error, token=token)
        return self.state.take_effects()

    def describe_share_group(self, group_id: str) -> DescribedShareGroup:
        """Returns epochs and members of a share group."""
        return share_description.describe(self.state, group_id)

    def initialized_partitions(self, group_id: str) -> dict[bytes, list[int]]:
        """Returns the partitions of a share group that have state, by topic id."""
        return share_description.initialized_partitions(self.state, group_id)

    def alter_share_offsets(
        self, group_id: str, start_offsets: dict[tuple[bytes, int], int], token: object, now_ms: int
    ) -> list[Effect]:
        """Begins AlterShareGroupOffsets; answers with an Alteration or a KafkaError."""
        state_changes.alter(self.state, group_id, start_offsets, token, now_ms)
        return self.state.take_effects()

    def delete_share_offsets(self, group_id: str, topics: list[str], token: object) -> list[Effect]:
        """Begins DeleteShareGroupOffsets; answers with a Deletion or a KafkaError."""
        state_changes.begin_deletion(self.state, group_id, topics, token)
        return self.state.take_effects()

    def share_state_deleted(self, group_id: str, topic_ids: Set[bytes], token: object) -> list[Effect]:
        """Ends DeleteShareGroupOffsets; answers with an Error."""
        state_changes.deleted(self.state, group_id, topic_ids, token)
        return self.state.take_effects()

    def delete_share_groups(self, group_ids: list[str], token: object) -> list[Effect]:
        """Begins DeleteGroups; answers with the partitions whose state must be deleted before, by group id,
        or with a KafkaError.
        """
        state_changes.begin_group_deletions(self.state, group_ids, token)
        return self.state.take_effects()

    # ---- offsets

    def commit_offsets(
        self, request: OffsetCommitRequest, context: RequestContext, token: object, now_ms: int
    ) -> list[Effect]:
        """Handles OffsetCommit with names and ids of existing topics; answers with an
        OffsetCommitResponse.
        """
        offset_requests.commit(self.state, request, context, token, now_ms)
        return self.state.take_effects()

    def may_commit(self, request: CommitRequest) -> KeptAlive | None:
        """Returns what becomes of an OffsetCommit that has no error and needs no more than its records; None:
        `commit_offsets` must handle it. `committed` follows.
        """
        return offset_requests.may_commit(self.state, request)

    def committed(self, requests: list[CommitRequest], now_ms: int, base_offset: int) -> None:
        """Reports that the records of commits are in the log, in one batch from `base_offset` on."""
        put_commits(requests, now_ms, base_offset, self.state.offsets.partitions, CommittedOffset, NO_EXPIRY)

    def commit_transactional_offsets(
        self,
        request: TxnOffsetCommitRequest,
        topic_ids: dict[str, bytes],
        token: object,
        now_ms: int,
        *,
        verification: int,
        version: int,
    ) -> list[Effect]:
        """Handles TxnOffsetCommit of existing topics; answers with a TxnOffsetCommitResponse."""
        transactional_offsets.commit(
            self.state, request, topic_ids, token, now_ms, verification=verification, version=version
        )
        return self.state.take_effects()

    def end_transaction(
        self, batch: bytes, producer_id: int, token: object, *, commit: bool, version: int
    ) -> list[Effect]:
        """Handles the marker of a transaction; answers with an Error."""
        transactional_offsets.end_transaction(
            self.state, batch, producer_id, token, commit=commit, version=version
        )
        return self.state.take_effects()

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, token: object, *, require_stable: bool
    ) -> list[Effect]:
        """Handles OffsetFetch of one group, topics by name; answers with an OffsetFetchResponseGroup."""
        self.state.respond(token, offset_requests.fetch(self.state, request, require_stable=require_stable))
        return self.state.take_effects()

    def stable_offsets(self, query: OffsetQuery) -> TopicOffsets | None:
        """Returns the offsets of a group, by topic and partition, with what may not be committed. None: the
        answer has an error. Do not modify.
        """
        return offset_requests.stable_offsets(self.state, query)

    def delete_offsets(self, request: OffsetDeleteRequest, token: object) -> list[Effect]:
        """Handles OffsetDelete of existing topics; answers with an OffsetDeleteResponse."""
        offset_requests.delete(self.state, request, token)
        return self.state.take_effects()

    @property
    def offsets(self) -> OffsetStore:
        """The committed offsets. Read only."""
        return self.state.offsets

    def members_of(self, group_id: str) -> Set[str]:
        """Returns the present member ids of a classic group."""
        group = self.state.classic(group_id)
        return set() if group is None else set(group.members)

    # ---- administration

    def list_groups(self) -> Iterator[ListedGroup]:
        """Yields every group."""
        return administration.list_groups(self.state)

    def describe_group(self, group_id: str, api_version: int) -> DescribedGroup:
        """Returns state and members of a classic group."""
        return administration.describe_group(self.state, group_id, api_version)

    def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        """Returns epochs and members of a consumer group."""
        return consumer_description.describe(self.state, group_id)

    def describe_streams_group(self, group_id: str) -> DescribedStreamsGroup:
        """Returns topology, epochs and members of a streams group."""
        return streams_description.describe(self.state, group_id)

    def delete_groups(self, group_ids: list[str], token: object) -> list[Effect]:
        """Handles DeleteGroups; answers with a DeleteGroupsResponse."""
        administration.delete_groups(self.state, group_ids, token)
        return self.state.take_effects()

    def expire(self, now_ms: int) -> list[Effect]:
        """Deletes offsets whose offsets.retention.minutes have passed. Call every
        offsets.retention.check.interval.ms.
        """
        administration.expire(self.state, now_ms)
        return self.state.take_effects()

    def topic_deleted(self, topic: str, topic_id: bytes) -> list[Effect]:
        """Deletes the offsets committed for a deleted topic."""
        administration.delete_topic_offsets(self.state, topic, topic_id)
        state_changes.topic_deleted(self.state, topic_id)
        return self.state.take_effects()


def _classic_timer_fired(state: ShardState, group: ClassicGroup, key: TimerKey, now_ms: int) -> None:
    if group.state is GroupState.DEAD:
        return
    if key[0] == "session":
        membership.session_timer_fired(state, group, key[2], now_ms)
    elif key[0] == "join":
        rebalance.join_timer_fired(state, group, now_ms)
    elif key[0] == "sync":
        sync.sync_timer_fired(state, group, now_ms)


_TIMERS: dict[str, Callable[[ShardState, Any, TimerKey, int], None]] = {
    ClassicGroup.group_type: _classic_timer_fired,
    ConsumerGroup.group_type: consumer_membership.timer_fired,
    ShareGroup.group_type: share_membership.timer_fired,
    StreamsGroup.group_type: streams_membership.timer_fired,
}
"""Function by group type. A group may have got another type since: then the timer has no effect."""
