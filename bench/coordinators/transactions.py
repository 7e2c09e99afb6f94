"""Transactional producers that write to all partitions of a topic and commit, again and again."""

from __future__ import annotations

import time
from typing import Any

from bench.coordinators.figures import Span, latencies_ms
from bench.coordinators.loads import TRANSACTION, Order, find_coordinator
from bench.coordinators.loop import Loop, Wire
from bench.peers.wire import WireError
from bowstring._native.record.encode import encode_batch
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.end_txn import EndTxnRequest
from bowstring.protocol.messages.init_producer_id import InitProducerIdRequest
from bowstring.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

INIT_VERSION, PRODUCE_VERSION, END_VERSION = 5, 12, 5
TIMEOUT_MS = 60_000
RETRY_S = 0.002
VALUE = b"x" * 100

PASSING = frozenset(
    {
        Errors.CONCURRENT_TRANSACTIONS.code,
        Errors.COORDINATOR_LOAD_IN_PROGRESS.code,
        Errors.COORDINATOR_NOT_AVAILABLE.code,
        Errors.NOT_COORDINATOR.code,
        Errors.NOT_ENOUGH_REPLICAS.code,
    }
)


class TransactionalProducer:
    """A producer of transaction version 2 (KIP-890): Produce adds the partitions, EndTxn raises the epoch.

    Attributes:
        latencies_s: Seconds from the Produce request to the answer of EndTxn.
        retries: Requests that were refused for the moment.
    """

    def __init__(self, loop: Loop, wire: Wire, name: str, topic: str, partitions: int):
        self._loop = loop
        self._wire = wire
        self._name = name
        self._topic = topic
        self._partitions = partitions
        self._id, self._epoch, self._began = -1, -1, 0.0
        # Sequence numbers begin anew in each epoch, which a transaction has for itself.
        self._left: list[int] = []
        self.latencies_s: list[float] = []
        self.retries = 0
        self.going = True

    def start(self) -> None:
        """Gets the producer id; then transactions follow each other."""
        request = InitProducerIdRequest(transactional_id=self._name, transaction_timeout_ms=TIMEOUT_MS)
        self._wire.ask(request, INIT_VERSION, self._started)

    def _started(self, answer: Any) -> None:
        if self._is_passing(answer.error_code):
            return self._later(self.start)
        self._id, self._epoch = answer.producer_id, answer.producer_epoch
        return self._begin()

    def _begin(self) -> None:
        self._began = time.monotonic()
        self._left = list(range(self._partitions))
        self._produce()

    def _produce(self) -> None:
        now_ms = int(time.time() * 1000)
        batch = encode_batch(
            [(None, VALUE, now_ms, None)],
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=0,
            transactional=True,
        )
        data = [PartitionProduceData(index=index, records=batch) for index in self._left]
        request = ProduceRequest(
            transactional_id=self._name,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=self._topic, partition_data=data)],
        )
        self._wire.ask(request, PRODUCE_VERSION, self._produced)

    def _produced(self, answer: Any) -> None:
        parts = answer.responses[0].partition_responses
        self._left = [part.index for part in parts if self._is_passing(part.error_code)]
        if self._left:
            return self._later(self._produce)
        return self._end()

    def _end(self) -> None:
        request = EndTxnRequest(
            transactional_id=self._name, producer_id=self._id, producer_epoch=self._epoch, committed=True
        )
        self._wire.ask(request, END_VERSION, self._ended)

    def _ended(self, answer: Any) -> None:
        if self._is_passing(answer.error_code):
            return self._later(self._end)
        self._id, self._epoch = answer.producer_id, answer.producer_epoch
        self.latencies_s.append(time.monotonic() - self._began)
        if self.going:
            self._begin()
        return None

    def _later(self, call: Any) -> None:
        self.retries += 1
        self._loop.at(time.monotonic() + RETRY_S, call)

    def _is_passing(self, code: int) -> bool:
        if code != Errors.NONE.code and code not in PASSING:
            raise WireError(f"{self._name} got {Errors.of(code).name}")
        return code != Errors.NONE.code


def transactions(order: Order) -> dict[str, float]:
    """Commits transactions from `producers` for `seconds`, each of one record to each of `partitions`."""
    with Loop(order.bootstrap) as loop:
        producers = []
        for number in range(order.count("producers")):
            name = f"{order.topic}-{number}"
            wire = loop.connect()
            find_coordinator(loop, wire, name, TRANSACTION)
            producers.append(TransactionalProducer(loop, wire, name, order.topic, order.count("partitions")))
        for each in producers:
            each.start()
        loop.run_for(order.numbers["warm_seconds"])
        for each in producers:
            each.latencies_s, each.retries = [], 0
        span = Span(order.pid)
        loop.run_for(order.numbers["seconds"])
        figures = span.figures()
        latencies = [seconds for each in producers for seconds in each.latencies_s]
        retries = sum(each.retries for each in producers)
        for each in producers:
            each.going = False
        loop.run_for(0.5)
    return {
        "commits_per_second": len(latencies) / figures["seconds"],
        "commits_per_cpu_second": len(latencies) / figures["cpu_seconds"],
        **latencies_ms(latencies),
        "retries_per_commit": retries / max(1, len(latencies)),
        "load_cpu_percent": 100 * figures["load_cpu_seconds"] / figures["seconds"],
    }
