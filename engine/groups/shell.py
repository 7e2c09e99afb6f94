"""Runs the group coordinator: timers, the ``__consumer_offsets`` log, and futures for parked requests.

engine/groups decides; this module carries out the effects on the control thread.
"""

import asyncio
import gc
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Final

from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring._native.record.compression import CompressionError
from bowstring._native.record.encode import encode_batch
from bowstring._native.record.types import CorruptBatch
from bowstring.engine import event_log
from bowstring.engine.coordinators.partitioning import coordinator_partition
from bowstring.engine.errors import Error, Errors, KafkaError
from bowstring.engine.groups.append_errors import append_error_of_group
from bowstring.engine.groups.config import GroupConfig
from bowstring.engine.groups.consumer.regexes import Search
from bowstring.engine.groups.effects import (
    AppendMarker,
    AppendRecords,
    CancelTimer,
    Effect,
    InitializeShareState,
    Note,
    Record,
    ResolveRegexes,
    Respond,
    SetTimer,
)
from bowstring.engine.groups.hosted import HostedShard, Waiting
from bowstring.engine.groups.log_replay import READ_BYTES, replay_log
from bowstring.engine.groups.modern.cluster import ClusterView
from bowstring.engine.groups.shard import GroupShard
from bowstring.engine.groups.timers import TimerQueue
from bowstring.engine.share.persister.interface import (
    UNINITIALIZED_START_OFFSET,
    Persister,
    SharePartitionKey,
)

if TYPE_CHECKING:
    from bowstring._native.server.data_plane import DataPlane
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.metadata.image import ImageSource
    from bowstring.engine.metadata.store.commit import ClusterChanges
    from bowstring.engine.storage.log_manager import TopicLogs

TOPIC: Final = "__consumer_offsets"

# At start, logs with less than this many bytes in total are replayed before the first request, larger ones
# in the background.
REPLAYED_AT_ONCE_BYTES: Final = 1 << 20
# Offsets and groups of a shard that has moved away that are freed at once.
_FREED_AT_ONCE: Final = 2_000
# Share partitions whose state is created together.
_INITIALIZED_AT_ONCE: Final = 100
# Upper bound of a record's size in a batch beyond its key and value.
_RECORD_OVERHEAD_BYTES: Final = 36

Event = Callable[[GroupShard, "asyncio.Future[Any]", int], list[Effect]]


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class GroupShell:
    """The coordinator of the groups whose partitions of ``__consumer_offsets`` this broker leads.

    Handlers call `ask` for one group and `shards` for all groups. A request's token is the future that its
    handler awaits.

    The data plane says who leads: call `role_changed` after it got a partition's role. A shard answers
    nothing while the data plane has another role than the one in which its log was read.
    """

    def __init__(
        self,
        configs: "BrokerConfigs",
        metadata: "ImageSource",
        logs: "TopicLogs",
        plane: "DataPlane",
        changes: "ClusterChanges",
        *,
        persister: Callable[[], Persister] | None = None,
        replayed_at_once_bytes: int = REPLAYED_AT_ONCE_BYTES,
        read_bytes: int = READ_BYTES,
    ) -> None:
        self._at_once_bytes = replayed_at_once_bytes
        self._read_bytes = read_bytes
        self._persister = persister
        self._configs = configs
        self._metadata = metadata
        self._logs = logs
        self._plane = plane
        self._changes = changes
        self._config = GroupConfig.read(configs.value)
        self._cluster = ClusterView(metadata, configs.value)
        self._hosted: dict[int, HostedShard] = {}
        # logs that could not be read, with the epochs; a newer epoch tries again
        self._unreadable: dict[int, tuple[PartitionLog, int]] = {}
        # by partition, when its shard has something to do
        self._due: TimerQueue[int] = TimerQueue()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._to_load: deque[HostedShard] = deque()
        self._loading: asyncio.Task[None] | None = None
        self._stopping = False
        # id of the topic, and its number of partitions when it was first seen
        self._hashed: tuple[bytes, int] | None = None
        self._creating = asyncio.Lock()

    # ------------------------------------------------------------ life

    def start(self) -> None:
        """Leads the partitions of ``__consumer_offsets`` that the data plane leads. Call on the control
        loop.
        """
        self.roles_changed()
        self._at_once_bytes = 0
        self._spawn(self._expire_for_ever())

    async def stop(self) -> None:
        """Answers parked requests with NOT_COORDINATOR, cancels the timers, and stops reading logs."""
        self._stopping = True
        for task in self._tasks:
            if task is not self._loading:
                task.cancel()
        self._drop()
        if self._loading is not None:
            await asyncio.wait([self._loading])

    async def ensure_topic(self) -> None:
        """Creates ``__consumer_offsets`` on first use.

        Raises:
            KafkaError: The topic could not be created, or the broker is stopping.
        """
        self._refuse_when_stopping()
        if TOPIC in self._metadata.image.topics and not self._creating.locked():
            return
        async with self._creating:
            value = self._configs.value
            await self._changes.create_internal_topic(
                TOPIC,
                value("offsets.topic.num.partitions"),
                value("offsets.topic.replication.factor"),
                {
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(value("offsets.topic.segment.bytes")),
                },
            )
            self._refuse_when_stopping()
            self.roles_changed()

    @property
    def is_loading(self) -> bool:
        """Whether logs are being read on another thread."""
        return self._loading is not None and not self._loading.done()

    @property
    def is_alarm_set(self) -> bool:
        """Whether a timer will wake the control loop."""
        return self._alarm is not None

    def _refuse_when_stopping(self) -> None:
        """Refuses new groups while the broker stops: no more logs are read, so they would lack members and
        offsets.
        """
        if self._stopping:
            raise KafkaError(Errors.COORDINATOR_NOT_AVAILABLE)

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        """Deletes the offsets of a deleted topic."""
        if topic == TOPIC:
            self._drop()
            return
        for hosted in list(self._hosted.values()):
            if hosted.shard.loading:
                hosted.deleted_topics.append((topic, topic_id))
            else:
                self._carry(hosted, hosted.shard.topic_deleted(topic, topic_id))

    def _drop(self) -> None:
        for partition in list(self._hosted):
            self.resign(partition)
        self._unreadable.clear()
        self._hashed = None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            event_log.error(
                "a task of the group coordinator failed; report the traceback as a bug",
                detail=repr(task.exception()),
            )

    # ------------------------------------------------------------ roles

    def roles_changed(self) -> None:
        """Calls `role_changed` for all partitions of ``__consumer_offsets``."""
        for partition in sorted({*range(len(self._logs.of_topic(TOPIC))), *self._hosted}):
            self.role_changed(partition)

    def role_changed(self, partition: int) -> None:
        """Begins or ends to coordinate the groups of a partition, as the data plane now leads it or not.

        Does nothing when nothing has changed. Call it on the control loop, after the data plane has the role.
        """
        logs = self._logs.of_topic(TOPIC)
        log = logs[partition] if partition < len(logs) else None
        leader_epoch = self._plane.led_epoch(TOPIC, partition)
        if log is None or leader_epoch < 0:
            self.resign(partition)
        else:
            self.lead(partition, leader_epoch, log)

    def lead(self, partition: int, leader_epoch: int, log: PartitionLog) -> None:
        """Coordinates the groups of a partition that this broker leads. Reads the log to its end, in the
        background unless it is empty; until then requests get COORDINATOR_LOAD_IN_PROGRESS.

        A shard continues when the same broker leads in the next epoch, as in Kafka. If epochs were left out,
        another broker may have led: the log is read anew.
        """
        hosted = self._hosted.get(partition)
        if hosted is not None and hosted.log is log:
            if leader_epoch <= hosted.leader_epoch:
                return
            if leader_epoch == hosted.leader_epoch + 1:
                hosted.leader_epoch = leader_epoch
                self.advanced(partition)
                return
        self.resign(partition)
        if self._stopping or log.failed or self._unreadable.get(partition) == (log, leader_epoch):
            return
        shard = GroupShard(self._config, lambda: str(uuid.uuid4()), self._cluster)
        hosted = self._hosted[partition] = HostedShard(partition, shard, log, leader_epoch)
        if log.log_end_offset > log.log_start_offset:
            self._at_once_bytes -= log.size_bytes
            if self._at_once_bytes < 0:
                self._load_later(hosted)
                return
            if not self._replayed(hosted):
                self._refuse_unreadable(hosted)
                return
        self._loaded_now(hosted)

    def resign(self, partition: int) -> None:
        """Coordinates the groups of a partition no more: waiting clients get NOT_COORDINATOR."""
        hosted = self._hosted.pop(partition, None)
        if hosted is None:
            return
        hosted.dismissed = True
        self._due.cancel(partition)
        self._arm()
        if not hosted.shard.loading:  # else the thread that loads it uses it
            _dismiss(hosted)
            self._free_later(hosted)

    def _unload(self, hosted: HostedShard) -> None:
        """Ends a shard whose partition takes no more records: waiting clients must look for another
        coordinator.
        """
        if hosted.dismissed:
            return
        event_log.error(
            "a partition of __consumer_offsets accepts no more writes, so its groups have no coordinator; "
            "repair its log directory, then restart the broker",
            partition=f"{TOPIC}-{hosted.partition}",
            groups=len(hosted.shard.state.groups),
        )
        self.resign(hosted.partition)

    def _free_later(self, hosted: HostedShard) -> None:
        if hosted.shard.forget(_FREED_AT_ONCE) and not self._stopping:
            self._spawn(self._free(hosted.shard))

    async def _free(self, shard: GroupShard) -> None:
        while shard.forget(_FREED_AT_ONCE):
            await asyncio.sleep(0)

    # ------------------------------------------------------------ loading

    def _load_later(self, hosted: HostedShard) -> None:
        self._to_load.append(hosted)
        if not self.is_loading:
            self._loading = self._spawn(self._load())

    async def _load(self) -> None:
        """Replays logs on another thread, one after the other, while the control thread answers requests."""
        loop = asyncio.get_running_loop()
        started = time.monotonic()
        partitions = 0
        # A million offsets are a million objects. While they only grow, the garbage collector need not visit
        # them.
        collecting = gc.isenabled()
        gc.disable()
        try:
            while self._to_load:
                # Small ones first: their groups need not wait for a million offsets of others.
                hosted = min(self._to_load, key=lambda each: each.log.size_bytes)
                self._to_load.remove(hosted)
                if hosted.dismissed:
                    continue
                log = hosted.log
                whole = await loop.run_in_executor(None, self._replayed, hosted)
                if hosted.dismissed:
                    self._free_later(hosted)
                elif whole:
                    partitions += 1
                    self._loaded_now(hosted)
                elif hosted.log is not log:  # another directory has it now, and this one was closed
                    self.resign(hosted.partition)
                    self.lead(hosted.partition, hosted.leader_epoch, hosted.log)
                else:
                    self._refuse_unreadable(hosted)
        finally:
            gc.freeze()
            if collecting:
                gc.enable()
        event_log.info(
            "group coordinator loaded its groups",
            partitions=partitions,
            groups=sum(len(each.shard.state.groups) for each in self._hosted.values()),
            seconds=round(time.monotonic() - started, 3),
        )

    def _loaded_now(self, hosted: HostedShard) -> None:
        self._carry(hosted, hosted.shard.loaded(wall_ms()))
        for topic, topic_id in hosted.deleted_topics:
            self._carry(hosted, hosted.shard.topic_deleted(topic, topic_id))
        hosted.deleted_topics.clear()

    def _replayed(self, hosted: HostedShard) -> bool:
        """Replays the log of one shard. If that fails, its groups have no coordinator; other shards are not
        affected.
        """
        log = hosted.log
        try:
            replay_log(log, hosted.shard.replay, lambda: not hosted.dismissed, self._read_bytes)
        except (CorruptBatch, CompressionError, LogError) as error:
            if not hosted.dismissed and hosted.log is log:  # else the log may be closed
                event_log.error(
                    "a partition of __consumer_offsets cannot be read, so its groups have no coordinator; "
                    "restore its directory from a copy, or delete it to start with empty groups",
                    partition=f"{TOPIC}-{hosted.partition}",
                    detail=str(error),
                )
            return False
        return True

    def _refuse_unreadable(self, hosted: HostedShard) -> None:
        self._unreadable[hosted.partition] = (hosted.log, hosted.leader_epoch)
        del self._hosted[hosted.partition]
        hosted.dismissed = True

    # ------------------------------------------------------------ requests

    @property
    def partitions(self) -> int:
        """Number of partitions of ``__consumer_offsets`` when this broker first saw the topic: as in Kafka,
        groups do not move when partitions are added. While it does not exist, the number that it would get.
        """
        topic = self._metadata.image.topics.get(TOPIC)
        if topic is None or not topic.partitions:
            return int(self._configs.value("offsets.topic.num.partitions"))
        if self._hashed is None or self._hashed[0] != topic.id:
            self._hashed = (topic.id, len(topic.partitions))
        return self._hashed[1]

    def partition_of(self, group_id: str) -> int:
        """Returns the partition that coordinates a group."""
        return coordinator_partition(group_id, self.partitions)

    def coordinates(self, group_id: str) -> bool:
        """Whether this broker has the group's partition and can write to it."""
        return self.partition_of(group_id) in self._hosted

    def ask(self, group_id: str, event: Event) -> Awaitable[Any]:
        """Passes `event` to the group's shard and returns its answer.

        Raises:
            KafkaError: NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS while the log is read. The answer
                itself may raise COORDINATOR_NOT_AVAILABLE when what it tells is not committed in time.
        """
        return self.ask_partition(self.partition_of(group_id), event)

    def ask_partition(self, partition: int, event: Event) -> Awaitable[Any]:
        """Like `ask`, for answers of a shard about several groups."""
        hosted = self._loaded(partition)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._carry(hosted, event(hosted.shard, answer, wall_ms()))
        return answer

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
        )
        return answer

    async def committed(self, partition: int) -> None:
        """Waits until all that the shard of a partition holds now is committed.

        Raises:
            KafkaError: As for `ask`.
        """
        await self.ask_partition(partition, lambda shard, token, now_ms: [Respond(token, None)])

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

    def _loaded(self, partition: int) -> HostedShard:
        hosted = self._hosted.get(partition)
        if hosted is None or not self._leads(hosted):
            raise KafkaError(Errors.NOT_COORDINATOR)
        if hosted.shard.loading:
            raise KafkaError(Errors.COORDINATOR_LOAD_IN_PROGRESS)
        return hosted

    def _leads(self, hosted: HostedShard) -> bool:
        """Whether the data plane still has the role in which the log was read. Otherwise its high watermark
        may be above other records than those that the shard has written.
        """
        return self._plane.led_epoch(TOPIC, hosted.partition) == hosted.leader_epoch

    # ------------------------------------------------------------ effects

    def _carry(self, hosted: HostedShard, effects: list[Effect]) -> None:
        hosted.effects.extend(effects)
        if hosted.is_carrying:
            return  # a finished append: its effects follow the others
        hosted.is_carrying = True
        try:
            self._carry_all(hosted)
        finally:
            hosted.is_carrying = False
        self._schedule(hosted)

    def _carry_all(self, hosted: HostedShard) -> None:
        now_ms = self._steady_ms()
        while hosted.effects:
            effect = hosted.effects.popleft()
            if isinstance(effect, Respond):
                self._respond(hosted, effect)
            elif isinstance(effect, SetTimer):
                hosted.timers.set(effect.key, now_ms + effect.delay_ms)
            elif isinstance(effect, (AppendRecords, AppendMarker)):
                hosted.effects.extend(self._append(hosted, effect))
            elif isinstance(effect, CancelTimer):
                hosted.timers.cancel(effect.key)
            elif isinstance(effect, ResolveRegexes):
                self._spawn(self._resolve(hosted, effect))
            elif isinstance(effect, InitializeShareState):
                self._spawn(self._initialize(hosted, effect))
            else:
                assert isinstance(effect, Note), effect
                event_log.info(effect.text)

    def _respond(self, hosted: HostedShard, effect: Respond) -> None:
        if hosted.waiting or hosted.end_offset > hosted.log.high_watermark:
            self._wait(hosted, effect)
        else:
            _answer(effect)

    def _append(self, hosted: HostedShard, effect: AppendRecords | AppendMarker) -> list[Effect]:
        base_offset = hosted.log.log_end_offset
        for batch in self._encoded(effect):
            error = self._write(hosted, batch, effect)
            hosted.end_offset = hosted.log.log_end_offset
            if error:
                if hosted.log.failed:
                    asyncio.get_running_loop().call_soon(self._unload, hosted)
                return _failed(hosted, effect.append_id, error)
        hosted.shard.append_written(effect.append_id, base_offset)
        if hosted.log.high_watermark >= hosted.end_offset and not hosted.waiting:
            return hosted.shard.append_finished(effect.append_id, Errors.NONE, wall_ms())
        self._wait(hosted, effect.append_id)
        if hosted.log.in_commit_mode:
            self._logs.durability.when_durable(
                hosted.log, lambda: self._durable(hosted), lambda: self._unload(hosted)
            )
        return []

    def _encoded(self, effect: AppendRecords | AppendMarker) -> Iterator[bytes]:
        if isinstance(effect, AppendMarker):
            yield effect.batch
            return
        now_ms = wall_ms()
        producer = effect.producer
        for records in self._batches(effect):
            rows = [(key, value, now_ms, ()) for key, value in records]
            if producer is None:
                yield encode_batch(rows)
            else:
                yield encode_batch(
                    rows,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    transactional=True,
                )

    def _batches(self, effect: AppendRecords) -> Iterator[list[Record]]:
        """Returns the records as one batch, or as several if the effect allows it and one would be too
        large.
        """
        most_bytes = self.max_batch_bytes
        batch: list[Record] = []
        size_bytes = 0
        for record in effect.records:
            record_bytes = len(record[0]) + len(record[1] or b"") + _RECORD_OVERHEAD_BYTES
            if not effect.atomic and batch and size_bytes + record_bytes > most_bytes // 2:
                yield batch
                batch, size_bytes = [], 0
            batch.append(record)
            size_bytes += record_bytes
        yield batch

    @property
    def max_batch_bytes(self) -> int:
        """Size limit of a batch in ``__consumer_offsets``."""
        overrides = self._metadata.image.topic_configs(TOPIC)
        return int(self._configs.topic_value("max.message.bytes", overrides))

    def _write(self, hosted: HostedShard, batch: bytes, effect: AppendRecords | AppendMarker) -> Error:
        """Writes like a producer with acks=all."""
        options: dict[str, int] = {}
        if isinstance(effect, AppendMarker):
            options["transaction_version"] = effect.version
        elif effect.producer is not None:
            options["verification"] = effect.producer.verification
        if len(batch) > self.max_batch_bytes:
            return Errors.MESSAGE_TOO_LARGE
        try:
            self._plane.append(
                TOPIC,
                hosted.partition,
                batch,
                leader_epoch=hosted.leader_epoch,
                now_ms=wall_ms(),
                **options,
            )
        except LogError as error:
            if error.code not in _REFUSED:
                event_log.error(
                    "a write to __consumer_offsets failed; clients get an error and retry. Check the disk",
                    partition=f"{TOPIC}-{hosted.partition}",
                    detail=str(error),
                )
            return Errors.of(error.code)
        self._logs.control_writes += 1
        return Errors.NONE

    def log_replaced(self, partition: int, log: PartitionLog) -> None:
        """Continues with the same partition in another log directory; all its records are there."""
        hosted = self._hosted.get(partition)
        if hosted is not None:
            hosted.log = log

    async def _resolve(self, hosted: HostedShard, effect: ResolveRegexes) -> None:
        """Looks up topics in steps, between other work."""
        search = Search(self._cluster, effect.regexes, wall_ms())
        while not search.step():
            await asyncio.sleep(0)
        if not hosted.dismissed:
            self._carry(hosted, hosted.shard.regexes_resolved(effect.group_id, search.found))

    async def _initialize(self, hosted: HostedShard, effect: InitializeShareState) -> None:
        """Lets share coordinators create the state of share partitions, some at a time."""
        assert self._persister is not None, "share groups need a persister"
        persister = self._persister()
        error = Errors.NONE
        for first in range(0, len(effect.partitions), _INITIALIZED_AT_ONCE):
            some = effect.partitions[first : first + _INITIALIZED_AT_ONCE]
            keys = [SharePartitionKey(effect.group_id, *partition) for partition in some]
            errors = await asyncio.gather(
                *(persister.initialize(key, effect.state_epoch, UNINITIALIZED_START_OFFSET) for key in keys)
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

    def _wait(self, hosted: HostedShard, item: int | Respond) -> None:
        timeout_ms = self._configs.value("offsets.commit.timeout.ms")
        hosted.waiting.append(Waiting(hosted.end_offset, self._steady_ms() + timeout_ms, item))
        if len(hosted.waiting) == 1 and not self._plane.watch(TOPIC, hosted.partition, hosted.end_offset):
            asyncio.get_running_loop().call_soon(self.advanced, hosted.partition)

    def _durable(self, hosted: HostedShard) -> None:
        if not hosted.dismissed:
            self._plane.durable(TOPIC, hosted.partition)
            self.advanced(hosted.partition)

    def advanced(self, partition: int) -> None:
        """Answers what waited for the partition's high watermark. Call it when `DataPlane.take_advanced`
        names the partition.
        """
        hosted = self._hosted.get(partition)
        if hosted is None:
            return
        while hosted.waiting and not hosted.dismissed and self._leads(hosted):
            offset = hosted.waiting[0].offset
            if offset > hosted.log.high_watermark and (
                self._plane.watch(TOPIC, partition, offset) or offset > hosted.log.high_watermark
            ):
                break
            item = hosted.waiting.popleft().item
            if isinstance(item, Respond):
                _answer(item)
            else:
                self._carry(hosted, hosted.shard.append_finished(item, Errors.NONE, wall_ms()))
        self._schedule(hosted)

    def _give_up(self, hosted: HostedShard) -> None:
        """Answers what has waited too long for followers. The records may still be committed later."""
        now_ms = self._steady_ms()
        while hosted.waiting and hosted.waiting[0].deadline_ms <= now_ms:
            item = hosted.waiting.popleft().item
            if isinstance(item, Respond):
                _refuse(item, append_error_of_group(Errors.REQUEST_TIMED_OUT))
                continue
            self._carry(hosted, _failed(hosted, item, Errors.REQUEST_TIMED_OUT))

    # ------------------------------------------------------------ time

    def _steady_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def _schedule(self, hosted: HostedShard) -> None:
        """Notes when the shard has something to do."""
        if hosted.dismissed:
            return
        due_ms = hosted.due_ms()
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
        now_ms = self._steady_ms()
        for partition in self._due.pop_due(now_ms):
            hosted = self._hosted.get(partition)
            if hosted is None:
                continue
            self._give_up(hosted)
            for key in hosted.timers.pop_due(now_ms):
                if hosted.dismissed:
                    break
                self._carry(hosted, hosted.shard.timer_fired(key, wall_ms()))
            self._schedule(hosted)
        self._arm()

    async def _expire_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._config.offsets_retention_check_interval_ms / 1000)
            await self.expire(wall_ms())

    async def expire(self, now_ms: int) -> None:
        """Deletes offsets and groups that nobody has used for offsets.retention.minutes."""
        for hosted in list(self._hosted.values()):
            if not hosted.shard.loading and not hosted.dismissed and self._leads(hosted):
                self._carry(hosted, hosted.shard.expire(now_ms))
                await asyncio.sleep(0)


_REFUSED: Final = frozenset(
    {
        Errors.NOT_ENOUGH_REPLICAS.code,
        Errors.NOT_LEADER_OR_FOLLOWER.code,
        Errors.INVALID_PRODUCER_EPOCH.code,
        Errors.INVALID_TXN_STATE.code,
        Errors.TRANSACTION_COORDINATOR_FENCED.code,
    }
)
"""Errors of writes in which nothing has failed."""


def _dismiss(hosted: HostedShard) -> None:
    """Answers NOT_COORDINATOR to all waiting requests of the shard, because their results may not be
    durable.
    """
    waiting = [*(each.item for each in hosted.waiting), *hosted.effects]
    hosted.waiting.clear()
    hosted.effects.clear()
    for item in waiting:
        if isinstance(item, Respond):
            _refuse(item, Errors.NOT_COORDINATOR)
    for effect in hosted.shard.unload(wall_ms()):
        if isinstance(effect, Respond):
            _answer(effect)


def _failed(hosted: HostedShard, append_id: int, error: Error) -> list[Effect]:
    """Answers who waited for a failed append, whatever else waits. Returns the other effects."""
    others: list[Effect] = []
    for effect in hosted.shard.append_finished(append_id, error, wall_ms()):
        if isinstance(effect, Respond):
            _answer(effect)
        else:
            others.append(effect)
    return others


def _refuse(effect: Respond, error: Error) -> None:
    token = effect.token
    assert isinstance(token, asyncio.Future), token
    if not token.done():
        token.set_exception(KafkaError(error))


def _answer(effect: Respond) -> None:
    token = effect.token
    assert isinstance(token, asyncio.Future), token
    # a handler whose connection has closed was cancelled and no longer waits
    if not token.done():
        token.set_result(effect.body)
