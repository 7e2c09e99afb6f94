"""Measures the throughput of sending and reading, and the latency of one record."""

from __future__ import annotations

import random
import threading
import time
from array import array
from collections.abc import Callable
from typing import NamedTuple

from bowstring._native.record.decode import payload_bytes
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.producer.batches import ProduceBatch
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import TopicPartition
from bowstring.demo.threads import broker_cpu_s

RECORD_BYTES = 100
BATCH_BYTES = 65_536
RECORDS_PER_BATCH = 590  # as many as fit BATCH_BYTES
BATCHES_IN_FLIGHT = 64
POOL_RECORDS = 20_000
READ_SECONDS_MAX = 10.0
ROUND_TRIPS = 2_000
WARM_UP = 200

Progress = Callable[[float], None]


class Rate(NamedTuple):
    """Records in one direction; `size_bytes` counts keys and values only."""

    records: int
    size_bytes: int
    seconds: float
    cpu_s: float
    latencies_ms: list[float]

    @property
    def records_per_s(self) -> float:
        """Throughput."""
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def cpu_s_per_gb(self) -> float:
        """Broker CPU-seconds for 10⁹ bytes of keys and values."""
        return self.cpu_s / (self.size_bytes / 1e9) if self.size_bytes else 0.0


def push(bootstrap: str, topic: str, seconds: float, progress: Progress) -> Rate:
    """Sends 100-byte records as fast as they are acknowledged (acks=all, idempotent)."""
    letters = bytes(
        random.Random(0).choices(range(65, 91), k=(POOL_RECORDS + RECORDS_PER_BATCH) * RECORD_BYTES)
    )
    pool = memoryview(letters)
    offsets = array("q", range(0, RECORDS_PER_BATCH * RECORD_BYTES + 1, RECORD_BYTES))
    window = threading.BoundedSemaphore(BATCHES_IN_FLIGHT)
    latencies: list[float] = []
    failures: list[Exception] = []
    acknowledged = 0
    with Producer(bootstrap, client_id="bowstring-demo", batch_size=BATCH_BYTES) as producer:
        partitions = producer.partitions_for(topic)
        cpu, started = broker_cpu_s(), time.monotonic()
        sent = told = 0
        while (now := time.monotonic()) < started + seconds and not failures:
            window.acquire()
            at = (sent * RECORDS_PER_BATCH) % POOL_RECORDS * RECORD_BYTES

            def done(batch: ProduceBatch, handed: float = now) -> None:
                nonlocal acknowledged
                if batch.error is not None:
                    failures.append(batch.error)
                else:
                    acknowledged += batch.record_count
                    latencies.append((time.monotonic() - handed) * 1000)
                window.release()

            values = (pool[at : at + offsets[-1]], offsets)
            producer.send_arrow_columns(topic, partitions[sent % len(partitions)], values).add_done_callback(
                done
            )
            sent += 1
            if int(now - started) > told:
                told = int(now - started)
                progress(now - started)
        producer.flush(60)
        elapsed, used = time.monotonic() - started, broker_cpu_s() - cpu
    if failures:
        raise failures[0]
    progress(seconds)
    return Rate(acknowledged, acknowledged * RECORD_BYTES, elapsed, used, latencies)


def pull(bootstrap: str, topic: str, progress: Progress) -> Rate:
    """Reads what the topic still holds from its beginning, counting every record."""
    records = size_bytes = 0
    with Consumer(bootstrap, client_id="bowstring-demo", auto_offset_reset="earliest") as consumer:
        partitions = consumer.partitions_for(topic)
        end = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        left = {p for p in partitions if end[p] > consumer.position(p)}
        cpu, started = broker_cpu_s(), time.monotonic()
        while left and time.monotonic() < started + READ_SECONDS_MAX:
            for raw in consumer.poll_batches():
                count, size = payload_bytes(raw.data)
                records += count
                size_bytes += size
                if raw.next_offset >= end[TopicPartition(raw.topic, raw.partition)]:
                    left.discard(TopicPartition(raw.topic, raw.partition))
            progress(records)
        elapsed, used = time.monotonic() - started, broker_cpu_s() - cpu
    return Rate(records, size_bytes, elapsed, used, [])


def round_trips(bootstrap: str, topic: str, progress: Progress) -> list[float]:
    """Returns the milliseconds from sending a record until a consumer has it, one record at a time."""
    taken = []
    with (
        Producer(bootstrap, acks=1, linger_ms=0) as producer,
        Consumer(bootstrap, auto_offset_reset="latest") as consumer,
    ):
        consumer.assign(consumer.partitions_for(topic)[:1])
        consumer.seek_to_end()
        for partition in consumer.assignment():
            consumer.position(partition)
        for number in range(WARM_UP + ROUND_TRIPS):
            begin = time.perf_counter()
            producer.send(topic, b"x" * RECORD_BYTES, partition=0).result(60)
            if not consumer.poll(timeout=60):
                raise TimeoutError("an acknowledged record did not arrive within 60 s")
            if number >= WARM_UP:
                taken.append((time.perf_counter() - begin) * 1000)
            if number % 100 == 0:
                progress(number)
    return taken
