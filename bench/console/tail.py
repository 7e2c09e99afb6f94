"""Measures what a live tail costs while records arrive at a steady rate, and whether it shows that rate."""

from __future__ import annotations

import json
import re
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from http.client import HTTPResponse
from typing import NamedTuple

import pyarrow as pa

from bench.console.pages import Console
from bench.procfs import Meter
from bowstring import Producer

RECORD_BYTES = 100
_SENDS_PER_S = 10
_FIRST_S = 3.0
"""Until the producer and the page know the topic."""
_SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}


class TailCost(NamedTuple):
    """CPU of the console in percent of a core; the median of the rates that its page showed, in records/s;
    the rate at which records were sent.
    """

    console_percent: float
    shown: float
    sent: float


def tail_cost(console: Console, bootstrap: str, topic: str, rate: int, seconds: float) -> TailCost:
    """Returns what the tail of a topic costs at `rate` records/s, over `seconds`."""
    shown: list[float] = []
    path = f"/topics/{topic}/messages/tail/live"
    with _sending(bootstrap, topic, rate) as sent, console.stream(path) as answer:
        note_rates(answer, [], time.monotonic() + min(_FIRST_S, seconds))
        before, began = sent[0], time.monotonic()
        with Meter(console.pid) as meter:
            note_rates(answer, shown, began + seconds)
        true_rate = (sent[0] - before) / (time.monotonic() - began)
    percent = 100 * meter.cpu_seconds / meter.wall_seconds
    return TailCost(percent, statistics.median(shown or [0.0]), true_rate)


@contextmanager
def _sending(bootstrap: str, topic: str, rate: int) -> Iterator[list[int]]:
    """Sends records in a thread while the block runs; yields how many were sent, which grows."""
    count, stopped = [0], threading.Event()

    def send() -> None:
        rows = max(1, rate // _SENDS_PER_S)
        batch = pa.record_batch({"value": pa.array([b"x" * RECORD_BYTES] * rows, pa.binary())})
        due = time.monotonic()
        with Producer(bootstrap) as producer:
            while not stopped.wait(max(0.0, due - time.monotonic())):
                producer.send_arrow(topic, batch)
                count[0] += rows
                due += 1 / _SENDS_PER_S

    sending = threading.Thread(target=send)
    sending.start()
    try:
        yield count
    finally:
        stopped.set()
        sending.join()


def note_rates(answer: HTTPResponse, shown: list[float], until: float) -> None:
    """Appends each rate that the page shows, until a time."""
    while time.monotonic() < until and (line := answer.readline()):
        if not line.startswith(b"data: "):
            continue
        state = unescape(json.loads(line[6:]).get("tail-state", ""))
        found = re.search(r">\s*([\d.]+) ?([kMG]?)/s", state)
        if found is not None:
            shown.append(float(found[1]) * _SCALES[found[2]])
