"""Runs one of the headline's producers as a process: `python -m bowstring.demo.headline_producer ORDER`.

It connects, prints that it is ready, waits for a line on its standard input, and sends records to one
partition after another as columns, which native code cuts into batches. Its lines are JSON: {"records":
acknowledged so far}, and at the end headline.ProducerRun.
"""

from __future__ import annotations

import json
import random
import sys
import time
from array import array
from collections import deque
from typing import Any, NamedTuple

from bowstring.clients.producer.batches import BatchesFuture
from bowstring.clients.producer.producer import Producer

# Records sent in one call: a few dozen batches of 8 KB.
RECORDS_AT_ONCE = 4_000
TELL_S = 0.1


class Acknowledged:
    """Counts acknowledged records, in the order in which they were sent."""

    def __init__(self) -> None:
        self.records = 0
        self._waiting: deque[BatchesFuture] = deque()

    def add(self, sent: BatchesFuture) -> None:
        """Adds a sent batch."""
        self._waiting.append(sent)

    def count(self, *, wait: bool = False) -> None:
        """Counts the records acknowledged by now, or waits for all. Raises delivery errors."""
        while self._waiting and (wait or self._waiting[0].batches[-1].done):
            sent = self._waiting.popleft()
            sent.result()
            self.records += sent.record_count


def say(**what: Any) -> None:
    """Prints one line."""
    print(json.dumps(what), flush=True)


class Order(NamedTuple):
    """A producer's plan, from `first_partition` on; fewer records if they take longer than `seconds_max`."""

    bootstrap: str
    topic: str
    first_partition: int
    records: int
    record_bytes: int
    seconds_max: float
    settings: dict[str, str]


def produce(producer: Producer, order: Order, acknowledged: Acknowledged) -> None:
    """Sends, and returns when everything is acknowledged."""
    letters = bytes(random.Random(0).choices(range(65, 91), k=RECORDS_AT_ONCE * order.record_bytes))
    values = memoryview(letters)
    offsets = memoryview(array("q", range(0, len(letters) + 1, order.record_bytes)))
    partitions = producer.partitions_for(order.topic)
    began = told = time.monotonic()
    sent, turn = 0, order.first_partition
    while sent < order.records and (now := time.monotonic()) < began + order.seconds_max:
        count = min(RECORDS_AT_ONCE, order.records - sent)
        columns = values[: count * order.record_bytes], offsets[: count + 1]
        acknowledged.add(
            producer.send_arrow_columns(order.topic, partitions[turn % len(partitions)], columns)
        )
        sent += count
        turn += 1
        acknowledged.count()
        if now > told + TELL_S:
            told = now
            say(records=acknowledged.records)
    producer.flush()
    acknowledged.count(wait=True)


def main() -> None:
    """Runs the order given as JSON; exits with status 1 and a traceback on failure."""
    order = Order(**json.loads(sys.argv[1]))
    acknowledged = Acknowledged()
    with Producer({"bootstrap.servers": order.bootstrap, **order.settings}) as producer:
        producer.find_topic(order.topic)
        say(records=0)
        if not sys.stdin.readline():
            return  # the parent process has ended
        began, cpu = time.monotonic(), time.process_time()
        produce(producer, order, acknowledged)
        seconds, used = time.monotonic() - began, time.process_time() - cpu
    say(records=acknowledged.records, seconds=seconds, cpu_s=used)


if __name__ == "__main__":
    main()
