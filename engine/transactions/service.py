"""Hosts the shards of the partitions of ``__transaction_state`` that this broker leads.

engine/transactions decides; this module carries out the effects on the control thread.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final

from bowstring._native.log.partition_log import PartitionLog
from bowstring.engine import event_log
from bowstring.engine.coordinators.effects import Token
from bowstring.engine.coordinators.internal_topic import InternalTopic
from bowstring.engine.coordinators.log_replay import batches_of
from bowstring.engine.coordinators.runtime import CoordinatorRuntime, wall_ms
from bowstring.engine.metadata.names import TRANSACTIONS_TOPIC
from bowstring.engine.network.broker_peers import BrokerPeers
from bowstring.engine.transactions.config import TransactionConfig
from bowstring.engine.transactions.effects import CompleteLater, Effect, Ended, SendMarkers
from bowstring.engine.transactions.ending import EndRequest
from bowstring.engine.transactions.init import InitRequest
from bowstring.engine.transactions.marker_sender import Hosted, MarkerSender
from bowstring.engine.transactions.marker_writer import MarkerWriter, MarkGroup
from bowstring.engine.transactions.partitions import Producer
from bowstring.engine.transactions.shard import TransactionShard
from bowstring.engine.transactions.state import NewProducerIdNeededError
from bowstring.engine.transactions.transaction import TopicPartition, Transaction
from bowstring.engine.transactions.verifier import TransactionVerifier
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.features import TRANSACTION_VERSION
from bowstring.protocol.messages.end_txn import EndTxnResponse
from bowstring.protocol.messages.init_producer_id import InitProducerIdResponse

if TYPE_CHECKING:
    from bowstring._native.server.data_plane import DataPlane
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.coordinators.cluster_changes import ClusterChanges
    from bowstring.engine.coordinators.producer_ids import ProducerIds
    from bowstring.engine.metadata.image import ImageSource
    from bowstring.engine.storage.log_manager import LogManager

_COMPLETE_AGAIN_S: Final = 0.1

_TOPIC: Final = InternalTopic(
    TRANSACTIONS_TOPIC,
    "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor",
    lambda value: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(value("transaction.state.log.min.isr")),
        "segment.bytes": str(value("transaction.state.log.segment.bytes")),
        "unclean.leader.election.enable": "false",
    },
    "transactional ids",
)

Event = Callable[[TransactionShard, "asyncio.Future[Any]", int | None, int], list[Effect]]
"""(shard, token, new producer id or None, now in ms) to effects."""


class TransactionCoordinatorService(CoordinatorRuntime[TransactionShard]):
    """The coordinator of the transactional ids whose partitions of ``__transaction_state`` this broker leads.

    The data plane determines the leader: call `role_changed` after it got a partition's role.

    Attributes:
        node_id: This broker.
        config: The configs of the coordinator.
        writer: Writes markers that arrive at this broker.
        verifier: Queries coordinators about produced batches.
    """

    topic: ClassVar = _TOPIC
    answers_wait: ClassVar = False

    def __init__(
        self,
        configs: "BrokerConfigs",
        metadata: "ImageSource",
        logs: "LogManager",
        plane: "DataPlane",
        *,
        changes: "ClusterChanges",
        producer_ids: "ProducerIds",
        node_id: int,
        peers: BrokerPeers,
        mark_group: MarkGroup,
    ) -> None:
        super().__init__(configs, metadata, logs, plane, changes)
        self.node_id = node_id
        self.config = TransactionConfig.read(configs.value)
        self._producer_ids = producer_ids
        self._timeout_s = configs.value("request.timeout.ms") / 1000
        # by transactional id, while a request waits for the end of its last transaction
        self._ends: dict[str, asyncio.Future[None]] = {}
        self.writer = MarkerWriter(configs, logs, plane, mark_group)
        self.verifier = TransactionVerifier(self, peers, self._timeout_s)
        self._sender = MarkerSender(
            metadata, node_id, peers, self.writer, timeout_s=self._timeout_s, marked=self._marked
        )

    # ------------------------------------------------------------ life

    def start(self) -> None:
        """Leads the partitions of ``__transaction_state`` that the data plane leads. Call on the control
        loop.
        """
        super().start()
        config = self.config
        abort_ms = config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        expire_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._spawn(self._repeat(abort_ms, lambda: self.abort_timed_out(wall_ms())))
        self._spawn(self._repeat(expire_ms, lambda: self.expire(wall_ms())))

    async def stop(self) -> None:
        """Answers waiting requests with NOT_COORDINATOR, and stops sending markers and reading logs."""
        for partition in list(self._hosted):
            self._resign(partition)
        await self._sender.stop()
        await self.verifier.stop()
        self.writer.stop()
        await super().stop()

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        """Ends waits in the topic, and all shards if it is that of transactions."""
        self.writer.topic_deleted(topic)
        super().topic_deleted(topic, topic_id)

    def high_watermark_advanced(self, topic: str, partition: int) -> None:
        """Continues what waited for a high watermark, and markers in partitions of any topic."""
        super().high_watermark_advanced(topic, partition)
        self.writer.advanced(topic, partition)

    # ------------------------------------------------------------ shards

    def _new_shard(self) -> TransactionShard:
        return TransactionShard(self.config, self._level)

    def _level(self) -> int:
        return self._metadata.image.features.get(TRANSACTION_VERSION, 0)

    def _replay(self, log: PartitionLog, shard: TransactionShard, go_on: Callable[[], bool]) -> None:
        """Passes the last record of each key to the shard."""
        latest: dict[bytes | None, bytes | None] = {}
        for records in batches_of(log, go_on, self.config.transaction_state_log_load_buffer_size):
            latest.update((record.key, record.value) for record in records)
        for key, value in latest.items():
            if value is not None:
                shard.replay(key, value)

    # ------------------------------------------------------------ requests

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
        return await self._in_time(answer, self._timeout_s)

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

    def begin_producer(self, request: InitRequest, token: Token) -> bool:
        """Handles InitProducerId with a transactional id, and answers through the token. False: call
        `init_producer_id`, which can wait for a new producer id, and raises errors.
        """
        hosted = self._hosted.get(self.partition_of(request.transactional_id))
        if hosted is None or hosted.shard.loading or not self._leads(hosted):
            return False
        try:
            effects = hosted.shard.init_producer_id(request, None, token, wall_ms())
        except NewProducerIdNeededError:
            return False
        self._carry(hosted, effects)
        self._answer_in_time(token, self._timeout_s)
        return True

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
        self,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        version: int,
        until_s: float | None = None,
    ) -> Error:
        """Adds partitions to a transaction. While the last one ends, waits for that end, because a producer
        would retry only after its backoff.

        Args:
            until_s: When to give up with CONCURRENT_TRANSACTIONS, on the loop's clock; by default in
                add.partitions.to.txn.retry.backoff.ms.

        Raises:
            KafkaError: As for `_ask`.
        """
        if until_s is None:
            until_s = self.retry_until_s()
        while True:
            answer: Error = await self._ask(
                producer.transactional_id,
                lambda shard, token, _, now_ms: shard.add_partitions(
                    producer, partitions, token, now_ms, version=version
                ),
            )
            if answer is not Errors.CONCURRENT_TRANSACTIONS or not await self._ended(
                producer.transactional_id, until_s
            ):
                return answer

    def retry_until_s(self) -> float:
        """Returns when a client that gets CONCURRENT_TRANSACTIONS now would retry, on the loop's
        clock.
        """
        return asyncio.get_running_loop().time() + self.config.add_partitions_to_txn_retry_backoff_ms / 1000

    async def _ended(self, transactional_id: str, until_s: float) -> bool:
        """Waits until the last transaction of an id has ended; returns False if it has not in time."""
        loop = asyncio.get_running_loop()
        left_s = until_s - loop.time()
        if left_s <= 0:
            return False
        ended = self._ends.get(transactional_id)
        if ended is None:
            ended = self._ends[transactional_id] = loop.create_future()
        try:
            await asyncio.wait((ended,), timeout=left_s)
        finally:
            if not ended.done() and self._ends.get(transactional_id) is ended:
                del self._ends[transactional_id]
        return ended.done()

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
            if self._leads(hosted):
                yield self._loaded(partition).shard

    # ------------------------------------------------------------ effects

    def _carry_other(self, hosted: Hosted, effect: object) -> None:
        if isinstance(effect, SendMarkers):
            self._sender.send(hosted, effect.transaction, effect.partitions)
        elif isinstance(effect, Ended):
            ended = self._ends.pop(effect.transactional_id, None)
            if ended is not None and not ended.done():
                ended.set_result(None)
        else:
            assert isinstance(effect, CompleteLater), effect
            asyncio.get_running_loop().call_later(
                _COMPLETE_AGAIN_S, self._complete, hosted, effect.transactional_id
            )

    def _complete(self, hosted: Hosted, transactional_id: str) -> None:
        if not hosted.dismissed:
            with self._guarded(hosted.partition):
                self._carry(hosted, hosted.shard.complete(transactional_id, wall_ms()))

    def _marked(self, hosted: Hosted, transaction: Transaction, marked: list[TopicPartition]) -> None:
        if not hosted.dismissed:
            with self._guarded(hosted.partition):
                self._carry(hosted, hosted.shard.marked(transaction, marked, wall_ms()))

    # ------------------------------------------------------------ time

    async def abort_timed_out(self, now_ms: int) -> None:
        """Aborts the transactions that have passed their timeout."""
        for hosted in self.ready():
            with self._guarded(hosted.partition):
                for transactional_id in hosted.shard.timed_out(now_ms, time.monotonic_ns() // 1_000_000):
                    await self._abort(hosted, transactional_id)

    async def _abort(self, hosted: Hosted, transactional_id: str) -> None:
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

    def expire(self, now_ms: int) -> None:
        """Forgets transactional ids that were not used for transactional.id.expiration.ms."""
        for hosted in self.ready():
            with self._guarded(hosted.partition):
                self._carry(hosted, hosted.shard.expire(now_ms))
