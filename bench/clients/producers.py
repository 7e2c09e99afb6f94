"""Loops that send 100-byte values with acks=1, as each library's own examples write them."""

from __future__ import annotations

from collections.abc import Callable

VALUE = b"x" * 100
# Records of one Arrow batch handed to send_arrow.
BATCH_ROWS = 100_000
# librdkafka counts 100,000 by default; more leaves it more room than it needs.
CONFLUENT_QUEUE = {"queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 1_048_576}


def bowstring_send_arrow(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """`send_arrow` of batches that are there already."""
    import pyarrow as pa

    import bowstring

    producer = bowstring.Producer(bootstrap, acks=1)
    producer.partitions_for(topic)
    rows = min(BATCH_ROWS, records)
    batch = pa.record_batch({"value": pa.array([VALUE] * rows, pa.binary())})

    def run() -> int:
        left = records
        while left > 0:
            producer.send_arrow(topic, batch.slice(0, min(rows, left)))
            left -= rows
        producer.flush()
        return records

    return run


def bowstring_send(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """`send` for each record."""
    import bowstring

    producer = bowstring.Producer(bootstrap, acks=1)
    producer.partitions_for(topic)

    def run() -> int:
        send = producer.send
        for _ in range(records):
            send(topic, VALUE)
        producer.flush()
        return records

    return run


def confluent_produce(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """`produce` for each record, served by `poll` where the queue is full."""
    import confluent_kafka

    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "acks": "1", **CONFLUENT_QUEUE})
    producer.list_topics(topic, timeout=10)

    def run() -> int:
        produce = producer.produce
        for _ in range(records):
            while True:
                try:
                    produce(topic, VALUE)
                    break
                except BufferError:
                    producer.poll(0.1)
        return records - int(producer.flush(120))

    return run


def kafka_python_send(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """`send` for each record."""
    import kafka  # type: ignore[import-untyped]

    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, acks=1)
    producer.partitions_for(topic)

    def run() -> int:
        send = producer.send
        for _ in range(records):
            send(topic, VALUE)
        producer.flush()
        return records

    return run
