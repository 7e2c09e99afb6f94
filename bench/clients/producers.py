"""Sends 100-byte values with acks=1 in loops, as each library's own examples do."""

from __future__ import annotations

from collections.abc import Callable

from bench.clients.settings import Settings

VALUE = b"x" * 100
# Records of one Arrow batch for send_arrow.
BATCH_ROWS = 100_000
# By default librdkafka's queue holds 100,000 messages. Larger batches or a longer linger show no gain.
CONFLUENT_TUNED: Settings = {
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 1_048_576,
}


def bowstring_send_arrow(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """`send_arrow` of prepared batches."""
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
    """`produce` for each record, with `poll` when the queue is full, and its other defaults."""
    return _confluent(bootstrap, topic, records, {})


def confluent_produce_tuned(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """The same with a larger queue."""
    return _confluent(bootstrap, topic, records, CONFLUENT_TUNED)


def _confluent(bootstrap: str, topic: str, records: int, settings: Settings) -> Callable[[], int]:
    import confluent_kafka

    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "acks": "1", **settings})
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
    import kafka

    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, acks=1)
    producer.partitions_for(topic)

    def run() -> int:
        send = producer.send
        for _ in range(records):
            send(topic, VALUE)
        producer.flush()
        return records

    return run
