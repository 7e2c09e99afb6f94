"""The group coordinator's shell: timers, the ``__consumer_offsets`` log, and futures for parked requests.

What groups do is decided in engine/groups; here its effects are carried out, on the control thread.
"""

import asyncio
import gc
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Final

from bowstring._native.compression import CompressionError
from bowstring._native.decode import batch_headers, decode_batches
from bowstring._native.encode import encode_batch
from bowstring._native.log import LogError, PartitionLog
from bowstring._native.record_types import BatchHeader, CorruptBatch
from bowstring._native.record_types import Record as BatchRecord
from bowstring.engine.broker import log_lines
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
    from bowstring.engine.broker.broker import Broker

TOPIC: Final = "__consumer_offsets"

# Logs this small in sum are replayed before the first request, larger ones beside it
_REPLAYED_AT_ONCE_BYTES: Final = 1 << 20
_READ_BYTES: Final = 1 << 20
# What a record costs in a batch beside key and value, at most
_RECORD_OVERHEAD_BYTES: Final = 36

_TRANSACTIONAL_OR_CONTROL: Final = 0x30
# Types of control records: the third and fourth byte of their key
_ABORT_MARKER: Final = 0
_COMMIT_MARKER: Final = 1

Event = Callable[[GroupShard, "asyncio.Future[Any]", int], list[Effect]]


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class HostedShard:
    """A shard, its log, and what waits for the log's high watermark, in order of its offsets."""

    __slots__ = ("log", "partition", "shard", "waiting")

    def __init__(self, partition: int, shard: GroupShard, log: PartitionLog) -> None:
        self.partition = partition
        self.shard = shard
        self.log = log
        # (offset that must be passed, append id or answer)
        self.waiting: deque[tuple[int, int | Respond]] = deque()


class GroupShell:
    """The coordinator of every group of this broker.

    Handlers call `ask` for what concerns one group, `shards` for what concerns all. A request's token is
    the future that its handler awaits.
    """

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._config = GroupConfig.read(broker.configs.value)
        self._hosted: dict[int, HostedShard] = {}
        self._timers = TimerQueue()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._loading: asyncio.Task[None] | None = None
        self._stopping = False
        # partitions of the topic since it was taken up; groups do not move when it is given more
        self._partitions = 0
        self._creating = asyncio.Lock()

    # ------------------------------------------------------------ life

    def start(self) -> None:
        """Takes up the partitions of ``__consumer_offsets`` if there is one. On the control loop."""
        self._host()
        self._spawn(self._expire_for_ever())

    async def stop(self) -> None:
        """Tells everyone who waits to look elsewhere, ends the timers, and reads no log any more."""
        self._stopping = True
        for task in self._tasks:
            if task is not self._loading:
                task.cancel()
        self._drop()
        if self._loading is not None:
            await asyncio.wait([self._loading])

    async def ensure_topic(self) -> None:
        """Makes ``__consumer_offsets`` when a group is first asked for.

        Raises:
            KafkaError: The topic could not be made, or the broker stops.
        """
        if self._hosted:
            return
        self._refuse_when_stopping()
        async with self._creating:
            value = self._broker.configs.value
            await self._broker.changes.create_internal_topic(
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

    def _refuse_when_stopping(self) -> None:
        """Logs are read no more: groups taken up now would be without their members and offsets."""
        if self._stopping:
            raise KafkaError(Errors.COORDINATOR_NOT_AVAILABLE)

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        """Offsets of a deleted topic go with it."""
        if topic == TOPIC:
            self._drop()
            return
        for hosted in self._hosted.values():
            if not hosted.shard.loading:
                self._carry(hosted, hosted.shard.topic_deleted(topic, topic_id))

    def _host(self) -> None:
        at_once_bytes = _REPLAYED_AT_ONCE_BYTES
        later = []
        logs = self._broker.logs.of_topic(TOPIC)
        self._partitions = len(logs)
        for partition, log in enumerate(logs):
            if log is None:
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
        """Replays on another thread: the control thread answers in between."""
        loop = asyncio.get_running_loop()
        started = time.monotonic()
        # a million offsets are a million objects, which the collector need not walk while they only grow
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
        log_lines.info(
            "groups loaded",
            partitions=len(hosted_shards),
            groups=sum(len(each.shard.state.groups) for each in self._hosted.values()),
            seconds=round(time.monotonic() - started, 3),
        )

    def _replayed(self, hosted: HostedShard) -> bool:
        """Reads the log; without it the shard's groups have no coordinator, but the others do."""
        try:
            replay_log(hosted.log, hosted.shard.replay, lambda: not self._stopping)
        except (CorruptBatch, CompressionError, LogError) as error:
            log_lines.error(
                "groups cannot be read; restore the partition's directory, or delete it to begin anew",
                partition=f"{TOPIC}-{hosted.partition}",
                detail=str(error),
            )
            return False
        return True

    def _drop(self) -> None:
        for hosted in self._hosted.values():
            if hosted.shard.loading:
                continue
            effects = hosted.shard.unload(wall_ms())
            waiting = [item for _, item in hosted.waiting if isinstance(item, Respond)]
            hosted.waiting.clear()
            for effect in (*waiting, *effects):
                if isinstance(effect, Respond):
                    _answer(effect)
        self._hosted.clear()
        self._partitions = 0
        self._timers = TimerQueue()
        self._arm()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log_lines.error("a task of the group coordinator failed", detail=repr(task.exception()))

    # ------------------------------------------------------------ requests

    @property
    def partitions(self) -> int:
        """Partitions of ``__consumer_offsets``, those it would have while it is not there."""
        return self._partitions or int(self._broker.configs.value("offsets.topic.num.partitions"))

    def partition_of(self, group_id: str) -> int:
        """The partition that coordinates a group."""
        return coordinator_partition(group_id, self.partitions)

    def ask(self, group_id: str, event: Event) -> Awaitable[Any]:
        """Has the group's shard handle `event`; awaits its answer.

        Raises:
            KafkaError: NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS while the log is read.
        """
        return self.ask_partition(self.partition_of(group_id), event)

    def ask_partition(self, partition: int, event: Event) -> Awaitable[Any]:
        """As `ask`, for what a shard answers for several groups."""
        hosted = self._loaded(partition)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._carry(hosted, event(hosted.shard, answer, wall_ms()))
        return answer

    def shard_of(self, group_id: str) -> GroupShard:
        """The group's shard, to be read only.

        Raises:
            KafkaError: As `ask`.
        """
        return self._loaded(self.partition_of(group_id)).shard

    def shards(self) -> Iterator[GroupShard]:
        """Every shard, to be read only.

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
                log_lines.info(effect.text)
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
                return hosted.shard.append_finished(effect.append_id, error, wall_ms())
        hosted.shard.append_written(effect.append_id, base_offset)
        end_offset = hosted.log.log_end_offset
        if hosted.log.high_watermark >= end_offset and not hosted.waiting:
            return hosted.shard.append_finished(effect.append_id, Errors.NONE, wall_ms())
        hosted.waiting.append((end_offset, effect.append_id))
        timeout_ms = self._broker.configs.value("offsets.commit.timeout.ms")
        asyncio.get_running_loop().call_later(timeout_ms / 1000, self._give_up, hosted, effect.append_id)
        if hosted.log.in_commit_mode:
            self._broker.logs.durability.when_durable(hosted.log, lambda: self._durable(hosted))
        return []

    def _batches(self, effect: AppendRecords) -> Iterator[list[Record]]:
        """The records as one batch, or as several where the effect allows it and one would be too large."""
        most_bytes = self._max_batch_bytes()
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

    def _max_batch_bytes(self) -> int:
        overrides = self._broker.metadata.image.topic_configs(TOPIC)
        return int(self._broker.configs.topic_value("max.message.bytes", overrides))

    def _write(self, hosted: HostedShard, records: list[Record]) -> Error:
        now_ms = wall_ms()
        batch = encode_batch([(key, value, now_ms, ()) for key, value in records])
        if len(batch) > self._max_batch_bytes():
            return Errors.MESSAGE_TOO_LARGE
        topic = self._broker.metadata.image.topics[TOPIC]
        try:
            hosted.log.append(batch, topic.partitions[hosted.partition].leader_epoch, now_ms)
        except LogError as error:
            log_lines.error(
                "groups cannot be written", partition=f"{TOPIC}-{hosted.partition}", detail=str(error)
            )
            return Errors.of(error.code)
        # the one replica has it: with followers, their fetches move the high watermark and call `advanced`
        hosted.log.advance_high_watermark(hosted.log.log_end_offset)
        self._broker.plane.notify(TOPIC, hosted.partition, len(batch))
        self._broker.control_writes += 1
        return Errors.NONE

    def _durable(self, hosted: HostedShard) -> None:
        if TOPIC in self._broker.metadata.image.topics:
            self._broker.plane.notify(TOPIC, hosted.partition)
        self.advanced(hosted.partition)

    def log_replaced(self, partition: int, log: PartitionLog) -> None:
        """The partition is in another log directory now, with every record that it had."""
        hosted = self._hosted.get(partition)
        if hosted is not None:
            hosted.log = log

    def advanced(self, partition: int) -> None:
        """The partition's high watermark has moved: answers what waited for it."""
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
        """The followers were too slow: the client is told to ask again, whatever becomes of the records."""
        late = [item for item in hosted.waiting if item[1] == append_id]
        for item in late:
            hosted.waiting.remove(item)
            self._carry(hosted, hosted.shard.append_finished(append_id, Errors.REQUEST_TIMED_OUT, wall_ms()))

    # ------------------------------------------------------------ time

    def _steady_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def _arm(self) -> None:
        """One alarm of the event loop stands for all timers: an idle coordinator has none."""
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
            for hosted in list(self._hosted.values()):
                if not hosted.shard.loading and self._hosted.get(hosted.partition) is hosted:
                    self._carry(hosted, hosted.shard.expire(wall_ms()))
                    await asyncio.sleep(0)


def replay_log(log: PartitionLog, replay: Replay, go_on: Callable[[], bool]) -> None:
    """Gives the shard every record of its log, while it may `go_on`. On any thread: the shard is loading."""
    offset = log.log_start_offset
    end_offset = log.log_end_offset
    while offset < end_offset and go_on():
        data = log.read(offset, _READ_BYTES, "log_end")
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


def _answer(effect: Respond) -> None:
    token = effect.token
    assert isinstance(token, asyncio.Future), token
    # a handler whose connection is gone was cancelled and waits no more
    if not token.done():
        token.set_result(effect.body)
