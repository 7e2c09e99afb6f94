"""Hosts the shards of the partitions of ``__transaction_state`` that this broker leads.

engine/transactions decides; this module carries out the effects on the control thread.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Final

from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring._native.record.compression import CompressionError
from bowstring._native.record.encode import encode_batch
from bowstring._native.record.types import CorruptBatch
from bowstring.engine import event_log
from bowstring.engine.errors import Error, Errors, KafkaError
from bowstring.engine.groups.partitioning import coordinator_partition
from bowstring.engine.metadata.features import TRANSACTION_VERSION
from bowstring.engine.metadata.names import TRANSACTIONS_TOPIC as TOPIC
from bowstring.engine.protocol.messages.end_txn import EndTxnResponse
from bowstring.engine.protocol.messages.init_producer_id import InitProducerIdResponse
from bowstring.engine.transactions.config import TransactionConfig
from bowstring.engine.transactions.effects import (
    AppendRecords,
    CompleteLater,
    Effect,
    Note,
    Record,
    Respond,
    SendMarkers,
)
from bowstring.engine.transactions.ending import EndRequest
from bowstring.engine.transactions.init import InitRequest
from bowstring.engine.transactions.partitions import Producer
from bowstring.engine.transactions.shard import TransactionShard
from bowstring.engine.transactions.shell.hosted import HostedShard, Waiting
from bowstring.engine.transactions.shell.log_replay import replay_log
from bowstring.engine.transactions.shell.marker_sender import Address, MarkerSender
from bowstring.engine.transactions.shell.marker_writer import MarkerWriter, MarkGroup
from bowstring.engine.transactions.shell.verifier import TransactionVerifier
from bowstring.engine.transactions.state import NewProducerIdNeededError
from bowstring.engine.transactions.transaction import TopicPartition, Transaction

if TYPE_CHECKING:
    from bowstring._native.server.data_plane import DataPlane
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.metadata.image import ImageSource
    from bowstring.engine.metadata.store.commit import ClusterChanges
    from bowstring.engine.metadata.store.producer_ids import ProducerIds
    from bowstring.engine.storage.log_manager import TopicLogs

# At start, logs with less than this many bytes in total are replayed before the first request, larger ones
# in the background.
REPLAYED_AT_ONCE_BYTES: Final = 1 << 20
_COMPLETE_AGAIN_S: Final = 0.1
_REFUSED: Final = frozenset({Errors.NOT_ENOUGH_REPLICAS.code, Errors.NOT_LEADER_OR_FOLLOWER.code})
"""Errors of writes in which nothing has failed."""

Event = Callable[[TransactionShard, "asyncio.Future[Any]", int | None, int], list[Effect]]
"""(shard, token, new producer id or None, now in ms) to effects."""


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class TransactionCoordinator:
    """The coordinator of the transactional ids whose partitions of ``__transaction_state`` this broker leads.

    The data plane says who leads: call `role_changed` after it got a partition's role.

    Attributes:
        node_id: This broker.
        config: The configs of the coordinator.
        writer: Writes markers that arrive at this broker.
        verifier: Asks coordinators about produced batches.
    """

    def __init__(
        self,
        configs: "BrokerConfigs",
        metadata: "ImageSource",
        logs: "TopicLogs",
        plane: "DataPlane",
        *,
        changes: "ClusterChanges",
        producer_ids: "ProducerIds",
        node_id: int,
        address: Address,
        mark_group: MarkGroup,
    ) -> None:
        self.node_id = node_id
        self.config = TransactionConfig.read(configs.value)
        self._configs = configs
        self._metadata = metadata
        self._logs = logs
        self._plane = plane
        self._changes = changes
        self._producer_ids = producer_ids
        self._timeout_s = configs.value("request.timeout.ms") / 1000
        self.writer = MarkerWriter(configs, logs, plane, mark_group)
        self.verifier = TransactionVerifier(self, address, self._timeout_s)
        self._sender = MarkerSender(
            metadata, node_id, address, self.writer, timeout_s=self._timeout_s, marked=self._marked
        )
        self._hosted: dict[int, HostedShard] = {}
        # logs that could not be read, with the epochs; a newer epoch tries again
        self._unreadable: dict[int, tuple[PartitionLog, int]] = {}
        self._at_once_bytes = REPLAYED_AT_ONCE_BYTES
        self._to_load: deque[HostedShard] = deque()
        self._loading: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._creating = asyncio.Lock()
        # id of the topic, and its number of partitions when it was first seen
        self._hashed: tuple[bytes, int] | None = None

    # ------------------------------------------------------------ life

    def start(self) -> None:
        """Leads the partitions of ``__transaction_state`` that the data plane leads. Call on the control
        loop.
        """
        self._roles_changed()
        self._at_once_bytes = 0
        self._spawn(self._abort_for_ever())
        self._spawn(self._expire_for_ever())

    async def stop(self) -> None:
        """Answers waiting requests with NOT_COORDINATOR, and stops sending markers and reading logs."""
        self._stopping = True
        for partition in list(self._hosted):
            self._resign(partition)
        for task in list(self._tasks):
            if task is not self._loading:
                task.cancel()
        await self._sender.stop()
        await self.verifier.stop()
        self.writer.stop()
        if self._loading is not None:
            await asyncio.wait([self._loading])

    async def ensure_topic(self) -> None:
        """Creates ``__transaction_state`` on first use.

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
                value("transaction.state.log.num.partitions"),
                value("transaction.state.log.replication.factor"),
                {
                    "cleanup.policy": "compact",
                    "compression.type": "uncompressed",
                    "min.insync.replicas": str(value("transaction.state.log.min.isr")),
                    "segment.bytes": str(value("transaction.state.log.segment.bytes")),
                    "unclean.leader.election.enable": "false",
                },
            )
            self._refuse_when_stopping()
            self._roles_changed()

    def _refuse_when_stopping(self) -> None:
        if self._stopping:
            raise KafkaError(Errors.COORDINATOR_NOT_AVAILABLE)

    def topic_deleted(self, topic: str) -> None:
        """Ends all shards when the topic itself is deleted."""
        if topic == TOPIC:
            for partition in list(self._hosted):
                self._resign(partition)
            self._unreadable.clear()
            self._hashed = None

    def log_replaced(self, partition: int, log: PartitionLog) -> None:
        """Continues with the same partition in another log directory; all its records are there."""
        hosted = self._hosted.get(partition)
        if hosted is not None:
            hosted.log = log

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            event_log.error(
                "a task of the transaction coordinator failed; report the traceback as a bug",
                detail=repr(task.exception()),
            )

    # ------------------------------------------------------------ roles

    def _roles_changed(self) -> None:
        for partition in sorted({*range(len(self._logs.of_topic(TOPIC))), *self._hosted}):
            self.role_changed(partition)

    def role_changed(self, partition: int) -> None:
        """Begins or ends to coordinate a partition, as the data plane now leads it or not. Does nothing when
        nothing has changed.
        """
        logs = self._logs.of_topic(TOPIC)
        log = logs[partition] if partition < len(logs) else None
        leader_epoch = self._plane.led_epoch(TOPIC, partition)
        if log is None or leader_epoch < 0:
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
        if self._stopping or log.failed or self._unreadable.get(partition) == (log, leader_epoch):
            return
        hosted = HostedShard(partition, TransactionShard(self.config, self._level), log, leader_epoch)
        self._hosted[partition] = hosted
        if log.log_end_offset > log.log_start_offset:
            self._at_once_bytes -= log.size_bytes
            if self._at_once_bytes < 0:
                self._load_later(hosted)
                return
            if not self._replayed(hosted):
                self._refuse_unreadable(hosted)
                return
        self._carry(hosted, hosted.shard.loaded(wall_ms()))

    def _resign(self, partition: int) -> None:
        hosted = self._hosted.pop(partition, None)
        if hosted is None:
            return
        hosted.dismissed = True
        hosted.waiting.clear()
        if hosted.shard.loading:
            return  # the thread that loads it uses it
        answers = [*hosted.effects, *hosted.shard.unload(wall_ms())]
        hosted.effects.clear()
        for effect in answers:
            if isinstance(effect, Respond):
                _answer(effect)

    def _unload(self, hosted: HostedShard) -> None:
        if not hosted.dismissed:
            event_log.error(
                "a partition of __transaction_state accepts no more writes, so its transactional ids have no "
                "coordinator; repair its log directory, then restart the broker",
                partition=f"{TOPIC}-{hosted.partition}",
            )
            self._resign(hosted.partition)

    def _level(self) -> int:
        return self._metadata.image.features.get(TRANSACTION_VERSION, 0)

    # ------------------------------------------------------------ loading

    def _load_later(self, hosted: HostedShard) -> None:
        self._to_load.append(hosted)
        if self._loading is None or self._loading.done():
            self._loading = self._spawn(self._load())

    async def _load(self) -> None:
        """Replays logs on another thread, one after the other."""
        loop = asyncio.get_running_loop()
        while self._to_load:
            hosted = self._to_load.popleft()
            if hosted.dismissed:
                continue
            is_read = await loop.run_in_executor(None, self._replayed, hosted)
            if hosted.dismissed:
                continue
            if is_read:
                self._carry(hosted, hosted.shard.loaded(wall_ms()))
            else:
                self._refuse_unreadable(hosted)

    def _replayed(self, hosted: HostedShard) -> bool:
        log = hosted.log
        read_bytes = self.config.transaction_state_log_load_buffer_size
        try:
            replay_log(log, hosted.shard, lambda: not hosted.dismissed, read_bytes)
        except (CorruptBatch, CompressionError, LogError) as error:
            if not hosted.dismissed and hosted.log is log:  # else the log may be closed
                event_log.error(
                    "a partition of __transaction_state cannot be read, so its transactional ids have no "
                    "coordinator; restore its directory from a copy",
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
        """Number of partitions of ``__transaction_state`` when this broker first saw the topic. While it does
        not exist, the number that it would get.
        """
        topic = self._metadata.image.topics.get(TOPIC)
        if topic is None or not topic.partitions:
            return int(self._configs.value("transaction.state.log.num.partitions"))
        if self._hashed is None or self._hashed[0] != topic.id:
            self._hashed = (topic.id, len(topic.partitions))
        return self._hashed[1]

    def partition_of(self, transactional_id: str) -> int:
        """Returns the partition that coordinates a transactional id."""
        return coordinator_partition(transactional_id, self.partitions)

    def coordinates(self, transactional_id: str) -> bool:
        """Whether this broker coordinates the transactional id."""
        return self.partition_of(transactional_id) in self._hosted

    def leader_of(self, transactional_id: str) -> int | None:
        """Returns the broker that coordinates a transactional id by the image; None if there is none."""
        topic = self._metadata.image.topics.get(TOPIC)
        partition = self.partition_of(transactional_id)
        if topic is None or partition >= len(topic.partitions):
            return None
        leader = topic.partitions[partition].leader
        return leader if leader >= 0 else None

    def _loaded(self, partition: int) -> HostedShard:
        hosted = self._hosted.get(partition)
        if hosted is None or self._plane.led_epoch(TOPIC, partition) != hosted.leader_epoch:
            raise KafkaError(Errors.NOT_COORDINATOR)
        if hosted.shard.loading:
            raise KafkaError(Errors.COORDINATOR_LOAD_IN_PROGRESS)
        return hosted

    async def _ask(self, transactional_id: str, event: Event) -> Any:
        """Passes an event to the shard and returns its answer, which waits until it is committed.

        Raises:
            KafkaError: NOT_COORDINATOR; COORDINATOR_LOAD_IN_PROGRESS while the log is read, or when no
                producer id could be allocated;
                COORDINATOR_NOT_AVAILABLE when the answer is not committed within request.timeout.ms.
        """
        new_id: int | None = None
        partition = self.partition_of(transactional_id)
        while True:
            hosted = self._loaded(partition)
            answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            try:
                self._carry(hosted, event(hosted.shard, answer, new_id, wall_ms()))
                break
            except NewProducerIdNeededError:
                new_id = await self._new_producer_id()
        try:
            async with asyncio.timeout(self._timeout_s):
                return await answer
        except TimeoutError as error:
            raise KafkaError(Errors.COORDINATOR_NOT_AVAILABLE, "too few replicas have the record") from error

    async def _new_producer_id(self) -> int:
        """Returns a producer id that was never used.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS: whatever keeps a new block of ids away is over soon.
        """
        try:
            return await self._producer_ids.allocate()
        except KafkaError as error:
            raise KafkaError(Errors.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error

    async def init_producer_id(self, request: InitRequest) -> InitProducerIdResponse:
        """Handles InitProducerId with a transactional id.

        Raises:
            KafkaError: As for `_ask`.
        """
        answer: InitProducerIdResponse = await self._ask(
            request.transactional_id,
            lambda shard, token, new_id, now_ms: shard.init_producer_id(request, new_id, token, now_ms),
        )
        return answer

    async def end(self, request: EndRequest) -> EndTxnResponse:
        """Handles EndTxn.

        Raises:
            KafkaError: As for `_ask`.
        """
        answer: EndTxnResponse = await self._ask(
            request.transactional_id,
            lambda shard, token, new_id, now_ms: shard.end(request, new_id, token, now_ms),
        )
        return answer

    async def add_partitions(
        self, producer: Producer, partitions: frozenset[TopicPartition], version: int
    ) -> Error:
        """Adds partitions to a transaction.

        Raises:
            KafkaError: As for `_ask`.
        """
        answer: Error = await self._ask(
            producer.transactional_id,
            lambda shard, token, _, now_ms: shard.add_partitions(
                producer, partitions, token, now_ms, version=version
            ),
        )
        return answer

    async def verify_partitions(
        self, producer: Producer, partitions: frozenset[TopicPartition]
    ) -> dict[TopicPartition, Error]:
        """Returns whether partitions are in a transaction.

        Raises:
            KafkaError: As for `_ask`.
        """
        answer: dict[TopicPartition, Error] = await self._ask(
            producer.transactional_id,
            lambda shard, token, _, __: shard.verify_partitions(producer, partitions, token),
        )
        return answer

    def shard_of(self, transactional_id: str) -> TransactionShard:
        """Returns the shard of a transactional id. Read only.

        Raises:
            KafkaError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        return self._loaded(self.partition_of(transactional_id)).shard

    def shards(self) -> Iterator[TransactionShard]:
        """Yields everything that this broker coordinates. Read only.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS.
        """
        for partition, hosted in list(self._hosted.items()):
            if self._plane.led_epoch(TOPIC, partition) == hosted.leader_epoch:
                yield self._loaded(partition).shard

    # ------------------------------------------------------------ effects

    def _carry(self, hosted: HostedShard, effects: list[Effect]) -> None:
        hosted.effects.extend(effects)
        if hosted.is_carrying:
            return  # the loop below goes on with them
        hosted.is_carrying = True
        try:
            while hosted.effects:
                self._carry_one(hosted, hosted.effects.popleft())
        finally:
            hosted.is_carrying = False

    def _carry_one(self, hosted: HostedShard, effect: Effect) -> None:
        if isinstance(effect, Respond):
            _answer(effect)
        elif isinstance(effect, AppendRecords):
            self._append(hosted, effect)
        elif isinstance(effect, SendMarkers):
            self._sender.send(hosted, effect.transaction, effect.partitions)
        elif isinstance(effect, CompleteLater):
            asyncio.get_running_loop().call_later(
                _COMPLETE_AGAIN_S, self._complete, hosted, effect.transactional_id
            )
        else:
            assert isinstance(effect, Note), effect
            event_log.info(effect.text, partition=f"{TOPIC}-{hosted.partition}")

    def _complete(self, hosted: HostedShard, transactional_id: str) -> None:
        if not hosted.dismissed:
            self._carry(hosted, hosted.shard.complete(transactional_id, wall_ms()))

    def _marked(self, hosted: HostedShard, transaction: Transaction, partition: TopicPartition) -> None:
        if not hosted.dismissed:
            self._carry(hosted, hosted.shard.marked(transaction, partition, wall_ms()))

    def _append(self, hosted: HostedShard, effect: AppendRecords) -> None:
        error = self._write(hosted, effect.records)
        if error:
            if hosted.log.failed:
                asyncio.get_running_loop().call_soon(self._unload, hosted)
            self._carry(hosted, hosted.shard.append_finished(effect.append_id, error, wall_ms()))
            return
        end_offset = hosted.log.log_end_offset
        if hosted.log.high_watermark >= end_offset and not hosted.waiting:
            self._carry(hosted, hosted.shard.append_finished(effect.append_id, Errors.NONE, wall_ms()))
            return
        hosted.waiting.append(Waiting(end_offset, effect.append_id))
        if len(hosted.waiting) == 1 and not self._plane.watch(TOPIC, hosted.partition, end_offset):
            asyncio.get_running_loop().call_soon(self.advanced, hosted.partition)
        if hosted.log.in_commit_mode:
            self._logs.durability.when_durable(
                hosted.log, lambda: self._durable(hosted), lambda: self._unload(hosted)
            )

    def _write(self, hosted: HostedShard, records: list[Record]) -> Error:
        """Writes like a producer with acks=all."""
        now_ms = wall_ms()
        batch = encode_batch([(key, value, now_ms, ()) for key, value in records])
        overrides = self._metadata.image.topic_configs(TOPIC)
        if len(batch) > self._configs.topic_value("max.message.bytes", overrides):
            return Errors.MESSAGE_TOO_LARGE
        try:
            self._plane.append(
                TOPIC, hosted.partition, batch, leader_epoch=hosted.leader_epoch, now_ms=now_ms
            )
        except LogError as error:
            if error.code not in _REFUSED:
                event_log.error(
                    "a write to __transaction_state failed; producers get an error and retry. Check the disk",
                    partition=f"{TOPIC}-{hosted.partition}",
                    detail=str(error),
                )
            return Errors.of(error.code)
        self._logs.control_writes += 1
        return Errors.NONE

    def _durable(self, hosted: HostedShard) -> None:
        if not hosted.dismissed:
            self._plane.durable(TOPIC, hosted.partition)
            self.advanced(hosted.partition)

    def advanced(self, partition: int) -> None:
        """Finishes the appends below the partition's high watermark. Call it when `DataPlane.take_advanced`
        names the partition.
        """
        hosted = self._hosted.get(partition)
        if hosted is None:
            return
        while (
            hosted.waiting
            and not hosted.dismissed
            and self._plane.led_epoch(TOPIC, partition) == hosted.leader_epoch
        ):
            offset = hosted.waiting[0].offset
            if offset > hosted.log.high_watermark and (
                self._plane.watch(TOPIC, partition, offset) or offset > hosted.log.high_watermark
            ):
                break
            append_id = hosted.waiting.popleft().append_id
            self._carry(hosted, hosted.shard.append_finished(append_id, Errors.NONE, wall_ms()))

    # ------------------------------------------------------------ time

    async def _abort_for_ever(self) -> None:
        while True:
            await asyncio.sleep(
                self.config.transaction_abort_timed_out_transaction_cleanup_interval_ms / 1000
            )
            await self.abort_timed_out(wall_ms())

    async def abort_timed_out(self, now_ms: int) -> None:
        """Aborts the transactions that have passed their timeout."""
        for hosted in list(self._hosted.values()):
            if hosted.shard.loading or hosted.dismissed:
                continue
            for transactional_id in hosted.shard.timed_out(now_ms):
                await self._abort(hosted, transactional_id)

    async def _abort(self, hosted: HostedShard, transactional_id: str) -> None:
        new_id: int | None = None
        while not hosted.dismissed:
            try:
                effects = hosted.shard.abort(transactional_id, new_id, wall_ms())
            except NewProducerIdNeededError:
                try:
                    new_id = await self._new_producer_id()
                except KafkaError:
                    return  # the next round tries again
                continue
            if effects:
                event_log.info(
                    "a transaction has passed its timeout and is aborted", transactional_id=transactional_id
                )
            self._carry(hosted, effects)
            return

    async def _expire_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self.config.transaction_remove_expired_transaction_cleanup_interval_ms / 1000)
            self.expire(wall_ms())

    def expire(self, now_ms: int) -> None:
        """Forgets transactional ids that were not used for transactional.id.expiration.ms."""
        for hosted in list(self._hosted.values()):
            if not hosted.shard.loading and not hosted.dismissed:
                self._carry(hosted, hosted.shard.expire(now_ms))


def _answer(effect: Respond) -> None:
    token = effect.token
    assert isinstance(token, asyncio.Future), token
    # a handler whose connection has closed was cancelled and no longer waits
    if not token.done():
        token.set_result(effect.body)
