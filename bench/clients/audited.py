"""Sends and reads with an audit of counts and without, in turn in one process; prints CPU seconds as JSON.

Arguments: bootstrap servers, a topic to send to, a filled topic to read, records a time, pairs. The output
has for each call a list of [without, with] in CPU seconds of the process, which include reports.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import bowstring
from bench.clients.producers import VALUE

TIER = "bench"
TIMEOUT_S = 30.0
POLL_RECORDS = 10_000


def main() -> None:
    """Runs the pairs; the first pair of each call warms up."""
    bootstrap, to, filled, records, pairs = sys.argv[1:]
    found: dict[str, list[tuple[float, float]]] = {}
    with ExitStack() as stack:
        producers = [
            stack.enter_context(bowstring.Producer(bootstrap, acks=1, audit=audit)) for audit in (None, TIER)
        ]
        consumers = [
            stack.enter_context(bowstring.Consumer(bootstrap, auto_offset_reset="earliest", audit=audit))
            for audit in (None, TIER)
        ]
        for consumer in consumers:
            consumer.assign(consumer.partitions_for(filled))
        calls: dict[str, list[Callable[[], None]]] = {
            "send": [partial(_send, each, to, int(records)) for each in producers],
            "poll": [partial(_poll, each, int(records)) for each in consumers],
            "poll_arrow": [partial(_poll_arrow, each, int(records)) for each in consumers],
        }
        for name, (without, audited) in calls.items():
            times = [_pair(without, audited, number) for number in range(int(pairs) + 1)]
            found[name] = times[1:]
    print(json.dumps(found))


def _pair(without: Callable[[], None], audited: Callable[[], None], number: int) -> tuple[float, float]:
    """Returns the CPU seconds of both; every second pair has the audited one first."""
    if number % 2:
        last, first = _cpu_seconds(audited), _cpu_seconds(without)
        return first, last
    return _cpu_seconds(without), _cpu_seconds(audited)


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
