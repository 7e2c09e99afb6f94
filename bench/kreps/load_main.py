"""Runs a load by a Python client: `python -m bench.kreps.load_main CLIENT ORDER`, see loads.ProcessLoad.

Prints {"ready"} when it is connected and waits for a line; then {"timeline": [seconds, records]} each quarter
second, and at the end loads.Done. It ends when its standard input does.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from typing import Any

from bench.kreps import many_connections
from bench.kreps.loads import TELL_SECONDS, Order, Progress

# Bytes of one Arrow batch for send_arrow: small enough that the producer's memory holds several.
BATCH_BYTES = 4 << 20
POLL_SECONDS = 30.0
LATENCIES_MAX = 200_000
SAMPLED = 4_096
KIB = 1024
CUTS = (50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.99)


class Teller:
    """Reports the number of records done, and the p99 of the latest acknowledgements, on its own thread."""

    def __init__(self, progress: Progress):
        self._progress = progress
        self._told = 0
        self._ended = threading.Event()
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._tell, daemon=True)
        self._thread.start()

    def _tell(self) -> None:
        while not self._ended.wait(TELL_SECONDS):
            self._say()

    def _say(self) -> None:
        latest = sorted(self._progress.latencies_ms[self._told :])
        self._told += len(latest)
        latency_ms = latest[int(len(latest) * 0.99)] if latest else None
        say({"timeline": [time.monotonic() - self._began, self._progress.records], "latency_ms": latency_ms})

    def close(self) -> None:
        """Prints the last line and stops."""
        self._ended.set()
        self._thread.join()
        self._say()


def say(what: dict[str, Any]) -> None:
    """Prints one line."""
    print(json.dumps(what), flush=True)


def native_produce(order: Order, progress: Progress) -> Iterator[None]:
    """`send_arrow` of prepared batches; a callback waits for each."""
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


def native_send(order: Order, progress: Progress) -> Iterator[None]:
    """`send` for each record; every SAMPLED-th has a callback, and `flush` waits for all."""
    import bowstring

    producer = bowstring.Producer({"bootstrap.servers": order.bootstrap, **order.settings})
    producer.partitions_for(order.topic)
    value = b"x" * order.record_bytes
    yield
    send, topic = producer.send, order.topic

    def sample(number: int) -> None:
        handed = time.monotonic()

        def done(future: Any) -> None:
            if error := future.exception(0):
                progress.errors.append(error)
            progress.records = max(progress.records, number)
            if len(progress.latencies_ms) < LATENCIES_MAX:
                progress.latencies_ms.append((time.monotonic() - handed) * 1000)

        send(topic, value, on_delivery=done)

    for first in range(0, order.records, SAMPLED):
        sample(first)
        for _ in range(min(SAMPLED, order.records - first) - 1):
            send(topic, value)
        if progress.errors:
            break
    producer.flush()
    refused = int(producer.metrics()["record-error-total"])
    producer.close()
    if not progress.errors:
        progress.records = order.records - refused


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


def native_latency(order: Order, progress: Progress) -> Iterator[None]:
    """`send` and `poll`, one record after the other."""
    import bowstring

    with (
        bowstring.Producer(order.bootstrap, acks=1, linger_ms=0) as producer,
        bowstring.Consumer(order.bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([(order.topic, 0)])
        yield
        _round_trips(
            order,
            progress,
            lambda value: producer.send(order.topic, value, partition=0),
            lambda: bool(consumer.poll(timeout=POLL_SECONDS)),
        )


def librdkafka_produce(order: Order, progress: Progress) -> Iterator[None]:
    """confluent-kafka's `produce` for each record."""
    import confluent_kafka

    settings = {k: v for k, v in order.settings.items() if k != "buffer.memory"}
    memory_kib = int(order.settings.get("buffer.memory", "33554432")) // KIB
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


def librdkafka_latency(order: Order, progress: Progress) -> Iterator[None]:
    """`produce` and `poll`, one record after the other."""
    import confluent_kafka

    producer = confluent_kafka.Producer({"bootstrap.servers": order.bootstrap, "acks": "1", "linger.ms": 0})
    # Fetch an empty partition again at once.
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": order.bootstrap,
            "group.id": f"kreps-{order.topic}",
            "fetch.error.backoff.ms": 0,
        }
    )
    producer.list_topics(order.topic, timeout=10)
    consumer.assign([confluent_kafka.TopicPartition(order.topic, 0, 0)])
    yield

    def send(value: bytes) -> None:
        producer.produce(order.topic, value, partition=0)
        producer.poll(0)

    _round_trips(order, progress, send, lambda: consumer.poll(POLL_SECONDS) is not None)
    consumer.close()


def _round_trips(
    order: Order, progress: Progress, send: Callable[[bytes], Any], read: Callable[[], bool]
) -> None:
    value = b"x" * order.record_bytes
    for number in range(order.warm_up + order.records):
        began = time.perf_counter()
        send(value)
        if not read():
            raise TimeoutError(f"record {number} did not arrive within {POLL_SECONDS:.0f} s")
        if number >= order.warm_up:
            progress.latencies_ms.append((time.perf_counter() - began) * 1e3)
            progress.records += 1


CLIENTS = {
    ("wire", "produce"): many_connections.produce,
    ("native", "produce"): native_produce,
    ("native", "consume"): native_consume,
    ("native", "latency"): native_latency,
    ("native-send", "produce"): native_send,
    ("native-send", "consume"): native_consume,
    ("native-send", "latency"): native_latency,
    ("librdkafka", "produce"): librdkafka_produce,
    ("librdkafka", "consume"): librdkafka_consume,
    ("librdkafka", "latency"): librdkafka_latency,
}


def percentiles(latencies_ms: array[float]) -> dict[str, float]:
    """Returns p50, p99, p99.9, … and the maximum."""
    ordered = sorted(latencies_ms)
    if not ordered:
        return {}
    cuts = {f"p{cut:g}": ordered[min(len(ordered) - 1, int(len(ordered) * cut / 100))] for cut in CUTS}
    return cuts | {"max": ordered[-1]}


def _end_with_input() -> None:
    # Not sys.stdin.read(): its lock would keep the interpreter from ending.
    while os.read(0, KIB):
        pass
    os._exit(1)  # there is no process left to report to


def main() -> None:
    """Runs one load; the client is created and connected before the clock starts."""
    client, text = sys.argv[1:]
    order = Order(**json.loads(text))
    progress = Progress()
    steps = CLIENTS[client, order.verb](order, progress)
    next(steps)
    say({"ready": True})
    if not sys.stdin.readline():
        return
    threading.Thread(target=_end_with_input, daemon=True).start()
    teller = Teller(progress)
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
            "rss_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB,
            "percentiles_ms": percentiles(progress.latencies_ms),
        }
    )


if __name__ == "__main__":
    main()
