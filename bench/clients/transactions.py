"""Commits transactions of one record to each partition of a topic, as each library's own examples do.

The number of records counts transactions.
"""

from __future__ import annotations

from collections.abc import Callable

VALUE = b"x" * 100
TIMEOUT_S = 60.0


def bowstring_transactions(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """`with producer.transaction()`."""
    import bowstring

    producer = bowstring.Producer(bootstrap, transactional_id=f"bowstring-{topic}")
    partitions = producer.partitions_for(topic)

    def run() -> int:
        for _ in range(records):
            with producer.transaction():
                for partition in partitions:
                    producer.send(topic, VALUE, partition=partition)
        return records

    return run


def confluent_transactions(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """`begin_transaction` to `commit_transaction`, with its defaults."""
    import confluent_kafka

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"confluent-{topic}"}
    )
    found = producer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
    producer.init_transactions(TIMEOUT_S)

    def run() -> int:
        for _ in range(records):
            producer.begin_transaction()
            for partition in found:
                producer.produce(topic, VALUE, partition=partition)
            producer.commit_transaction(TIMEOUT_S)
        return records

    return run
