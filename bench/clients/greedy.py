"""Produces or reads without a pause until the process is ended, under a client id of its own."""

from __future__ import annotations

from collections.abc import Callable

CLIENT_ID = "greedy"
_BATCH_ROWS = 40_000
_VALUE = b"x" * 100
_TIMEOUT_S = 60.0


def bowstring_greedy_produce(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """`send_arrow` as quickly as memory becomes free; prints a line after the first one."""
    import pyarrow as pa

    import bowstring

    producer = bowstring.Producer(bootstrap, client_id=CLIENT_ID, acks=1)
    producer.partitions_for(topic)
    batch = pa.record_batch({"value": pa.array([_VALUE] * _BATCH_ROWS, pa.binary())})

    def run() -> int:
        producer.send_arrow(topic, batch.slice(0, 1)).result()
        print("begun", flush=True)
        while True:
            producer.send_arrow(topic, batch)

    return run


def bowstring_greedy_consume(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """`poll_arrow` views of a topic of `records` records, again and again; prints a line after the first."""
    import bowstring

    consumer = bowstring.Consumer(bootstrap, client_id=CLIENT_ID)
    consumer.assign(consumer.partitions_for(topic))

    def run() -> int:
        begun = False
        while True:
            consumer.seek_to_beginning()
            seen = 0
            while seen < records:
                seen += consumer.poll_arrow(layout="binary_view", timeout=_TIMEOUT_S).num_rows
                if not begun:
                    begun = True
                    print("begun", flush=True)

    return run
