"""Checks with transaction coordinators whether produced batches and offsets belong to their transactions
(KIP-890).
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from bowstring.engine import background, event_log
from bowstring.engine.network.broker_peers import BrokerPeers
from bowstring.engine.network.connection import NoAnswerError, UnsupportedByPeerError
from bowstring.engine.transactions.partitions import Producer
from bowstring.engine.transactions.transaction import EPOCH_BUMP, TopicPartition
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from bowstring.engine.transactions.service import TransactionCoordinatorService

_PURPOSE: Final = "transaction-verification"
_ADDING: Final = (5, 5)
_VERIFYING: Final = (4, 5)


class _Question(NamedTuple):
    producer: Producer
    partition: TopicPartition
    adds: bool
    answer: "asyncio.Future[Error]"


class TransactionVerifier:
    """Verifies partitions, or adds them to transactions. Used on the control loop only.

    Questions to another broker that come while one is on its way go together in the next request.
    """

    def __init__(
        self, coordinator: "TransactionCoordinatorService", peers: BrokerPeers, timeout_s: float
    ) -> None:
        self._coordinator = coordinator
        self._peers = peers
        self._timeout_s = timeout_s
        self._queues: dict[int, list[_Question]] = defaultdict(list)
        self._serving: dict[int, asyncio.Task[None]] = {}

    async def verify(
        self, producer: Producer, partitions: Iterable[TopicPartition], *, adds: bool
    ) -> dict[TopicPartition, Error]:
        """Returns whether partitions are in the producer's transaction.

        Args:
            adds: Adds them first (transaction version 2). While the last transaction ends, tries for up to
                add.partitions.to.txn.retry.backoff.max.ms.
        """
        left = frozenset(partitions)
        if not producer.transactional_id:
            return dict.fromkeys(left, Errors.INVALID_REQUEST)
        config = self._coordinator.config
        loop = asyncio.get_running_loop()
        until_s = loop.time() + config.add_partitions_to_txn_retry_backoff_max_ms / 1000
        errors: dict[TopicPartition, Error] = {}
        while True:
            errors |= await self._ask(producer, left, until_s, adds=adds)
            left = frozenset(each for each in left if errors[each] is Errors.CONCURRENT_TRANSACTIONS)
            if not left or not adds or loop.time() >= until_s:
                return errors
            await asyncio.sleep(config.add_partitions_to_txn_retry_backoff_ms / 1000)

    async def _ask(
        self, producer: Producer, partitions: frozenset[TopicPartition], until_s: float, *, adds: bool
    ) -> dict[TopicPartition, Error]:
        leader = self._coordinator.leader_of(producer.transactional_id)
        if leader == self._coordinator.node_id:
            return await self._ask_here(producer, partitions, until_s, adds=adds)
        if leader is None or self._peers.address(leader) is None:
            return dict.fromkeys(partitions, Errors.COORDINATOR_NOT_AVAILABLE)
        loop = asyncio.get_running_loop()
        questions = [_Question(producer, each, adds, loop.create_future()) for each in partitions]
        self._queues[leader] += questions
        if leader not in self._serving:
            self._serving[leader] = background.spawn(self._serve(leader), "verification of transactions")
        return {each.partition: await each.answer for each in questions}

    async def _ask_here(
        self, producer: Producer, partitions: frozenset[TopicPartition], until_s: float, *, adds: bool
    ) -> dict[TopicPartition, Error]:
        try:
            if adds:
                error = await self._coordinator.add_partitions(producer, partitions, EPOCH_BUMP, until_s)
            else:
                return await self._coordinator.verify_partitions(producer, partitions)
        except KafkaError as refused:
            error = refused.error
        return dict.fromkeys(partitions, error)

    async def _serve(self, leader: int) -> None:
        try:
            while queue := self._queues.pop(leader, None):
                for adds in (True, False):
                    if some := [each for each in queue if each.adds is adds]:
                        try:
                            await self._exchange(leader, some, adds=adds)
                        except Exception:
                            _give_up(some)
        finally:
            del self._serving[leader]

    async def _exchange(self, leader: int, questions: list[_Question], *, adds: bool) -> None:
        """Sends one request; questions of another epoch of the same transactional id wait for the next."""
        now: list[_Question] = []
        asked: dict[str, Producer] = {}
        for each in questions:
            if asked.setdefault(each.producer.transactional_id, each.producer) == each.producer:
                now.append(each)
            else:
                self._queues[leader].append(each)
        found: dict[tuple[str, TopicPartition], Error] = {}
        otherwise = Errors.COORDINATOR_NOT_AVAILABLE
        try:
            answer = await self._peers.exchange(
                *(_PURPOSE, leader, _request(now, adds=adds), _ADDING if adds else _VERIFYING),
                timeout_s=self._timeout_s,
                is_wanted=lambda: any(self._coordinator.leader_of(each) == leader for each in asked),
            )
            assert isinstance(answer, AddPartitionsToTxnResponse), answer
            found = _errors(answer)
            if answer.error_code:
                otherwise = Errors.of(answer.error_code)
        except (NoAnswerError, UnsupportedByPeerError):
            otherwise = Errors.NETWORK_EXCEPTION
        for each in now:
            if not each.answer.done():
                each.answer.set_result(found.get((each.producer.transactional_id, each.partition), otherwise))

    async def stop(self) -> None:
        """Answers waiting requests with COORDINATOR_NOT_AVAILABLE."""
        serving = list(self._serving.values())
        for task in serving:
            task.cancel()
        for queue in self._queues.values():
            for each in queue:
                if not each.answer.done():
                    each.answer.set_result(Errors.COORDINATOR_NOT_AVAILABLE)
        self._queues.clear()
        if serving:
            await asyncio.wait(serving)


def _request(questions: list[_Question], *, adds: bool) -> AddPartitionsToTxnRequest:
    topics: dict[Producer, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for each in questions:
        topics[each.producer][each.partition[0]].add(each.partition[1])
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=producer.transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                verify_only=not adds,
                topics=[
                    AddPartitionsToTxnTopic(name=name, partitions=sorted(indexes))
                    for name, indexes in of_producer.items()
                ],
            )
            for producer, of_producer in topics.items()
        ]
    )


def _errors(answer: AddPartitionsToTxnResponse) -> dict[tuple[str, TopicPartition], Error]:
    return {
        (each.transactional_id, (topic.name, part.partition_index)): Errors.of(part.partition_error_code)
        for each in answer.results_by_transaction
        for topic in each.topic_results
        for part in topic.results_by_partition
    }


def _give_up(questions: list[_Question]) -> None:
    """Ends questions that a bug has kept without an answer; their producers retry."""
    event_log.error("bug: transactions were not verified; report the traceback", traceback=True)
    for each in questions:
        if not each.answer.done():
            each.answer.set_result(Errors.COORDINATOR_NOT_AVAILABLE)
