"""A load by a Python client: `python -m bench.kreps.load_main CLIENT ORDER`, see loads.ProcessLoad.

Prints {"timeline": [seconds, records]} each quarter second, and in the end what loads.Done holds.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from typing import Any

from bench.kreps.loads import Order

TELL_SECONDS = 0.25
# Rows of one Arrow batch handed to send_arrow: small enough that the producer's memory holds several.
BATCH_BYTES = 4 << 20
POLL_SECONDS = 30.0
LATENCIES_MAX = 200_000
Count = Callable[[], int]


class Teller:
    """Says how many records are done, on a thread of its own."""

    def __init__(self, count: Count):
        self._count = count
        self._ended = threading.Event()
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._tell, daemon=True)
        self._thread.start()

    def _tell(self) -> None:
        while not self._ended.wait(TELL_SECONDS):
            say({"timeline": [time.monotonic() - self._began, self._count()]})

    def close(self) -> None:
        """The last word, and no more."""
        self._ended.set()
        self._thread.join()
        say({"timeline": [time.monotonic() - self._began, self._count()]})


def say(what: dict[str, Any]) -> None:
    """One line."""
    print(json.dumps(what), flush=True)


class Progress:
    """Records acknowledged or read so far, and how long acknowledgements took."""

    def __init__(self) -> None:
        self.records = 0
        self.latencies_ms = array("d")
        self.errors: list[BaseException] = []


def native_produce(order: Order, progress: Progress) -> Iterator[None]:
    """`send_arrow` of batches that are there already; each is waited for by its own callback."""
    import pyarrow as pa

    import bowstring

    producer = bowstring.Producer({"bootstrap.servers": order.bootstrap, **order.settings})
    producer.partitions_for(order.topic)
    rows = max(1, min(order.records, BATCH_BYTES // max(order.record_bytes, 16)))
    batch = pa.record_batch({"value": pa.array([b"x" * order.record_bytes] * rows, pa.binary())})
    yield
    left = order.records
    while left > 0 and not progress.errors:
        count = min(rows, left)
        future = producer.send_arrow(order.topic, batch.slice(0, count))

        def done(sent: Any, handed: float = time.monotonic()) -> None:
            if sent.error is not None:
                progress.errors.append(sent.error)
            progress.records += sent.record_count
            if len(progress.latencies_ms) < LATENCIES_MAX:
                progress.latencies_ms.append((time.monotonic() - handed) * 1000)

        future.add_done_callback(done)
        left -= count
    producer.flush()
    producer.close()


def native_consume(order: Order, progress: Progress) -> Iterator[None]:
    """`poll_arrow` of every column."""
    import bowstring

    consumer = bowstring.Consumer({"bootstrap.servers": order.bootstrap, **order.settings})
    partitions = consumer.partitions_for(order.topic)
    consumer.arrow_schema()
    yield
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    while progress.records < order.records:
        rows = consumer.poll_arrow(timeout=POLL_SECONDS).num_rows
        if not rows:
            break
        progress.records += rows
    consumer.close()


def librdkafka_produce(order: Order, progress: Progress) -> Iterator[None]:
    """confluent-kafka's `produce` for each record."""
    import confluent_kafka

    settings = {k: v for k, v in order.settings.items() if k != "buffer.memory"}
    memory_kib = int(order.settings.get("buffer.memory", "33554432")) // 1024
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": order.bootstrap,
            "queue.buffering.max.kbytes": memory_kib,
            "queue.buffering.max.messages": 1_000_000,
            **settings,
        }
    )
    producer.list_topics(order.topic, timeout=10)
    value = b"x" * order.record_bytes
    yield
    produce, topic = producer.produce, order.topic
    for number in range(order.records):
        while True:
            try:
                produce(topic, value)
                break
            except BufferError:
                producer.poll(0.05)
        if not number & 4095:
            producer.poll(0)
            progress.records = number - len(producer)
    progress.records = order.records - int(producer.flush(120))


def librdkafka_consume(order: Order, progress: Progress) -> Iterator[None]:
    """confluent-kafka's `consume` of 10,000 messages at once."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": order.bootstrap,
            "group.id": f"kreps-{order.topic}",
            "enable.auto.commit": False,
        }
    )
    partitions = consumer.list_topics(order.topic, timeout=10).topics[order.topic].partitions
    yield
    consumer.assign([confluent_kafka.TopicPartition(order.topic, number, 0) for number in partitions])
    while progress.records < order.records:
        messages = consumer.consume(10_000, POLL_SECONDS)
        if not messages:
            break
        progress.records += len(messages)
    consumer.close()


CLIENTS = {
    ("native", "produce"): native_produce,
    ("native", "consume"): native_consume,
    ("librdkafka", "produce"): librdkafka_produce,
    ("librdkafka", "consume"): librdkafka_consume,
}


def percentiles(latencies_ms: array[float]) -> dict[str, float]:
    """p50, p99 and p99.9 of what was measured."""
    ordered = sorted(latencies_ms)
    if not ordered:
        return {}
    return {
        name: ordered[min(len(ordered) - 1, int(len(ordered) * share))]
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
    }


def main() -> None:
    """Runs one load; the client is made, and connected, before the clock starts."""
    client, text = sys.argv[1:]
    order = Order(**json.loads(text))
    progress = Progress()
    steps = CLIENTS[client, order.verb](order, progress)
    next(steps)
    teller = Teller(lambda: progress.records)
    cpu_before, began = time.process_time(), time.monotonic()
    for _ in steps:
        pass
    seconds, used = time.monotonic() - began, time.process_time() - cpu_before
    teller.close()
    if progress.errors:
        raise progress.errors[0]
    say(
        {
            "records": progress.records,
            "seconds": seconds,
            "cpu_seconds": used,
            "percentiles_ms": percentiles(progress.latencies_ms),
        }
    )


if __name__ == "__main__":
    main()
