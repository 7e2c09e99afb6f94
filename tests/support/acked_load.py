"""Idempotent load on some partitions while brokers come and go; compares acknowledged records in the end."""

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import confluent_kafka

from tests.support.waiting import FOR_EVER_MS, HANG_S, wait_until

QUICK = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "socket.connection.setup.timeout.ms": 2000,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
    "topic.metadata.refresh.interval.ms": 1000,
    "log_level": 0,
}


# Batches of every size, some of them in flight at any moment, and not all that a processor can send: the brokers in
# trouble share it.
BURSTS, PACE_S = (1, 2, 1, 80), 0.01
WAITING_MAX = 500


class AckedLoad:
    """Numbered records by librdkafka's idempotent producer with acks=all; a context manager that stops it.

    Attributes:
        acked: `{partition: {offset: value}}`.
        errors: What a client cannot retry by itself.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, **options: Any) -> None:
        self.topic = topic
        self.partitions = partitions
        self.acked: dict[int, dict[int, bytes]] = defaultdict(dict)
        self.errors: list[str] = []
        self._bootstrap = bootstrap
        self._options = options
        self._sent = [0] * partitions
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> "AckedLoad":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _work(self) -> None:
        client = confluent_kafka.Producer(
            QUICK
            | {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": FOR_EVER_MS,
                "error_cb": self._on_error,
            }
            | self._options
        )
        for burst in itertools.cycle(BURSTS):
            for _ in range(burst):
                for partition in range(self.partitions) if len(client) < WAITING_MAX else ():
                    self._send(client, partition)
            client.poll(0)
            if self._stopping.wait(PACE_S):
                break
        if client.flush(HANG_S):
            self.errors.append("records are not acknowledged")

    def _send(self, client: confluent_kafka.Producer, partition: int) -> None:
        number = self._sent[partition]
        self._sent[partition] += 1
        value = b"%d:%d:" % (partition, number) + b"." * (number % 200)
        client.produce(self.topic, value, partition=partition, on_delivery=self._on_delivery)

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is not None:
            self.errors.append(str(error))
            return
        if self.acked[message.partition()].setdefault(message.offset(), message.value()) != message.value():
            self.errors.append(f"two records at {message.partition()}:{message.offset()}")

    def _on_error(self, error: Any) -> None:
        if error.fatal():
            self.errors.append(f"fatal: {error}")

    @property
    def count(self) -> int:
        """Of acknowledged records."""
        return sum(map(len, self.acked.values()))

    def wait_for_more(self, partitions: Sequence[int] | None = None, count: int = 50) -> None:
        """Waits until each partition has that many more acknowledged records."""
        chosen = range(self.partitions) if partitions is None else partitions
        before = {partition: len(self.acked[partition]) for partition in chosen}
        wait_until(
            lambda: all(len(self.acked[each]) >= before[each] + count for each in chosen),
            lambda: (before, {each: len(self.acked[each]) for each in chosen}, self.errors),
        )

    def check(self) -> None:
        """After the end: the topic has all records once, in order, where they were acknowledged."""
        assert not self.errors, self.errors[:5]
        found = read_all(self._bootstrap, self.topic, self.partitions)
        for partition in range(self.partitions):
            numbers = [int(value.split(b":")[1]) for _, value in found[partition]]
            assert numbers == list(range(self._sent[partition])), partition
            assert dict(found[partition]) == self.acked[partition]


def produce_one_by_one(bootstrap: str, topic: str, values: Sequence[bytes], acks: int = -1) -> None:
    """Each is acknowledged before the next is sent to partition 0."""
    client = confluent_kafka.Producer(QUICK | {"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 0})
    errors: list[Any] = []
    for value in values:
        client.produce(topic, value, partition=0, on_delivery=lambda error, _: errors.append(error))
        assert client.flush(HANG_S) == 0
    assert errors == [None] * len(values)


def read_all(
    bootstrap: str, topic: str, partitions: int, *, from_start: bool = False
) -> list[list[tuple[int, bytes]]]:
    """Returns offset and value of all committed records of each partition; nothing may be deleted, except
    with `from_start`.
    """
    client = confluent_kafka.Consumer(
        QUICK
        | {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
        }
    )
    first = confluent_kafka.OFFSET_BEGINNING if from_start else 0
    client.assign([confluent_kafka.TopicPartition(topic, each, first) for each in range(partitions)])
    found: list[list[tuple[int, bytes]]] = [[] for _ in range(partitions)]
    ended: set[int] = set()
    deadline_s = time.monotonic() + HANG_S
    try:
        while len(ended) < partitions:
            assert time.monotonic() < deadline_s, "reading all hangs"
            for message in client.consume(2000, 1.0):
                if message.error() is None:
                    found[message.partition()].append((message.offset(), message.value()))
                elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    assert message.error().retriable(), message.error()
    finally:
        client.close()
    return found
