"""Load on a cluster by one client: a process that says how it gets on, and in the end what it did."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bench.peers.install import PeerError
from bench.peers.toolhost import ToolHost
from bench.peers.tools import (
    CONSUMER,
    PRODUCER,
    consumer_arguments,
    parse_consumer,
    parse_producer,
    producer_arguments,
)
from bench.procfs import cpu_seconds

Client = Literal["native", "java", "librdkafka"]
CLIENTS: tuple[Client, ...] = ("native", "java", "librdkafka")
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Order:
    """What a load has to do.

    Attributes:
        verb: produce or consume.
        settings: Of the client, in Java's names.
    """

    verb: Literal["produce", "consume"]
    bootstrap: str
    topic: str
    records: int
    record_bytes: int
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Done:
    """What a load did, by its own clock.

    Attributes:
        seconds: From its first record to its last acknowledgement or record; connecting is left out.
        cpu_seconds: Of the client's process.
        percentiles_ms: Of the time from sending to acknowledgement, where the client tells it.
        timeline: (seconds since the start, records so far).
    """

    records: int
    seconds: float
    cpu_seconds: float
    percentiles_ms: dict[str, float]
    timeline: list[tuple[float, int]]

    @property
    def records_per_second(self) -> float:
        """Throughput."""
        return self.records / self.seconds if self.seconds else 0.0


class Load(ABC):
    """One running load. `records_so_far` may be read while it runs."""

    records_so_far = 0

    @abstractmethod
    def finish(self, timeout_seconds: float) -> Done:
        """Waits for its end.

        Raises:
            PeerError: it failed, was too slow, or did not do all of its order.
        """


class ProcessLoad(Load):
    """A Python client: `python -m bench.kreps.load_main`, which prints a line of JSON each quarter second."""

    def __init__(self, client: Client, order: Order):
        self._order = order
        self._name = f"{client} {order.verb}r"
        command = [sys.executable, "-m", "bench.kreps.load_main", client, json.dumps(order.__dict__)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
        )
        self._timeline: list[tuple[float, int]] = []
        self._last: dict[str, object] = {}
        self._reader = threading.Thread(target=self._read, name=self._name, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "timeline" in said:
                at, records = said["timeline"]
                self._timeline.append((at, records))
                self.records_so_far = records
            else:
                self._last = said

    def finish(self, timeout_seconds: float) -> Done:
        """See Load."""
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise PeerError(f"{self._name} was not done within {timeout_seconds:.0f} s") from None
        self._reader.join(10)
        if self._process.returncode != 0 or not self._last:
            assert self._process.stderr is not None
            raise PeerError(
                f"{self._name} ended with {self._process.returncode}: {self._process.stderr.read()[-2000:]}"
            )
        done = Done(timeline=self._timeline, **self._last)  # type: ignore[arg-type]
        if done.records < self._order.records:
            raise PeerError(f"{self._name} did {done.records} of {self._order.records} records")
        return done


class JavaLoad(Load):
    """Kafka's own performance tool in a JVM that is kept warm."""

    def __init__(self, host: ToolHost, order: Order):
        self._host = host
        self._order = order
        self._began = time.monotonic()
        self._cpu_before = cpu_seconds(host.pid)
        if order.verb == "produce":
            arguments = producer_arguments(
                order.bootstrap, order.topic, order.records, order.record_bytes, order.settings
            )
            host.begin(PRODUCER, arguments)
        else:
            host.begin(CONSUMER, consumer_arguments(order.bootstrap, order.topic, order.records))

    def finish(self, timeout_seconds: float) -> Done:
        """See Load."""
        lines = self._host.finish(timeout_seconds)
        used = cpu_seconds(self._host.pid) - self._cpu_before
        if self._order.verb == "produce":
            produced = parse_producer(lines)
            rate, records = produced.records_per_second, produced.records
            percentiles = {"p50": produced.p50_ms, "p99": produced.p99_ms, "p99.9": produced.p999_ms}
        else:
            consumed = parse_consumer(lines)
            rate, records, percentiles = consumed.fetch_records_per_second, consumed.records, {}
        if records < self._order.records:
            raise PeerError(f"{self._host.name} did {records} of {self._order.records} records")
        return Done(records, records / rate, used, percentiles, [])


def begin(client: Client, order: Order, hosts: queue.SimpleQueue[ToolHost] | None = None) -> Load:
    """Starts a load; Java's needs a JVM out of `hosts`."""
    if client == "java":
        assert hosts is not None
        return JavaLoad(hosts.get_nowait(), order)
    return ProcessLoad(client, order)
