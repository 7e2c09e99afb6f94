"""A consumer group of one member of librdkafka, which commits each record that it has read."""

import threading
from collections import defaultdict
from typing import Any

import confluent_kafka

from bowstring.protocol.errors import Errors
from tests.support.acked_load import QUICK
from tests.support.waiting import wait_until

GROUP = "group-of-test"


class GroupReader:
    """Reads a topic in its group from the beginning; a context manager that stops it.

    Attributes:
        read: `{partition: [(offset, value)]}` in the order in which they came.
        errors: What a client cannot retry by itself.
    """

    def __init__(self, bootstrap: str, topic: str, **options: Any) -> None:
        self.read: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
        self.errors: list[str] = []
        self._bootstrap = bootstrap
        self._topic = topic
        self._options = options
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> "GroupReader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _work(self) -> None:
        client = confluent_kafka.Consumer(
            QUICK
            | {
                "bootstrap.servers": self._bootstrap,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "error_cb": self._on_error,
            }
            | self._options
        )
        client.subscribe([self._topic])
        try:
            while not self._stopping.is_set():
                for message in client.consume(200, 0.1):
                    self._take(message)
                self._commit(client)
        finally:
            client.close()

    def _take(self, message: Any) -> None:
        if message.error() is None:
            self.read[message.partition()].append((message.offset(), message.value()))
        elif not message.error().retriable():
            self.errors.append(str(message.error()))

    def _commit(self, client: confluent_kafka.Consumer) -> None:
        try:
            client.commit(asynchronous=False)
        except confluent_kafka.KafkaException as failure:
            error = failure.args[0]
            if error.name() == "_NO_OFFSET":  # nothing new is no error
                return
            # librdkafka gives up sooner than Java's client what Kafka marks as retriable.
            if not error.retriable() and not (error.code() >= 0 and Errors.of(error.code()).retriable):
                self.errors.append(f"commit: {error}")

    def _on_error(self, error: Any) -> None:
        if error.fatal():
            self.errors.append(f"fatal: {error}")

    def wait_until_read(self, acked: dict[int, dict[int, bytes]]) -> None:
        """Waits until it has read these records."""
        wait_until(
            lambda: all(len(self.read[each]) >= len(records) for each, records in acked.items()),
            lambda: (
                {each: len(records) for each, records in acked.items()},
                {each: len(records) for each, records in self.read.items()},
                self.errors,
            ),
        )


def committed(bootstrap: str, topic: str, partitions: int) -> list[int]:
    """The committed offset of each partition."""
    client = confluent_kafka.Consumer(QUICK | {"bootstrap.servers": bootstrap, "group.id": GROUP})
    try:
        asked = [confluent_kafka.TopicPartition(topic, each) for each in range(partitions)]
        return [each.offset for each in client.committed(asked, timeout=60)]
    finally:
        client.close()
