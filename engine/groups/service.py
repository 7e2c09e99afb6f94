"""Runs the group coordinator: timers, the ``__consumer_offsets`` log, and futures for parked requests.

engine/groups decides; this module carries out the effects on the control thread. Code shared with other
coordinators is in engine/coordinators.
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.protocol.commit_requests import CommitRequest, commit_rows, records_bytes
from bowstring._native.protocol.fetched_offsets import OffsetQuery
from bowstring._native.record.encode import encode_batch
from bowstring.engine import event_log
from bowstring.engine.coordinators.effects import Respond, Token
from bowstring.engine.coordinators.hosted import HostedShard, WrittenTogether
from bowstring.engine.coordinators.internal_topic import InternalTopic
from bowstring.engine.coordinators.repeatable import Repeatable
from bowstring.engine.coordinators.runtime import (
    REPLAYED_AT_ONCE_BYTES,
    CoordinatorRuntime,
    refuse_request,
    wall_ms,
)
from bowstring.engine.groups.append_errors import append_error_of_group
from bowstring.engine.groups.classic.rebalance import session_timer
from bowstring.engine.groups.config import GroupConfig
from bowstring.engine.groups.consumer.regexes import Search
from bowstring.engine.groups.effects import (
    CancelTimer,
    Effect,
    InitializeShareState,
    ResolveRegexes,
    SetTimer,
    TimerKey,
)
from bowstring.engine.groups.hosted import AnswerCommit, GatheredCommit, HostedGroups
from bowstring.engine.groups.log_replay import READ_BYTES, replay_log
from bowstring.engine.groups.modern.cluster import ClusterView
from bowstring.engine.groups.offsets.store import TopicOffsets
from bowstring.engine.groups.shard import GroupShard
from bowstring.engine.groups.state import KeptAlive, ShardState
from bowstring.engine.groups.timers import TimerQueue
from bowstring.engine.metadata.names import GROUPS_TOPIC
from bowstring.engine.share.persister.interface import (
    UNINITIALIZED_START_OFFSET,
    Persister,
    SharePartitionKey,
)
from bowstring.protocol.errors import Error, Errors

if TYPE_CHECKING:
    from bowstring._native.server.data_plane import DataPlane
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.coordinators.cluster_changes import ClusterChanges
    from bowstring.engine.metadata.image import ImageSource
    from bowstring.engine.storage.log_manager import LogManager

_TOPIC: Final = InternalTopic(
    GROUPS_TOPIC,
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
    lambda value: {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(value("offsets.topic.segment.bytes")),
    },
    "groups",
    "restore its directory from a copy, or delete it to start with empty groups",
)

# Offsets and groups of a shard that has moved away that are freed at once.
_FREED_AT_ONCE: Final = 2_000
# Share partitions whose state is created together.
_INITIALIZED_AT_ONCE: Final = 100
# Records of commits that are gathered. Each has names, so that a small request may become megabytes.
_GATHERED_MAX_BYTES: Final = 512 << 10
Event = Callable[[GroupShard, Token, int], list[Effect]]


class GroupCoordinatorService(CoordinatorRuntime[GroupShard]):
    """The coordinator of the groups whose partitions of ``__consumer_offsets`` this broker leads.

    Handlers call `ask` or `tell` for one group and `shards` for all groups.

    The data plane determines the leader: call `role_changed` after it got a partition's role. A shard answers
    nothing while the data plane has another role than the one in which its log was read.

    Attributes:
        rebalances: Since the start, by group type.
    """

    topic: ClassVar = _TOPIC
    answers_wait: ClassVar = True

    def __init__(
        self,
        configs: "BrokerConfigs",
        metadata: "ImageSource",
        logs: "LogManager",
        plane: "DataPlane",
        changes: "ClusterChanges",
        *,
        persister: Callable[[], Persister] | None = None,
        replayed_at_once_bytes: int = REPLAYED_AT_ONCE_BYTES,
        read_bytes: int = READ_BYTES,
    ) -> None:
        super().__init__(configs, metadata, logs, plane, changes)
        self.rebalances: Counter[str] = Counter()
        self._at_once_bytes = replayed_at_once_bytes
        self._read_bytes = read_bytes
        self._persister = persister
        self._config = GroupConfig.read(configs.value)
        self._cluster = ClusterView(metadata, configs.value)
        # by partition, when its shard has something to do
        self._due: TimerQueue[int] = TimerQueue()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0
        # those with commits that `write_gathered` writes
        self._gathering: list[HostedGroups] = []
        self._gathered_bytes = 0

    # ------------------------------------------------------------ life

    def start(self) -> None:
        """Leads the partitions of ``__consumer_offsets`` that the data plane leads. Call on the control
        loop.
        """
        super().start()
        interval_ms = self._config.offsets_retention_check_interval_ms
        self._spawn(self._repeat(interval_ms, lambda: self.expire(wall_ms())))

    @property
    def is_alarm_set(self) -> bool:
        """Whether a timer will wake the control loop."""
        return self._alarm is not None

    def role_changed(self, partition: int) -> None:
        """Begins or ends to coordinate a partition, as the data plane now leads it or not."""
        self._withdraw_leases(partition)
        super().role_changed(partition)

    def image_changed(self) -> None:
        """Ends what depends on the image of the cluster. Call it when records have changed that."""
        for partition in self._hosted:
            self._withdraw_leases(partition)

    def _withdraw_leases(self, partition: int) -> None:
        if (hosted := self._hosted.get(partition)) is not None:
            _groups(hosted).leases.withdraw_all()

    def _other_topic_deleted(self, topic: str, topic_id: bytes) -> None:
        self.image_changed()
        for hosted in list(self._hosted.values()):
            if hosted.shard.loading:
                _groups(hosted).deleted_topics.append((topic, topic_id))
            else:
                self._carry(hosted, hosted.shard.topic_deleted(topic, topic_id))

    # ------------------------------------------------------------ shards

    def _new_shard(self) -> GroupShard:
        return GroupShard(self._config, lambda: str(uuid.uuid4()), self._cluster, self.rebalances)

    def _host(self, partition: int, log: PartitionLog, leader_epoch: int) -> HostedGroups:
        hosted = HostedGroups(partition, self._new_shard(), log, leader_epoch)
        hosted.shard.state.session_left_ms = partial(self._session_left_ms, hosted.timers)
        return hosted

    def _session_left_ms(self, timers: TimerQueue[TimerKey], group_id: str, member_id: str) -> int | None:
        """Returns for how long a member's session lasts without a heartbeat; None if it has none. The leases
        of its group must be withdrawn.
        """
        deadline_ms = timers.deadline_ms(session_timer(group_id, member_id))
        return None if deadline_ms is None else deadline_ms - self._steady_ms()

    def _replay(self, log: PartitionLog, shard: GroupShard, go_on: Callable[[], bool]) -> None:
        replay_log(log, shard.replay, go_on, self._read_bytes)

    def _loaded_now(self, hosted: HostedShard[GroupShard]) -> None:
        super()._loaded_now(hosted)
        deleted = _groups(hosted).deleted_topics
        for topic, topic_id in deleted:
            self._carry(hosted, hosted.shard.topic_deleted(topic, topic_id))
        deleted.clear()

    def _all_loaded(self, partitions: int, seconds: float) -> None:
        event_log.info(
            "group coordinator loaded its groups",
            partitions=partitions,
            groups=sum(len(each.shard.state.groups) for each in self._hosted.values()),
            seconds=round(seconds, 3),
        )

    def _resign(self, partition: int) -> None:
        self.write_gathered()
        self._withdraw_leases(partition)
        super()._resign(partition)
        self._due.cancel(partition)
        self._arm()

    def _shard_ended(self, hosted: HostedShard[GroupShard]) -> None:
        if hosted.shard.forget(_FREED_AT_ONCE) and not self._stopping:
            self._spawn(self._free(hosted.shard))

    async def _free(self, shard: GroupShard) -> None:
        while shard.forget(_FREED_AT_ONCE):
            await asyncio.sleep(0)

    # ------------------------------------------------------------ requests

    def ask(self, group_id: str, event: Event) -> Awaitable[Any]:
        """Passes `event` to the group's shard and returns its answer.

        Raises:
            KafkaError: NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS while the log is read. The answer
                itself may raise COORDINATOR_NOT_AVAILABLE when what it says is not committed in time.
        """
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.tell(group_id, event, answer)
        return answer

    def tell(self, group_id: str, event: Event, token: Token) -> None:
        """Passes `event` to the group's shard, which answers through `token`.

        Raises:
            KafkaError: As for `ask`. Then there is no other answer.
        """
        hosted = self._asked(self.partition_of(group_id))
        _groups(hosted).leases.withdraw(group_id)
        self._carry(hosted, event(hosted.shard, token, wall_ms()))

    def ask_partition(self, partition: int, event: Event, *, changes_groups: bool = True) -> Awaitable[Any]:
        """Like `ask`, for answers of a shard about several groups.

        Args:
            changes_groups: Whether the event may change more of them than their offsets.
        """
        hosted = self._asked(partition)
        if changes_groups:
            _groups(hosted).leases.withdraw_all()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._carry(hosted, event(hosted.shard, answer, wall_ms()))
        return answer

    def _asked(self, partition: int) -> HostedShard[GroupShard]:
        """Returns the shard of a partition, as `_loaded`. What was gathered before is written."""
        if self._gathering:
            self.write_gathered()
        return self._loaded(partition)

    def heartbeat_at_once(
        self, group_id: str, member_id: str, only_kept_alive: Callable[[ShardState], KeptAlive | None]
    ) -> Any:
        """Answers a heartbeat that only restarts a session, as most do. None: it does more, or has to wait
        for earlier changes of its shard, so `ask` instead.
        """
        hosted = self._settled(group_id)
        if hosted is None:
            return None
        kept = only_kept_alive(hosted.shard.state)
        timers = _groups(hosted).timers
        timer = session_timer(group_id, member_id)
        if kept is None or timer not in timers:
            return None
        # Later than before, so the alarm that is set rings early enough.
        timers.set(timer, self._steady_ms() + kept.session_timeout_ms)
        return Repeatable(
            kept.response,
            lambda lease: _groups(hosted).leases.give(group_id, member_id, lease, kept.session_timeout_ms),
        )

    def _settled(self, group_id: str) -> HostedShard[GroupShard] | None:
        """Returns the group's shard if all that it holds is committed; otherwise None."""
        hosted = self._hosted.get(self.partition_of(group_id))
        if hosted is None or hosted.shard.loading or hosted.is_carrying or hosted.waiting:
            return None
        if hosted.end_offset > hosted.log.high_watermark or not self._leads(hosted):
            return None
        return hosted

    def offsets_at_once(self, query: OffsetQuery) -> TopicOffsets | None:
        """Returns the offsets of a group, by topic and partition. None: there is an error, or it has to wait
        for earlier changes of its shard, so `ask` instead.
        """
        hosted = self._settled(query.group_id)
        return None if hosted is None else hosted.shard.stable_offsets(query)

    def gather_commit(self, request: CommitRequest, answer: AnswerCommit) -> bool:
        """Takes an OffsetCommit that needs no more than its records. Those of one pass of the control loop
        are written together, by `write_gathered` at its end, or before if they are large. False: `ask`
        instead.

        Args:
            answer: Called once, with the error of all its partitions.
        """
        size_bytes = records_bytes(request)
        if size_bytes > _GATHERED_MAX_BYTES:
            return False
        if self._gathered_bytes + size_bytes > _GATHERED_MAX_BYTES:
            self.write_gathered()
        hosted = self._hosted.get(self.partition_of(request.group_id))
        if hosted is None or hosted.shard.loading or hosted.is_carrying or not self._leads(hosted):
            return False
        groups = _groups(hosted)
        kept = hosted.shard.may_commit(request)
        if kept is None:
            return False
        if kept.session_timeout_ms:
            timer = session_timer(request.group_id, request.member_id)
            groups.timers.set(timer, self._steady_ms() + kept.session_timeout_ms)
        if not groups.commits:
            self._gathering.append(groups)
        groups.commits.append((request, answer))
        self._gathered_bytes += size_bytes
        return True

    def write_gathered(self) -> None:
        """Writes the commits that were gathered, one batch for each partition of ``__consumer_offsets``."""
        gathering, self._gathering, self._gathered_bytes = self._gathering, [], 0
        for hosted in gathering:
            commits, hosted.commits = hosted.commits, []
            try:  # as `_guarded`, without its generator
                self._write_commits(hosted, commits)
                self._schedule(hosted)
            except Exception:
                self._tell_bug(partition=f"{self.topic.name}-{hosted.partition}")

    def _write_commits(self, hosted: HostedGroups, commits: list[GatheredCommit]) -> None:
        requests = [request for request, _ in commits]
        now_ms, most_bytes = wall_ms(), self.max_batch_bytes
        try:
            batch = encode_batch(commit_rows(requests, now_ms))
            if len(batch) > most_bytes and len(commits) > 1:
                half = len(commits) // 2
                self._write_commits(hosted, commits[:half])
                self._write_commits(hosted, commits[half:])
                return
            base_offset = hosted.log.log_end_offset
            error = self._write(hosted, batch, most_bytes)
            if not error:
                hosted.shard.committed(requests, now_ms, base_offset)
        except MemoryError:  # the clients try again
            error = Errors.COORDINATOR_NOT_AVAILABLE
        except Exception:
            self._tell_bug(partition=f"{self.topic.name}-{hosted.partition}")
            error = Errors.UNKNOWN_SERVER_ERROR
        if error or (hosted.log.high_watermark >= hosted.end_offset and not hosted.waiting):
            _answer_commits(commits, error)
            return
        self._wait(hosted, WrittenTogether(partial(_answer_commits, commits)))
        self._when_durable(hosted)

    def begin_verification(self, group_id: str, producer_id: int, epoch: int, *, adds: bool) -> int:
        """Returns the token with which a producer may begin a transaction in the group's partition once its
        coordinator confirms that; 0 when it is ongoing there. See `PartitionLog.verify`.

        Raises:
            KafkaError: As for `ask`.
        """
        log = self._loaded(self.partition_of(group_id)).log
        token = log.verify(producer_id, epoch, adds=adds, now_ms=wall_ms())
        if token:
            log.verified(producer_id, token)  # no order to keep: offsets have no sequence numbers
        return token

    async def end_transaction(
        self, partition: int, batch: bytes, producer_id: int, *, commit: bool, version: int
    ) -> Error:
        """Writes the marker of a transaction to a partition, and commits or drops its offsets.

        Args:
            batch: The encoded marker.
            version: The transaction version under which the transaction ended.

        Raises:
            KafkaError: As for `ask`.
        """
        answer: Error = await self.ask_partition(
            partition,
            lambda shard, token, now_ms: shard.end_transaction(
                batch, producer_id, token, commit=commit, version=version
            ),
            changes_groups=False,
        )
        return answer

    async def committed(self, partition: int) -> None:
        """Waits until all that the shard of a partition holds now is committed.

        Raises:
            KafkaError: As for `ask`.
        """
        await self.ask_partition(
            partition, lambda shard, token, now_ms: [Respond(token, None)], changes_groups=False
        )

    def shard_of(self, group_id: str) -> GroupShard:
        """Returns the group's shard. Read only. What it holds may not be committed yet.

        Raises:
            KafkaError: As for `ask`.
        """
        return self._loaded(self.partition_of(group_id)).shard

    def shards(self) -> Iterator[tuple[int, GroupShard]]:
        """Returns partition and shard of everything that this broker coordinates. Read only. What they hold
        may not be committed yet.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS.
        """
        for partition, hosted in list(self._hosted.items()):
            if self._leads(hosted):
                yield partition, self._loaded(partition).shard

    # ------------------------------------------------------------ effects

    def _carry(self, hosted: HostedShard[GroupShard], effects: Sequence[object]) -> None:
        super()._carry(hosted, effects)
        if not hosted.is_carrying:
            self._schedule(hosted)

    def _carry_one(self, hosted: HostedShard[GroupShard], effect: object) -> None:
        # Timers first: they are more than half of the effects.
        if isinstance(effect, SetTimer):
            _groups(hosted).timers.set(effect.key, self._steady_ms() + effect.delay_ms)
        elif isinstance(effect, CancelTimer):
            _groups(hosted).timers.cancel(effect.key)
        else:
            super()._carry_one(hosted, effect)

    def _carry_other(self, hosted: HostedShard[GroupShard], effect: object) -> None:
        if isinstance(effect, ResolveRegexes):
            self._spawn(self._resolve(hosted, effect))
        else:
            assert isinstance(effect, InitializeShareState), effect
            self._spawn(self._initialize(hosted, effect))

    async def _resolve(self, hosted: HostedShard[GroupShard], effect: ResolveRegexes) -> None:
        """Looks up topics in steps, between other work."""
        search = Search(self._cluster, effect.regexes, wall_ms(), effect.sees)
        while not search.step():
            await asyncio.sleep(0)
        if not hosted.dismissed:
            _groups(hosted).leases.withdraw(effect.group_id)
            self._carry(hosted, hosted.shard.regexes_resolved(effect.group_id, search.found))

    async def _initialize(self, hosted: HostedShard[GroupShard], effect: InitializeShareState) -> None:
        """Lets share coordinators create the state of share partitions, some at a time."""
        assert self._persister is not None, "share groups need a persister"
        persister = self._persister()
        error = Errors.NONE
        for first in range(0, len(effect.partitions), _INITIALIZED_AT_ONCE):
            some = effect.partitions[first : first + _INITIALIZED_AT_ONCE]
            keys = [SharePartitionKey(effect.group_id, *partition) for partition in some]
            errors = await asyncio.gather(
                *(
                    persister.initialize(
                        key,
                        effect.state_epoch,
                        0 if partition in effect.from_start else UNINITIALIZED_START_OFFSET,
                    )
                    for key, partition in zip(keys, some, strict=True)
                )
            )
            error = next((each for each in errors if each), error)
        if not hosted.dismissed:
            self._carry(
                hosted,
                hosted.shard.share_state_initialized(
                    effect.group_id, effect.partitions, wall_ms(), error=error
                ),
            )

    # ------------------------------------------------------------ the high watermark

    def _deadline_ms(self) -> int:
        return self._steady_ms() + int(self._configs.value("offsets.commit.timeout.ms"))

    def advanced(self, partition: int) -> None:
        """Answers what waited for the partition's high watermark. Call it when `DataPlane.take_advanced`
        names the partition.
        """
        super().advanced(partition)
        hosted = self._hosted.get(partition)
        if hosted is not None:
            self._schedule(hosted)

    def _give_up(self, hosted: HostedShard[GroupShard]) -> None:
        """Answers requests that have waited too long for followers. Their records may yet be committed."""
        now_ms = self._steady_ms()
        while hosted.waiting and (hosted.waiting[0].deadline_ms or 0) <= now_ms:
            item = hosted.waiting.popleft().item
            if isinstance(item, Respond):
                refuse_request(item, append_error_of_group(Errors.REQUEST_TIMED_OUT))
            elif isinstance(item, WrittenTogether):
                with self._guarded(hosted.partition):
                    item.end(Errors.REQUEST_TIMED_OUT)
            else:
                self._failed(hosted, item, Errors.REQUEST_TIMED_OUT)

    # ------------------------------------------------------------ time

    def _steady_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def _schedule(self, hosted: HostedShard[GroupShard]) -> None:
        """Notes when the shard has something to do."""
        if hosted.dismissed:
            return
        due_ms = _groups(hosted).due_ms()
        if due_ms is None:
            self._due.cancel(hosted.partition)
        else:
            self._due.set(hosted.partition, due_ms)
        self._arm()

    def _arm(self) -> None:
        """Sets one event-loop alarm for all timers: an idle coordinator has none."""
        due_ms = self._due.next_deadline_ms()
        if self._alarm is not None:
            if due_ms is not None and self._alarm_ms <= due_ms:
                return
            self._alarm.cancel()
            self._alarm = None
        if due_ms is not None:
            self._alarm_ms = due_ms
            self._alarm = asyncio.get_running_loop().call_at(due_ms / 1000, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        # The clock may be a little behind the alarm; rung for nothing, it would be set again at once.
        now_ms = max(self._steady_ms(), self._alarm_ms)
        for partition in self._due.pop_due(now_ms):
            hosted = self._hosted.get(partition)
            if hosted is None:
                continue
            self._give_up(hosted)
            for key in _groups(hosted).timers.pop_due(now_ms):
                if hosted.dismissed:
                    break
                if not _groups(hosted).leases.renews(key, now_ms):
                    self._fire(hosted, key)
            self._schedule(hosted)
        self._arm()

    def _fire(self, hosted: HostedShard[GroupShard], key: TimerKey) -> None:
        """Fires a timer. A bug in it must not stop other groups."""
        try:
            self._carry(hosted, hosted.shard.timer_fired(key, wall_ms()))
        except Exception:
            event_log.error(
                "bug: a timer of a group failed; report the traceback",
                traceback=True,
                partition=f"{self.topic.name}-{hosted.partition}",
                timer=str(key),
            )

    async def expire(self, now_ms: int) -> None:
        """Deletes offsets and groups that were unused for offsets.retention.minutes."""
        for hosted in self.ready():
            with self._guarded(hosted.partition):
                _groups(hosted).leases.withdraw_all()
                self._carry(hosted, hosted.shard.expire(now_ms))
            await asyncio.sleep(0)


def _answer_commits(commits: list[GatheredCommit], error: Error) -> None:
    """Answers all, also when one cannot be answered."""
    told = append_error_of_group(error)
    for _, answer in commits:
        try:
            answer(told)
        except Exception:
            event_log.error("bug: a commit could not be answered; report the traceback", traceback=True)


def _groups(hosted: HostedShard[GroupShard]) -> HostedGroups:
    return cast(HostedGroups, hosted)
