"""Hosts the shards of the partitions of an internal topic that this broker leads.

The shards decide; this module carries out their effects on the control thread.
"""

import asyncio
import gc
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, cast

from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring._native.record.compression import CompressionError
from bowstring._native.record.encode import encode_batch
from bowstring._native.record.types import CorruptBatch
from bowstring.engine import background, event_log
from bowstring.engine.coordinators.effects import AppendMarker, AppendRecords, Note, Record, Respond, Token
from bowstring.engine.coordinators.hosted import HostedShard, S, Waiting, WrittenTogether
from bowstring.engine.coordinators.internal_topic import InternalTopic
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.partitioning import coordinator_partition

if TYPE_CHECKING:
    from bowstring._native.server.data_plane import DataPlane
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.coordinators.cluster_changes import ClusterChanges
    from bowstring.engine.metadata.image import ImageSource
    from bowstring.engine.storage.log_manager import LogManager

# At start, logs with less than this many bytes in total are replayed before the first request, larger ones
# in the background.
REPLAYED_AT_ONCE_BYTES: Final = 1 << 20
# Upper bound of a record's size in a batch beyond its key and value.
_RECORD_OVERHEAD_BYTES: Final = 36
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
_TOO_FEW: Final = "too few replicas have the record"
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0


class _FailedLoad(NamedTuple):
    """A log that could not be loaded in an epoch. `timer`: until it is tried again; None while it is."""

    log: PartitionLog
    leader_epoch: int
    pause_s: float
    timer: asyncio.TimerHandle | None


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class CoordinatorRuntime(Generic[S]):
    """The coordinator of the keys whose partitions of an internal topic this broker leads.

    The data plane determines the leader: call `role_changed` after it got a partition's role. A shard answers
    nothing while the data plane has another role than the one in which its log was read.

    Attributes:
        topic: The internal topic.
        answers_wait: Whether an answer waits until all that was written before it is committed. Otherwise the
            shard itself waits for its appends before it answers.
        changes: Goes up when it begins or ends to coordinate a partition.
    """

    topic: ClassVar[InternalTopic]
    answers_wait: ClassVar[bool]

    def __init__(
        self,
        configs: "BrokerConfigs",
        metadata: "ImageSource",
        logs: "LogManager",
        plane: "DataPlane",
        changes: "ClusterChanges",
    ) -> None:
        self._configs = configs
        self._metadata = metadata
        self._logs = logs
        self._plane = plane
        self._changes = changes
        self.changes = 1
        self._hosted: dict[int, HostedShard[S]] = {}
        # by partition, until a load succeeds or this broker leads no more
        self._failed_loads: dict[int, _FailedLoad] = {}
        self._at_once_bytes = REPLAYED_AT_ONCE_BYTES
        self._to_load: deque[HostedShard[S]] = deque()
        self._loading: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._creating = asyncio.Lock()
        # when they are late, on the loop's clock, all after the same time; those in front wait
        self._in_time_until: deque[tuple[float, Token]] = deque()
        self._late_timer: asyncio.TimerHandle | None = None
        # id of the topic, and its number of partitions when it was first seen
        self._hashed: tuple[bytes, int] | None = None

    # ------------------------------------------------------------ what a coordinator adds

    @abstractmethod
    def _new_shard(self) -> S:
        """Returns an empty shard that is loading."""

    @abstractmethod
    def _replay(self, log: PartitionLog, shard: S, go_on: Callable[[], bool]) -> None:
        """Passes the records of a log to a shard while `go_on` allows it. Runs on any thread.

        Raises:
            CorruptBatch, CompressionError, LogError, OSError, MemoryError: The log cannot be read.
        """

    def _carry_other(self, hosted: HostedShard[S], effect: object) -> None:
        """Carries out an effect that only shards of this coordinator request."""
        raise AssertionError(effect)

    def _host(self, partition: int, log: PartitionLog, leader_epoch: int) -> HostedShard[S]:
        """Returns an empty shard for a partition."""
        return HostedShard(partition, self._new_shard(), log, leader_epoch)

    def _shard_ended(self, hosted: HostedShard[S]) -> None:
        """Called once for each shard that ends, when no other thread uses it."""

    def _all_loaded(self, partitions: int, seconds: float) -> None:
        """Called when no more logs will be read on another thread."""

    def _deadline_ms(self) -> int | None:
        """Returns the deadline of answers that start waiting for the high watermark now."""
        return None

    # ------------------------------------------------------------ life

    def start(self) -> None:
        """Leads the partitions that the data plane leads. Call on the control loop."""
        self.roles_changed()
        self._at_once_bytes = 0

    async def stop(self) -> None:
        """Answers waiting requests with NOT_COORDINATOR, ends the tasks, and stops reading logs."""
        self._stopping = True
        for partition in list(self._hosted):
            self._resign(partition)
        for partition in list(self._failed_loads):
            self._forget_failure(partition)
        if self._late_timer is not None:
            self._late_timer.cancel()
        for task in list(self._tasks):
            if task is not self._loading:
                task.cancel()
        if self._loading is not None:
            await asyncio.wait([self._loading])

    async def ensure_topic(self) -> None:
        """Creates the internal topic on first use.

        Raises:
            KafkaError: The topic could not be created, or the broker is stopping.
        """
        self._refuse_when_stopping()
        topic = self.topic
        if topic.name in self._metadata.image.topics and not self._creating.locked():
            return
        async with self._creating:
            value = self._configs.value
            await self._changes.create_internal_topic(
                topic.name,
                value(topic.partitions_config),
                value(topic.replication_config),
                topic.configs(value),
            )
            self._refuse_when_stopping()
            self.roles_changed()

    def _refuse_when_stopping(self) -> None:
        if self._stopping:
            raise KafkaError(Errors.COORDINATOR_NOT_AVAILABLE)

    @property
    def is_loading(self) -> bool:
        """Whether logs are being read on another thread."""
        return self._loading is not None and not self._loading.done()

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        """Deletes the state of a deleted topic; ends all shards if it is the internal one."""
        if topic == self.topic.name:
            self._internal_topic_deleted()
        else:
            self._other_topic_deleted(topic, topic_id)

    def _other_topic_deleted(self, topic: str, topic_id: bytes) -> None:
        """What a coordinator does when a topic of clients, or of another coordinator, is deleted."""

    def _internal_topic_deleted(self) -> None:
        for partition in list(self._hosted):
            self._resign(partition)
        for partition in list(self._failed_loads):
            self._forget_failure(partition)
        self._hashed = None

    def log_replaced(self, partition: int, log: PartitionLog) -> None:
        """Continues with the same partition in another log directory; all its records are there."""
        hosted = self._hosted.get(partition)
        if hosted is not None:
            hosted.log = log

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        return background.spawn(work, f"coordinator of {self.topic.name}", among=self._tasks)

    async def _repeat(self, pause_ms: int, work: Callable[[], Awaitable[None] | None]) -> None:
        """Works again and again. A failure does not end that."""
        while True:
            await asyncio.sleep(pause_ms / 1000)
            try:
                if (waits := work()) is not None:
                    await waits
            except Exception:
                self._tell_bug()

    @contextmanager
    def _guarded(self, partition: int) -> Iterator[None]:
        """Logs the failure of one shard, so that the others continue."""
        try:
            yield
        except Exception:
            self._tell_bug(partition=f"{self.topic.name}-{partition}")

    def _tell_bug(self, **facts: object) -> None:
        event_log.error(
            "bug: a coordinator failed in one step and goes on; report the traceback",
            traceback=True,
            topic=self.topic.name,
            **facts,
        )

    # ------------------------------------------------------------ roles

    def roles_changed(self) -> None:
        """Calls `role_changed` for all partitions of the internal topic."""
        for partition in sorted({*range(len(self._logs.of_topic(self.topic.name))), *self._hosted}):
            self.role_changed(partition)

    def role_changed(self, partition: int) -> None:
        """Begins or ends to coordinate a partition, as the data plane now leads it or not. Does nothing when
        nothing has changed.
        """
        logs = self._logs.of_topic(self.topic.name)
        log = logs[partition] if partition < len(logs) else None
        leader_epoch = self._plane.led_epoch(self.topic.name, partition)
        with self._guarded(partition):
            if log is None or leader_epoch < 0:
                self._forget_failure(partition)
                self._resign(partition)
            else:
                self._lead(partition, leader_epoch, log)

    def _lead(self, partition: int, leader_epoch: int, log: PartitionLog) -> None:
        """Coordinates a partition. A shard continues when the same broker leads in the next epoch; if epochs
        were left out, another broker may have led, and the log is read anew.
        """
        hosted = self._hosted.get(partition)
        if hosted is not None and hosted.log is log:
            if leader_epoch <= hosted.leader_epoch:
                return
            if leader_epoch == hosted.leader_epoch + 1:
                hosted.leader_epoch = leader_epoch
                self.advanced(partition)
                return
        self._resign(partition)
        failed = self._failed_loads.get(partition)
        if failed is not None and (failed.log is not log or failed.leader_epoch != leader_epoch):
            self._forget_failure(partition)
            failed = None
        if self._stopping or log.failed or (failed is not None and failed.timer is not None):
            return
        self.changes += 1
        hosted = self._hosted[partition] = self._host(partition, log, leader_epoch)
        if log.log_end_offset > log.log_start_offset:
            self._at_once_bytes -= log.size_bytes
            if self._at_once_bytes < 0:
                self._load_later(hosted)
                return
            if not self._replayed(hosted):
                self._load_failed(hosted)
                return
        self._begin(hosted)

    def _resign(self, partition: int) -> None:
        hosted = self._hosted.pop(partition, None)
        if hosted is None:
            return
        self.changes += 1
        hosted.dismissed = True
        items = [*(each.item for each in hosted.waiting), *hosted.effects]
        hosted.waiting.clear()
        hosted.effects.clear()
        for item in items:
            if isinstance(item, WrittenTogether):
                with self._guarded(partition):
                    item.end(Errors.NOT_COORDINATOR)
            elif isinstance(item, Respond):
                if self.answers_wait:  # its result may not be durable
                    refuse_request(item, Errors.NOT_COORDINATOR)
                else:
                    answer_request(item)
        with self._guarded(partition):
            if not hosted.shard.loading:
                for effect in hosted.shard.unload(wall_ms()):
                    if isinstance(effect, Respond):
                        answer_request(effect)
            elif not hosted.is_read:
                return  # the thread that loads it uses it
            self._shard_ended(hosted)

    def _unload(self, hosted: HostedShard[S], log: PartitionLog) -> None:
        if not hosted.dismissed and hosted.log is log:
            event_log.error(
                f"a partition of {self.topic.name} accepts no more writes, so its {self.topic.keys} have no "
                "coordinator; repair its log directory, then restart the broker",
                partition=f"{self.topic.name}-{hosted.partition}",
            )
            self._resign(hosted.partition)

    # ------------------------------------------------------------ loading

    def _load_later(self, hosted: HostedShard[S]) -> None:
        self._to_load.append(hosted)
        if not self.is_loading:
            self._loading = self._spawn(self._load())

    async def _load(self) -> None:
        """Replays logs on another thread, one after the other, while the control thread answers requests."""
        started = time.monotonic()
        partitions = 0
        # A million keys are a million objects. While they only grow, the garbage collector need not visit
        # them.
        collecting = gc.isenabled()
        gc.disable()
        try:
            while self._to_load:
                # Small ones first: their keys need not wait for a million of others.
                hosted = min(self._to_load, key=lambda each: each.log.size_bytes)
                self._to_load.remove(hosted)
                if not hosted.dismissed:
                    partitions += await self._load_one(hosted)
        finally:
            gc.freeze()
            if collecting:
                gc.enable()
        self._all_loaded(partitions, time.monotonic() - started)

    async def _load_one(self, hosted: HostedShard[S]) -> bool:
        """Replays a log on another thread; returns whether its shard answers now, or soon."""
        log = hosted.log
        try:
            is_read = await asyncio.get_running_loop().run_in_executor(None, self._replayed, hosted)
        except Exception:  # no thread, for one
            self._tell_unloaded(hosted)
            is_read = False
        if hosted.dismissed:
            with self._guarded(hosted.partition):
                self._shard_ended(hosted)
        elif is_read:
            return self._begin(hosted)
        elif hosted.log is not log:  # another directory has it now, and this one was closed
            with self._guarded(hosted.partition):
                self._resign(hosted.partition)
                self._lead(hosted.partition, hosted.leader_epoch, hosted.log)
        else:
            self._load_failed(hosted)
        return False

    def _begin(self, hosted: HostedShard[S]) -> bool:
        """Begins to answer after the log was read; returns False if that fails, and it is tried again."""
        try:
            self._loaded_now(hosted)
        except Exception:
            self._tell_unloaded(hosted)
            if not hosted.dismissed:
                self._load_failed(hosted)
            return False
        if hosted.dismissed:
            return False
        if not hosted.shard.loading:
            self._forget_failure(hosted.partition)
        return True

    def _loaded_now(self, hosted: HostedShard[S]) -> None:
        """Begins to answer. Unless answers wait themselves, that is once all that was read is committed.
        Until then another broker may be elected that lacks the last records, and act otherwise.
        """
        hosted.is_read = True
        if self.answers_wait or self._is_read_committed(hosted):
            self._carry(hosted, hosted.shard.loaded(wall_ms()))

    def _is_read_committed(self, hosted: HostedShard[S]) -> bool:
        """Whether the log that was read is below the high watermark; otherwise `advanced` is called when it
        is. That may be before this returns.
        """
        if not self._leads(hosted):
            return False  # the change of the role follows
        end_offset = hosted.end_offset
        if hosted.log.high_watermark >= end_offset:
            return True
        if not self._plane.watch(self.topic.name, hosted.partition, end_offset):
            return hosted.log.high_watermark >= end_offset
        if hosted.asked is not hosted.log:
            # Once: it may be durable here and wait for followers only.
            hosted.asked = hosted.log
            self._when_durable(hosted)
        return False

    def _replayed(self, hosted: HostedShard[S]) -> bool:
        log = hosted.log
        try:
            self._replay(log, hosted.shard, lambda: not hosted.dismissed)
        except (CorruptBatch, CompressionError, LogError, OSError, MemoryError) as error:
            if not hosted.dismissed and hosted.log is log:  # else the log may be closed
                event_log.error(
                    f"a partition of {self.topic.name} cannot be read, so its {self.topic.keys} have no "
                    f"coordinator; it is tried again. If it stays so, {self.topic.unreadable_advice}",
                    partition=f"{self.topic.name}-{hosted.partition}",
                    detail=str(error) or repr(error),
                )
            return False
        except Exception:
            self._tell_unloaded(hosted)
            return False
        return True

    def _tell_unloaded(self, hosted: HostedShard[S]) -> None:
        event_log.error(
            f"bug: a partition of {self.topic.name} could not be loaded, so its {self.topic.keys} have no "
            "coordinator; it is tried again. Report the traceback",
            traceback=True,
            partition=f"{self.topic.name}-{hosted.partition}",
        )

    def _load_failed(self, hosted: HostedShard[S]) -> None:
        """Drops a shard whose log could not be loaded, and tries again after a pause. Until then its requests
        get COORDINATOR_NOT_AVAILABLE.
        """
        partition, log, leader_epoch = hosted.partition, hosted.log, hosted.leader_epoch
        before = self._failed_loads.get(partition)
        self._hosted.pop(partition, None)
        self.changes += 1
        hosted.dismissed = True
        hosted.waiting.clear()
        hosted.effects.clear()
        with self._guarded(partition):
            self._shard_ended(hosted)
        if self._stopping:
            return
        pause_s = min(2 * before.pause_s, _LONGEST_PAUSE_S) if before is not None else _FIRST_PAUSE_S
        timer = asyncio.get_running_loop().call_later(pause_s, self._load_again, partition)
        self._failed_loads[partition] = _FailedLoad(log, leader_epoch, pause_s, timer)

    def _load_again(self, partition: int) -> None:
        self._failed_loads[partition] = self._failed_loads[partition]._replace(timer=None)
        self.role_changed(partition)

    def _forget_failure(self, partition: int) -> None:
        failed = self._failed_loads.pop(partition, None)
        if failed is not None and failed.timer is not None:
            failed.timer.cancel()

    # ------------------------------------------------------------ requests

    @property
    def partitions(self) -> int:
        """Number of partitions of the internal topic when this broker first saw it: keys do not move when
        partitions are added. While it does not exist, the number that it would get.
        """
        topic = self._metadata.image.topics.get(self.topic.name)
        if topic is None or not topic.partitions:
            return int(self._configs.value(self.topic.partitions_config))
        if self._hashed is None or self._hashed[0] != topic.id:
            self._hashed = (topic.id, len(topic.partitions))
        return self._hashed[1]

    def partition_of(self, key: str) -> int:
        """Returns the partition that coordinates a key."""
        return coordinator_partition(key, self.partitions)

    def coordinates(self, key: str) -> bool:
        """Whether this broker coordinates the key."""
        return self.partition_of(key) in self._hosted

    def leader_of(self, key: str) -> int | None:
        """Returns the broker that coordinates a key by the image; None if there is none."""
        topic = self._metadata.image.topics.get(self.topic.name)
        partition = self.partition_of(key)
        if topic is None or partition >= len(topic.partitions):
            return None
        leader = topic.partitions[partition].leader
        return leader if leader >= 0 else None

    def _leads(self, hosted: HostedShard[S]) -> bool:
        """Whether the data plane still has the role in which the log was read. Otherwise its high watermark
        may be above other records than those that the shard has written.
        """
        return self._plane.led_epoch(self.topic.name, hosted.partition) == hosted.leader_epoch

    def _loaded(self, partition: int) -> HostedShard[S]:
        """Returns the shard of a partition.

        Raises:
            KafkaError: NOT_COORDINATOR; COORDINATOR_LOAD_IN_PROGRESS while the log is read;
                COORDINATOR_NOT_AVAILABLE if that has failed and is tried again.
        """
        hosted = self._hosted.get(partition)
        if hosted is None or not self._leads(hosted):
            if hosted is None and partition in self._failed_loads:
                raise KafkaError(Errors.COORDINATOR_NOT_AVAILABLE)
            raise KafkaError(Errors.NOT_COORDINATOR)
        if hosted.shard.loading:
            raise KafkaError(Errors.COORDINATOR_LOAD_IN_PROGRESS)
        return hosted

    async def _in_time(self, answer: "asyncio.Future[Any]", timeout_s: float) -> Any:
        """Returns an answer.

        Raises:
            KafkaError: COORDINATOR_NOT_AVAILABLE: it is not committed in time; NOT_COORDINATOR.
        """
        if answer.done():  # the usual case: a timer would cost more than the answer
            return answer.result()
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError as error:
            raise KafkaError(Errors.COORDINATOR_NOT_AVAILABLE, _TOO_FEW) from error

    def _answer_in_time(self, token: Token, timeout_s: float) -> None:
        """Answers a request with COORDINATOR_NOT_AVAILABLE if it has no answer in time.

        Args:
            timeout_s: The same for all requests of this coordinator.
        """
        waiting = self._in_time_until
        while waiting and waiting[0][1].done():
            waiting.popleft()
        if token.done():
            return
        loop = asyncio.get_running_loop()
        waiting.append((loop.time() + timeout_s, token))
        if self._late_timer is None:
            self._late_timer = loop.call_later(timeout_s, self._refuse_late)

    def _refuse_late(self) -> None:
        self._late_timer = None
        loop, waiting = asyncio.get_running_loop(), self._in_time_until
        now_s = loop.time()
        while waiting:
            until_s, token = waiting[0]
            if not token.done():
                if until_s > now_s:
                    self._late_timer = loop.call_at(until_s, self._refuse_late)
                    return
                token.set_exception(KafkaError(Errors.COORDINATOR_NOT_AVAILABLE, _TOO_FEW))
            waiting.popleft()

    def ready(self) -> Iterator[HostedShard[S]]:
        """Yields every shard that has read its log and may write."""
        for hosted in list(self._hosted.values()):
            if not hosted.shard.loading and not hosted.dismissed and self._leads(hosted):
                yield hosted

    # ------------------------------------------------------------ effects

    def _carry(self, hosted: HostedShard[S], effects: Sequence[object]) -> None:
        hosted.effects.extend(effects)
        if hosted.is_carrying:
            return  # the loop below continues with them
        hosted.is_carrying = True
        try:
            while hosted.effects:
                self._carry_one(hosted, hosted.effects.popleft())
        finally:
            hosted.is_carrying = False

    def _carry_one(self, hosted: HostedShard[S], effect: object) -> None:
        if isinstance(effect, Respond):
            self._respond(hosted, effect)
        elif isinstance(effect, (AppendRecords, AppendMarker)):
            self._append(hosted, effect)
        elif isinstance(effect, Note):
            event_log.info(effect.text, partition=f"{self.topic.name}-{hosted.partition}")
        else:
            self._carry_other(hosted, effect)

    def _respond(self, hosted: HostedShard[S], effect: Respond) -> None:
        if self.answers_wait and (hosted.waiting or hosted.end_offset > hosted.log.high_watermark):
            self._wait(hosted, effect)
        else:
            answer_request(effect)

    def _append(self, hosted: HostedShard[S], effect: AppendRecords | AppendMarker) -> None:
        base_offset = hosted.log.log_end_offset
        most_bytes = self.max_batch_bytes
        for batch in self._encoded(effect, most_bytes):
            error = self._write(hosted, batch, most_bytes, **write_options(effect))
            if error:
                self._failed(hosted, effect.append_id, error)
                return
        hosted.shard.append_written(effect.append_id, base_offset)
        if hosted.log.high_watermark >= hosted.end_offset and not hosted.waiting:
            self._carry(hosted, hosted.shard.append_finished(effect.append_id, Errors.NONE, wall_ms()))
            return
        self._wait(hosted, effect.append_id)
        self._when_durable(hosted)

    def _failed(self, hosted: HostedShard[S], append_id: int, error: Error) -> None:
        """Answers requests that waited for a failed append, and carries out the other effects."""
        others: list[object] = []
        for effect in hosted.shard.append_finished(append_id, error, wall_ms()):
            if isinstance(effect, Respond):
                answer_request(effect)
            else:
                others.append(effect)
        self._carry(hosted, others)

    def _encoded(self, effect: AppendRecords | AppendMarker, most_bytes: int) -> Iterator[bytes]:
        if isinstance(effect, AppendMarker):
            yield effect.batch
            return
        now_ms = wall_ms()
        producer = effect.producer
        if producer is None and (effect.atomic or len(effect.records) == 1):
            yield encode_batch([(key, value, now_ms, ()) for key, value in effect.records])
            return
        for records in self._batches(effect, most_bytes):
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

    def _batches(self, effect: AppendRecords, most_bytes: int) -> Iterator[list[Record]]:
        """Returns the records as one batch, or as several if the effect allows it and one would be too
        large.
        """
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
        """Size limit of a batch in the internal topic."""
        overrides = self._metadata.image.topic_configs(self.topic.name)
        return int(self._configs.topic_value("max.message.bytes", overrides))

    def _write(self, hosted: HostedShard[S], batch: bytes, most_bytes: int, **options: int) -> Error:
        """Writes like a producer with acks=all, and notes the log's end. Unloads a shard whose log fails, a
        little later.
        """
        error = self._appended(hosted, batch, most_bytes, **options)
        hosted.end_offset = hosted.log.log_end_offset
        if error and hosted.log.failed:
            asyncio.get_running_loop().call_soon(self._unload, hosted, hosted.log)
        return error

    def _appended(self, hosted: HostedShard[S], batch: bytes, most_bytes: int, **options: int) -> Error:
        if len(batch) > most_bytes:
            return Errors.MESSAGE_TOO_LARGE
        try:
            self._plane.append(
                self.topic.name,
                hosted.partition,
                batch,
                leader_epoch=hosted.leader_epoch,
                now_ms=wall_ms(),
                **options,
            )
        except LogError as error:
            if error.code not in _REFUSED:
                event_log.error(
                    f"a write to {self.topic.name} failed; clients get an error and retry. Check the disk",
                    partition=f"{self.topic.name}-{hosted.partition}",
                    detail=str(error),
                )
            return Errors.of(error.code)
        self._logs.control_writes += 1
        return Errors.NONE

    # ------------------------------------------------------------ the high watermark

    def _wait(self, hosted: HostedShard[S], item: int | Respond | WrittenTogether) -> None:
        hosted.waiting.append(Waiting(hosted.end_offset, self._deadline_ms(), item))
        if len(hosted.waiting) == 1 and not self._plane.watch(
            self.topic.name, hosted.partition, hosted.end_offset
        ):
            asyncio.get_running_loop().call_soon(self.advanced, hosted.partition)

    def _when_durable(self, hosted: HostedShard[S]) -> None:
        """Has the high watermark move when what is in the log now is on the medium. In os mode it does
        without. The callbacks may come before this returns.
        """
        log = hosted.log
        if log.in_commit_mode:
            self._logs.durability.when_durable(
                log, lambda: self._durable(hosted), lambda: self._unload(hosted, log)
            )

    def _durable(self, hosted: HostedShard[S]) -> None:
        if not hosted.dismissed:
            self._plane.durable(self.topic.name, hosted.partition)
            self.advanced(hosted.partition)

    def high_watermark_advanced(self, topic: str, partition: int) -> None:
        """Continues what waited for a high watermark, of any topic."""
        if topic == self.topic.name:
            self.advanced(partition)

    def advanced(self, partition: int) -> None:
        """Finishes what waited for the partition's high watermark. Call it when `DataPlane.take_advanced`
        names the partition.
        """
        hosted = self._hosted.get(partition)
        if hosted is None:
            return
        if hosted.shard.loading:
            if hosted.is_read:
                self._begin(hosted)
            return
        while hosted.waiting and not hosted.dismissed and self._leads(hosted):
            offset = hosted.waiting[0].offset
            if offset > hosted.log.high_watermark and (
                self._plane.watch(self.topic.name, partition, offset) or offset > hosted.log.high_watermark
            ):
                break
            item = hosted.waiting.popleft().item
            with self._guarded(partition):
                if isinstance(item, Respond):
                    answer_request(item)
                elif isinstance(item, WrittenTogether):
                    item.end(Errors.NONE)
                else:
                    self._carry(hosted, hosted.shard.append_finished(item, Errors.NONE, wall_ms()))


def write_options(effect: AppendRecords | AppendMarker) -> dict[str, int]:
    """Returns what `DataPlane.append` must know of an effect beside its batch."""
    if isinstance(effect, AppendMarker):
        return {"transaction_version": effect.version}
    return {} if effect.producer is None else {"verification": effect.producer.verification}


def refuse_request(effect: Respond, error: Error) -> None:
    """Answers a request with an error, if it still waits."""
    token = cast(Token, effect.token)
    if not token.done():
        token.set_exception(KafkaError(error))


def answer_request(effect: Respond) -> None:
    """Answers a request, if it still waits."""
    token = cast(Token, effect.token)
    # a handler whose connection has closed was cancelled and no longer waits
    if not token.done():
        token.set_result(effect.body)
