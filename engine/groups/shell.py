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
from bowstring._native.record.decode import batch_headers, decode_batches
from bowstring._native.record.encode import encode_batch
from bowstring._native.record.types import BatchHeader, CorruptBatch
from bowstring._native.record.types import Record as BatchRecord
from bowstring.engine import event_log
from bowstring.engine.errors import Error, Errors, KafkaError
from bowstring.engine.groups.config import GroupConfig
from bowstring.engine.groups.effects import (
    AppendRecords,
    CancelTimer,
    Effect,
    Note,
    Record,
    Respond,
    SetTimer,
)
from bowstring.engine.groups.partitioning import coordinator_partition
from bowstring.engine.groups.replay import NO_PRODUCER, Replay
from bowstring.engine.groups.shard import GroupShard
from bowstring.engine.groups.timers import TimerQueue

if TYPE_CHECKING:
    from bowstring._native.server.data_plane import DataPlane
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.metadata.image import ImageSource
    from bowstring.engine.metadata.store.commit import ClusterChanges
    from bowstring.engine.storage.log_manager import TopicLogs

TOPIC: Final = "__consumer_offsets"

# Logs with less than this many bytes in total are replayed before the first request, larger ones in the
# background.
REPLAYED_AT_ONCE_BYTES: Final = 1 << 20
READ_BYTES: Final = 1 << 20
# Upper bound of a record's size in a batch beyond its key and value.
_RECORD_OVERHEAD_BYTES: Final = 36

_TRANSACTIONAL_OR_CONTROL: Final = 0x30
# types of control records: the third and fourth byte of their key
_ABORT_MARKER: Final = 0
_COMMIT_MARKER: Final = 1

Event = Callable[[GroupShard, "asyncio.Future[Any]", int], list[Effect]]


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class HostedShard:
    """A shard, its log, and what waits for the log's high watermark, in order of offsets."""

    __slots__ = ("log", "partition", "shard", "waiting")

    def __init__(self, partition: int, shard: GroupShard, log: PartitionLog) -> None:
        self.partition = partition
        self.shard = shard
        self.log = log
        # (offset below the high watermark to wait for, append id or answer)
        self.waiting: deque[tuple[int, int | Respond]] = deque()


class GroupShell:
    """The coordinator of every group of this broker.

    Handlers call `ask` for one group and `shards` for all groups. A request's token is the future that its
    handler awaits.
    """

    def __init__(
        self,
        configs: "BrokerConfigs",
        metadata: "ImageSource",
        logs: "TopicLogs",
        plane: "DataPlane",
        changes: "ClusterChanges",
        *,
        replayed_at_once_bytes: int = REPLAYED_AT_ONCE_BYTES,
        read_bytes: int = READ_BYTES,
    ) -> None:
        self._replayed_at_once_bytes = replayed_at_once_bytes
        self._read_bytes = read_bytes
        self._configs = configs
        self._metadata = metadata
        self._logs = logs
        self._plane = plane
        self._changes = changes
        self._config = GroupConfig.read(configs.value)
        self._hosted: dict[int, HostedShard] = {}
        self._timers = TimerQueue()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._loading: asyncio.Task[None] | None = None
        self._stopping = False
        # number of partitions when the topic was loaded; groups do not move when partitions are added
        self._partitions = 0
        self._creating = asyncio.Lock()

    # ------------------------------------------------------------ life

    def start(self) -> None:
        """Loads the partitions of ``__consumer_offsets`` if the topic exists. Call on the control loop."""
        self._host()
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
        if self._hosted:
            return
        self._refuse_when_stopping()
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
            if not self._hosted:
                self._host()

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
        for hosted in self._hosted.values():
            if not hosted.shard.loading:
                self._carry(hosted, hosted.shard.topic_deleted(topic, topic_id))

    def _host(self) -> None:
        at_once_bytes = self._replayed_at_once_bytes
        later = []
        logs = self._logs.of_topic(TOPIC)
        self._partitions = len(logs)
        for partition, log in enumerate(logs):
            if log is None or log.failed:
                continue
            hosted = HostedShard(partition, GroupShard(self._config, lambda: str(uuid.uuid4())), log)
            self._hosted[partition] = hosted
            if log.log_end_offset > log.log_start_offset:
                at_once_bytes -= log.size_bytes
                if at_once_bytes < 0:
                    later.append(hosted)
                    continue
                if not self._replayed(hosted):
                    del self._hosted[partition]
                    continue
            self._carry(hosted, hosted.shard.loaded(wall_ms()))
        if later:
            self._loading = self._spawn(self._load(later))

    async def _load(self, hosted_shards: list[HostedShard]) -> None:
        """Replays logs on another thread, while the control thread answers other requests."""
        loop = asyncio.get_running_loop()
        started = time.monotonic()
        # A million offsets are a million objects. While they only grow, the garbage collector need not visit
        # them.
        collecting = gc.isenabled()
        gc.disable()
        try:
            for hosted in hosted_shards:
                whole = await loop.run_in_executor(None, self._replayed, hosted)
                if self._hosted.get(hosted.partition) is not hosted:
                    continue
                if whole:
                    self._carry(hosted, hosted.shard.loaded(wall_ms()))
                else:
                    del self._hosted[hosted.partition]
        finally:
            gc.freeze()
            if collecting:
                gc.enable()
        event_log.info(
            "group coordinator loaded its groups",
            partitions=len(hosted_shards),
            groups=sum(len(each.shard.state.groups) for each in self._hosted.values()),
            seconds=round(time.monotonic() - started, 3),
        )

    def _replayed(self, hosted: HostedShard) -> bool:
        """Replays the log of one shard. If that fails, its groups have no coordinator; other shards are not
        affected.
        """
        try:
            replay_log(hosted.log, hosted.shard.replay, lambda: not self._stopping, self._read_bytes)
        except (CorruptBatch, CompressionError, LogError) as error:
            event_log.error(
                "a partition of __consumer_offsets cannot be read, so its groups have no coordinator; "
                "restore its directory from a copy, or delete it to start with empty groups",
                partition=f"{TOPIC}-{hosted.partition}",
                detail=str(error),
            )
            return False
        return True

    def _drop(self) -> None:
        for hosted in self._hosted.values():
            _dismiss(hosted)
        self._hosted.clear()
        self._partitions = 0
        self._timers = TimerQueue()
        self._arm()

    def _unload(self, hosted: HostedShard) -> None:
        """Ends a shard whose partition takes no more records: waiting clients must look for another
        coordinator.
        """
        if self._hosted.get(hosted.partition) is not hosted:
            return
        del self._hosted[hosted.partition]
        event_log.error(
            "a partition of __consumer_offsets accepts no more writes, so its groups have no coordinator; "
            "repair its log directory, then restart the broker",
            partition=f"{TOPIC}-{hosted.partition}",
            groups=len(hosted.shard.state.groups),
        )
        _dismiss(hosted)

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

    # ------------------------------------------------------------ requests

    @property
    def partitions(self) -> int:
        """Number of partitions of ``__consumer_offsets``; while it does not exist, the number that it would
        get.
        """
        return self._partitions or int(self._configs.value("offsets.topic.num.partitions"))

    def partition_of(self, group_id: str) -> int:
        """Returns the partition that coordinates a group."""
        return coordinator_partition(group_id, self.partitions)

    def coordinates(self, group_id: str) -> bool:
        """Whether this broker has the group's partition and can write to it."""
        return self.partition_of(group_id) in self._hosted

    def ask(self, group_id: str, event: Event) -> Awaitable[Any]:
        """Passes `event` to the group's shard and returns its answer.

        Raises:
            KafkaError: NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS while the log is read.
        """
        return self.ask_partition(self.partition_of(group_id), event)

    def ask_partition(self, partition: int, event: Event) -> Awaitable[Any]:
        """Like `ask`, for answers of a shard about several groups."""
        hosted = self._loaded(partition)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._carry(hosted, event(hosted.shard, answer, wall_ms()))
        return answer

    def shard_of(self, group_id: str) -> GroupShard:
        """Returns the group's shard. Read only.

        Raises:
            KafkaError: As for `ask`.
        """
        return self._loaded(self.partition_of(group_id)).shard

    def shards(self) -> Iterator[GroupShard]:
        """Returns every shard. Read only.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS.
        """
        for partition in self._hosted:
            yield self._loaded(partition).shard

    def _loaded(self, partition: int) -> HostedShard:
        hosted = self._hosted.get(partition)
        if hosted is None:
            raise KafkaError(Errors.NOT_COORDINATOR)
        if hosted.shard.loading:
            raise KafkaError(Errors.COORDINATOR_LOAD_IN_PROGRESS)
        return hosted

    # ------------------------------------------------------------ effects

    def _carry(self, hosted: HostedShard, effects: list[Effect]) -> None:
        now_ms = self._steady_ms()
        pending = deque(effects)
        while pending:
            effect = pending.popleft()
            if isinstance(effect, Respond):
                self._respond(hosted, effect)
            elif isinstance(effect, SetTimer):
                self._timers.set(effect.key, now_ms + effect.delay_ms)
            elif isinstance(effect, AppendRecords):
                pending.extend(self._append(hosted, effect))
            elif isinstance(effect, CancelTimer):
                self._timers.cancel(effect.key)
            else:
                assert isinstance(effect, Note), effect
                event_log.info(effect.text)
        self._arm()

    def _respond(self, hosted: HostedShard, effect: Respond) -> None:
        if hosted.waiting:
            hosted.waiting.append((hosted.waiting[-1][0], effect))
        else:
            _answer(effect)

    def _append(self, hosted: HostedShard, effect: AppendRecords) -> list[Effect]:
        base_offset = hosted.log.log_end_offset
        for records in self._batches(effect):
            error = self._write(hosted, records)
            if error:
                effects = hosted.shard.append_finished(effect.append_id, error, wall_ms())
                if hosted.log.failed:
                    asyncio.get_running_loop().call_soon(self._unload, hosted)
                return effects
        hosted.shard.append_written(effect.append_id, base_offset)
        end_offset = hosted.log.log_end_offset
        if hosted.log.high_watermark >= end_offset and not hosted.waiting:
            return hosted.shard.append_finished(effect.append_id, Errors.NONE, wall_ms())
        hosted.waiting.append((end_offset, effect.append_id))
        timeout_ms = self._configs.value("offsets.commit.timeout.ms")
        asyncio.get_running_loop().call_later(timeout_ms / 1000, self._give_up, hosted, effect.append_id)
        if hosted.log.in_commit_mode:
            self._logs.durability.when_durable(
                hosted.log, lambda: self._durable(hosted), lambda: self._unload(hosted)
            )
        return []

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
        return self._topic_value("max.message.bytes")

    def _topic_value(self, name: str) -> int:
        overrides = self._metadata.image.topic_configs(TOPIC)
        return int(self._configs.topic_value(name, overrides))

    def _write(self, hosted: HostedShard, records: list[Record]) -> Error:
        now_ms = wall_ms()
        batch = encode_batch([(key, value, now_ms, ()) for key, value in records])
        if len(batch) > self.max_batch_bytes:
            return Errors.MESSAGE_TOO_LARGE
        partition = self._metadata.image.topics[TOPIC].partitions[hosted.partition]
        if len(partition.in_sync) < partition.min_in_sync(self._topic_value("min.insync.replicas")):
            return Errors.NOT_ENOUGH_REPLICAS  # groups write like producers with acks=all
        try:
            hosted.log.append(batch, partition.leader_epoch, now_ms)
        except LogError as error:
            event_log.error(
                "a write to __consumer_offsets failed; clients get an error and retry. Check the disk",
                partition=f"{TOPIC}-{hosted.partition}",
                detail=str(error),
            )
            return Errors.of(error.code)
        # With one replica the write moves the high watermark. With followers, their fetches do, and call
        # `advanced`.
        hosted.log.advance_high_watermark(hosted.log.log_end_offset)
        self._plane.notify(TOPIC, hosted.partition, len(batch))
        self._logs.control_writes += 1
        return Errors.NONE

    def _durable(self, hosted: HostedShard) -> None:
        if TOPIC in self._metadata.image.topics:
            self._plane.notify(TOPIC, hosted.partition)
        self.advanced(hosted.partition)

    def log_replaced(self, partition: int, log: PartitionLog) -> None:
        """Continues with the same partition in another log directory; all its records are there."""
        hosted = self._hosted.get(partition)
        if hosted is not None:
            hosted.log = log

    def advanced(self, partition: int) -> None:
        """Answers what waited for the partition's high watermark."""
        hosted = self._hosted.get(partition)
        while hosted is not None and hosted.waiting:
            offset, item = hosted.waiting[0]
            if offset > hosted.log.high_watermark:
                return
            hosted.waiting.popleft()
            if isinstance(item, Respond):
                _answer(item)
            else:
                self._carry(hosted, hosted.shard.append_finished(item, Errors.NONE, wall_ms()))

    def _give_up(self, hosted: HostedShard, append_id: int) -> None:
        """Answers with an error because the followers were too slow. The records may still be committed
        later.
        """
        late = [item for item in hosted.waiting if item[1] == append_id]
        for item in late:
            hosted.waiting.remove(item)
            self._carry(hosted, hosted.shard.append_finished(append_id, Errors.REQUEST_TIMED_OUT, wall_ms()))

    # ------------------------------------------------------------ time

    def _steady_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def _arm(self) -> None:
        """Sets one event-loop alarm for all timers: an idle coordinator has none."""
        due_ms = self._timers.next_deadline_ms()
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
        for key in self._timers.pop_due(self._steady_ms()):
            hosted = self._hosted.get(self.partition_of(key[1]))
            if hosted is not None:
                self._carry(hosted, hosted.shard.timer_fired(key, wall_ms()))
        self._arm()

    async def _expire_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._config.offsets_retention_check_interval_ms / 1000)
            await self.expire(wall_ms())

    async def expire(self, now_ms: int) -> None:
        """Deletes offsets and groups that nobody has used for offsets.retention.minutes."""
        for hosted in list(self._hosted.values()):
            if not hosted.shard.loading and self._hosted.get(hosted.partition) is hosted:
                self._carry(hosted, hosted.shard.expire(now_ms))
                await asyncio.sleep(0)


def replay_log(
    log: PartitionLog, replay: Replay, go_on: Callable[[], bool], read_bytes: int = READ_BYTES
) -> None:
    """Passes every record of a log to the shard while `go_on` allows it. Runs on any thread, because the
    shard is loading. Reads `read_bytes` at once.
    """
    offset = log.log_start_offset
    end_offset = log.log_end_offset
    while offset < end_offset and go_on():
        data = log.read(offset, read_bytes, "log_end")
        if not data:
            break  # compaction removed the rest, up to the end
        headers = batch_headers(data)
        records = decode_batches(data)
        if any(header.attributes & _TRANSACTIONAL_OR_CONTROL for header in headers):
            _replay_batch_by_batch(headers, records, replay)
        elif records:
            offsets, _, _, keys, values, _, _ = zip(*records, strict=True)
            replay.add(offsets, keys, values)
        offset = headers[-1].last_offset + 1
    replay.flush()


def _replay_batch_by_batch(headers: list[BatchHeader], records: list[BatchRecord], replay: Replay) -> None:
    first = 0
    for header in headers:
        batch = records[first : first + header.record_count]
        first += header.record_count
        if header.control:
            for record in batch:
                marker = int.from_bytes((record.key or b"")[2:4], "big")
                if marker in (_ABORT_MARKER, _COMMIT_MARKER):
                    replay.end_transaction(header.producer_id, commit=marker == _COMMIT_MARKER)
            continue
        producer_id = header.producer_id if header.transactional else NO_PRODUCER
        replay.add(
            [record.offset for record in batch],
            [record.key for record in batch],
            [record.value for record in batch],
            producer_id,
        )


def _dismiss(hosted: HostedShard) -> None:
    """Answers NOT_COORDINATOR to all waiting requests of the shard, because their results may not be
    durable.
    """
    if hosted.shard.loading:
        return
    effects = hosted.shard.unload(wall_ms())
    waiting = [item for _, item in hosted.waiting if isinstance(item, Respond)]
    hosted.waiting.clear()
    for item in waiting:
        assert isinstance(item.token, asyncio.Future), item.token
        if not item.token.done():
            item.token.set_exception(KafkaError(Errors.NOT_COORDINATOR))
    for effect in effects:
        if isinstance(effect, Respond):
            _answer(effect)


def _answer(effect: Respond) -> None:
    token = effect.token
    assert isinstance(token, asyncio.Future), token
    # a handler whose connection has closed was cancelled and no longer waits
    if not token.done():
        token.set_result(effect.body)
