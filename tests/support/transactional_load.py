"""Transactions of confluent-kafka, and what their readers may see."""

import contextlib
import threading
from collections import Counter
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition

from tests.support.waiting import HANG_S, wait_until

TIMEOUT_MS = int(HANG_S * 1000)
# Not all that a processor can do: brokers in trouble share it.
PACE_S = 0.02

QUICK = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "socket.connection.setup.timeout.ms": 5000,
    "log_level": 0,
}


def transactional_producer(bootstrap: str, id: str, **settings: Any) -> confluent_kafka.Producer:
    """Returns a producer that has its epoch."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": id, **QUICK} | settings
    )
    producer.init_transactions(HANG_S)
    return producer


def end(producer: confluent_kafka.Producer, *, commit: bool) -> bool:
    """Ends a transaction; returns whether it is committed. One that must be aborted is."""
    while True:
        try:
            if commit:
                producer.commit_transaction(HANG_S)
            else:
                producer.abort_transaction(HANG_S)
            return commit
        except KafkaException as error:
            kafka_error = error.args[0]
            if kafka_error.txn_requires_abort():
                commit = False
            elif not kafka_error.retriable():
                raise


def read_committed(
    bootstrap: str, topic: str, partitions: int, *, until: int, isolation: str = "read_committed"
) -> list[bytes]:
    """Returns the values of all records, once there are at least `until`, up to the ends of the partitions."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            **QUICK,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    values: list[bytes] = []
    ended: set[int] = set()

    def is_done() -> bool:
        for message in consumer.consume(1000, 0.2):
            error = message.error()
            if error is None:
                values.append(message.value())
                ended.discard(message.partition())
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ended.add(message.partition())
        return len(values) >= until and len(ended) == partitions

    try:
        wait_until(is_done, lambda: f"{len(values)} of {until} records, ends of {sorted(ended)}")
    finally:
        consumer.close()
    return values


class Transfers:
    """Writes pairs in transactions, one record of a pair to each of two partitions, until it is stopped.

    Attributes:
        committed: Numbers whose commit was acknowledged.
        aborted: Numbers whose transaction was aborted.
    """

    def __init__(self, bootstrap: str, id: str, topic: str) -> None:
        self.committed: list[int] = []
        self.aborted: list[int] = []
        self.error: BaseException | None = None
        self._id = id
        self._topic = topic
        # A coordinator that ends a transaction on a slow machine would fence its producer.
        self._producer = transactional_producer(bootstrap, id, **{"transaction.timeout.ms": 3 * TIMEOUT_MS})
        self._stops = threading.Event()
        # A test that fails does not wait for what its transactions wait for.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        return len(self.committed) + len(self.aborted)

    def _run(self) -> None:
        number = 0
        try:
            while not self._stops.wait(PACE_S):
                self._transfer(number)
                number += 1
        except BaseException as error:
            self.error = error

    def _transfer(self, number: int) -> None:
        self._producer.begin_transaction()
        commit = number % 4 != 3
        with contextlib.suppress(KafkaException):  # a transaction that must be aborted: end() finds that out
            for partition in (0, 1):
                self._producer.produce(
                    self._topic, f"{self._id} {number} {partition}".encode(), partition=partition
                )
            if not commit:
                self._producer.flush(HANG_S)  # else an abort drops unsent records
        done = end(self._producer, commit=commit)
        (self.committed if done else self.aborted).append(number)

    def end(self) -> None:
        """Ends the thread after its transaction, however that ends."""
        self._stops.set()

    def stop(self) -> None:
        self.end()
        self._thread.join(HANG_S)
        assert not self._thread.is_alive(), "the producer hangs"
        if self.error is not None:
            raise self.error

    def check(self, values: list[bytes]) -> None:
        """Every committed transfer is there once and complete, and nothing else."""
        expected = Counter(
            f"{self._id} {number} {partition}".encode() for number in self.committed for partition in (0, 1)
        )
        found = Counter(each for each in values if each.startswith(self._id.encode() + b" "))
        assert found - expected == Counter(), "aborted or repeated records are visible"
        assert expected - found == Counter(), "committed records are lost"
