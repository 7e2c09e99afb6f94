"""Reads every partition of a topic from its beginning and counts, as each library's examples do."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING

from bench.clients.settings import Settings

if TYPE_CHECKING:
    from bowstring.clients.choices import Layout

TIMEOUT_S = 30.0
PACED_MB_PER_SECOND = 200
CONFLUENT_BATCH = 10_000
# By default librdkafka stops fetching when 100,000 messages (or 64 MiB) wait, and checks again after a
# second.
CONFLUENT_TUNED: Settings = {
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 1_048_576,
    "fetch.message.max.bytes": 4_194_304,
}


def bowstring_poll_arrow(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """`poll_arrow` with its defaults: every column, keys and values copied once."""
    return _poll_arrow(bootstrap, topic, records, "binary")


def bowstring_poll_arrow_views(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """`poll_arrow` whose keys and values point into the fetched bytes."""
    return _poll_arrow(bootstrap, topic, records, "binary_view")


def _poll_arrow(bootstrap: str, topic: str, records: int, layout: Layout) -> Callable[[], int]:
    import bowstring

    consumer = bowstring.Consumer(bootstrap, auto_offset_reset="earliest")
    partitions = consumer.partitions_for(topic)
    consumer.arrow_schema(layout=layout)

    def run() -> int:
        consumer.assign(partitions)
        seen = 0
        while seen < records:
            rows = consumer.poll_arrow(layout=layout, timeout=TIMEOUT_S).num_rows
            if not rows:
                break
            seen += rows
        return seen

    return run


def bowstring_paced(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """`poll_arrow` views at PACED_MB_PER_SECOND of keys and values, as a consumer that does something with
    them.
    """
    import bowstring

    consumer = bowstring.Consumer(bootstrap, auto_offset_reset="earliest")
    partitions = consumer.partitions_for(topic)

    def run() -> int:
        consumer.assign(partitions)
        seen = size_bytes = 0
        started = time.monotonic()
        while seen < records:
            batch = consumer.poll_arrow(layout="binary_view", timeout=TIMEOUT_S)
            if not batch.num_rows:
                break
            seen += batch.num_rows
            size_bytes += len(batch.column("value")[0].as_py()) * batch.num_rows  # all records have one size
            time.sleep(max(0.0, started + size_bytes / (PACED_MB_PER_SECOND * 1e6) - time.monotonic()))
        return seen

    return run


def bowstring_poll(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """`poll` with its defaults: an object for each record, 500 at once."""
    return _poll(bootstrap, topic, records, None)


def bowstring_poll_10000(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """`poll` with as many records at once as requested of confluent-kafka's `consume`."""
    return _poll(bootstrap, topic, records, CONFLUENT_BATCH)


def _poll(bootstrap: str, topic: str, records: int, at_once: int | None) -> Callable[[], int]:
    import bowstring

    consumer = bowstring.Consumer(bootstrap, auto_offset_reset="earliest")
    partitions = consumer.partitions_for(topic)

    def run() -> int:
        consumer.assign(partitions)
        seen = 0
        while seen < records:
            found = len(consumer.poll(TIMEOUT_S, max_records=at_once))
            if not found:
                break
            seen += found
        return seen

    return run


def bowstring_iterate(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """`for record in consumer`."""
    import bowstring

    consumer = bowstring.Consumer(bootstrap, auto_offset_reset="earliest")
    partitions = consumer.partitions_for(topic)

    def run() -> int:
        consumer.assign(partitions)
        return sum(1 for _ in islice(consumer, records))

    return run


def bowstring_local(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """LocalReader with its defaults, one partition after the other."""
    return _local(bootstrap, topic, 1, "binary")


def bowstring_local_two_threads(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """The same in two threads."""
    return _local(bootstrap, topic, 2, "binary")


def bowstring_local_views(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """LocalReader whose keys and values point into the mapped files, in two threads."""
    return _local(bootstrap, topic, 2, "binary_view")


def _local(bootstrap: str, topic: str, threads: int, layout: Layout) -> Callable[[], int]:
    import bowstring
    from bowstring.clients.consumer.local_reader import LocalReader

    with bowstring.Consumer(bootstrap) as consumer:
        ends = consumer.end_offsets(consumer.partitions_for(topic))
    readers = [
        LocalReader(bootstrap, topic=topic, partition=each.partition, start=0, end=end, layout=layout)
        for each, end in ends.items()
    ]

    def count(reader: LocalReader) -> int:
        return sum(batch.num_rows for batch in reader)

    def run() -> int:
        if threads == 1:
            return sum(map(count, readers))
        with ThreadPoolExecutor(threads) as pool:
            return sum(pool.map(count, readers))

    return run


def confluent_consume(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """`consume` of 10,000 messages at once, its fastest method, with its other defaults."""
    return _confluent(bootstrap, topic, records, {})


def confluent_consume_tuned(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """The same with the settings that make it read ahead."""
    return _confluent(bootstrap, topic, records, CONFLUENT_TUNED)


def _confluent(bootstrap: str, topic: str, records: int, settings: Settings) -> Callable[[], int]:
    import confluent_kafka

    group = {"group.id": f"bench-{topic}", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, **group, **settings})
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions

    def run() -> int:
        consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in partitions])
        seen = 0
        while seen < records:
            messages = consumer.consume(CONFLUENT_BATCH, TIMEOUT_S)
            if not messages:
                break
            seen += len(messages)
        return seen

    return run
