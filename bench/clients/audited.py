"""Sends and reads with an audit of counts and without, in turn in one process; prints CPU seconds as JSON.

The clients are the same both times, and only count or do not: two producers, or two consumers, differ by
several percent even if neither counts. The thread that reports runs all the time.

Arguments: bootstrap servers, a topic to send to, a filled topic to read, records a time, pairs. The output
has for each call a list of [without, with] in CPU seconds of the process.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial

import bowstring
from bench.clients.producers import VALUE
from bowstring._native.client.window_counts import WindowCounts
from bowstring.clients.audit import WINDOW_MS

TIER = "bench"
TIMEOUT_S = 30.0
POLL_RECORDS = 10_000


def main() -> None:
    """Runs the pairs; the first pair of each call warms up."""
    bootstrap, to, filled, records, pairs = sys.argv[1:]
    found: dict[str, list[tuple[float, float]]] = {}
    with (
        bowstring.Producer(bootstrap, acks=1, audit=TIER) as producer,
        bowstring.Consumer(bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        counts = producer.accumulator.counts
        read = WindowCounts(WINDOW_MS, staging=True)
        consumer.assign(consumer.partitions_for(filled))

        def count(counts_now: bool) -> None:
            producer.accumulator.counts = counts if counts_now else None
            consumer.count_into(read if counts_now else None)

        calls: dict[str, Callable[[], None]] = {
            "send": partial(_send, producer, to, int(records)),
            "poll": partial(_poll, consumer, int(records)),
            "poll_arrow": partial(_poll_arrow, consumer, int(records)),
        }
        for name, call in calls.items():
            times = [_pair(call, count, number) for number in range(int(pairs) + 1)]
            found[name] = times[1:]
    print(json.dumps(found))


def _pair(call: Callable[[], None], count: Callable[[bool], None], number: int) -> tuple[float, float]:
    """Returns the CPU seconds without and with counts; every second pair has those with counts first."""
    seconds = {}
    for counts in (True, False) if number % 2 else (False, True):
        count(counts)
        seconds[counts] = _cpu_seconds(call)
    return seconds[False], seconds[True]


def _cpu_seconds(call: Callable[[], None]) -> float:
    before = time.process_time()
    call()
    return time.process_time() - before


def _send(producer: bowstring.Producer, topic: str, records: int) -> None:
    send = producer.send
    for _ in range(records):
        send(topic, VALUE)
    producer.flush()


def _poll(consumer: bowstring.Consumer, records: int) -> None:
    consumer.seek_to_beginning()
    seen = 0
    while seen < records:
        found = len(consumer.poll(TIMEOUT_S, max_records=min(POLL_RECORDS, records - seen)))
        seen += _some(found)


def _poll_arrow(consumer: bowstring.Consumer, records: int) -> None:
    consumer.seek_to_beginning()
    seen = 0
    while seen < records:
        seen += _some(consumer.poll_arrow(TIMEOUT_S, max_records=records - seen).num_rows)


def _some(found: int) -> int:
    if not found:
        raise SystemExit(f"no records came for {TIMEOUT_S:g} s")
    return found


if __name__ == "__main__":
    main()
