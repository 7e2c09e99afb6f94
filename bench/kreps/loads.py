"""Runs load on a cluster by one client: a process that reports progress and at the end its result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from bench.peers.install import PeerError
from bench.peers.toolhost import ToolHost
from bench.peers.tools import (
    CONSUMER,
    PROBE,
    PRODUCER,
    consumer_arguments,
    parse_consumer,
    parse_probe,
    parse_producer,
    parse_progress,
    probe_arguments,
    producer_arguments,
)
from bench.procfs import cpu_seconds, memory

# "wire" is not a real client, but simulates many of them.
Client = Literal["native", "native-send", "java", "librdkafka", "wire"]
CLIENTS: tuple[Client, ...] = ("native", "native-send", "java", "librdkafka")
ROOT = Path(__file__).resolve().parents[2]
READY_SECONDS = 240.0
# Timeout of a consumer without records; the first one of a new cluster waits for the offsets topic.
CONSUMER_TIMEOUT_MS = 60_000
TELL_SECONDS = 0.25


@dataclass(frozen=True)
class Order:
    """The order of a load.

    Attributes:
        verb: produce, consume, or latency: send one record, wait until it is read, and the next.
        settings: Of the client, in Java's names.
        warm_up: Records sent before `records`; for latency.
    """

    verb: Literal["produce", "consume", "latency"]
    bootstrap: str
    topic: str
    records: int
    record_bytes: int
    settings: dict[str, str] = field(default_factory=dict)
    warm_up: int = 0


class Progress:
    """Records acknowledged or read so far, and latencies of acknowledgements."""

    def __init__(self) -> None:
        self.records = 0
        self.latencies_ms = array("d")
        self.errors: list[BaseException] = []


@dataclass(frozen=True)
class Done:
    """The result of a load, by its own clock.

    Attributes:
        seconds: From its first record to its last acknowledgement or record, without connecting.
        cpu_seconds: Of the client's process.
        rss_peak_bytes: Peak resident memory of the client's process.
        percentiles_ms: Of the time from sending to acknowledgement, if the client reports it; for a latency
            load from sending to having read.
        timeline: (seconds since the start, records so far).
    """

    records: int
    seconds: float
    cpu_seconds: float
    rss_peak_bytes: int
    percentiles_ms: dict[str, float]
    timeline: list[tuple[float, int]]

    @property
    def records_per_second(self) -> float:
        """Throughput."""
        return self.records / self.seconds if self.seconds else 0.0


class Load(ABC):
    """One load: created, then ready, then started. `records_so_far` and `latency_ms` (None if the client does
    not report it) may be read while it runs.
    """

    records_so_far = 0
    latency_ms: float | None = None

    def await_ready(self) -> None:
        """Returns when the client is connected and ready to start.

        Raises:
            PeerError: it failed.
        """
        return

    @abstractmethod
    def go(self) -> None:
        """Starts it, so that several loads start together however long each took to connect."""

    @abstractmethod
    def finish(self, timeout_seconds: float) -> Done:
        """Waits for its end.

        Raises:
            PeerError: it failed, was too slow, or did not complete its order.
        """

    @abstractmethod
    def kill(self) -> None:
        """Ends it at once, if it runs."""


class ProcessLoad(Load):
    """A Python client: `python -m bench.kreps.load_main`, which prints a line of JSON each quarter second."""

    def __init__(self, client: Client, order: Order):
        self._order = order
        self._name = f"{client} {order.verb} load"
        self._ready = threading.Event()
        self._timeline: list[tuple[float, int]] = []
        self._last: dict[str, object] = {}
        self._errors: list[str] = []
        command = [sys.executable, "-m", "bench.kreps.load_main", client, json.dumps(asdict(order))]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
            # Ctrl-C is for the bench, which ends its loads itself.
            start_new_session=True,
        )
        self._readers = [
            threading.Thread(target=each, daemon=True) for each in (self._read, self._read_errors)
        ]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said = json.loads(line)
            if "ready" in said:
                self._ready.set()
            elif "timeline" in said:
                at, records = said["timeline"]
                self._timeline.append((at, records))
                self.records_so_far = records
                self.latency_ms = said["latency_ms"]
            else:
                self._last = said
        self._ready.set()

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self._errors.append(self.process.stderr.read())

    def await_ready(self) -> None:
        """See Load."""
        if not self._ready.wait(READY_SECONDS):
            self.kill()
            raise PeerError(f"{self._name} was not connected within {READY_SECONDS:.0f} s")

    def go(self) -> None:
        """See Load."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return  # it has ended; finish() reports why

    def finish(self, timeout_seconds: float) -> Done:
        """See Load."""
        try:
            self.process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise PeerError(f"{self._name} was not done within {timeout_seconds:.0f} s") from None
        for reader in self._readers:
            reader.join(10)
        if self.process.returncode != 0 or not self._last:
            said = "".join(self._errors)[-2000:]
            raise PeerError(f"{self._name} ended with {self.process.returncode}: {said}")
        done = Done(timeline=self._timeline, **self._last)  # type: ignore[arg-type]
        if done.records < self._order.records:
            raise PeerError(f"{self._name} did {done.records} of {self._order.records} records")
        return done

    def kill(self) -> None:
        """See Load."""
        self.process.kill()
        self.process.wait()


class JavaLoad(Load):
    """Kafka's own performance tool in a warm JVM.

    Args:
        host: the JVM.
        give_back: called when the load has ended and the JVM is free again.
    """

    def __init__(self, host: ToolHost, order: Order, give_back: Callable[[], None]):
        self._host = host
        self._order = order
        self._give_back = give_back
        self._ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._rss_peak_bytes = 0
        self._timeline: list[tuple[float, int]] = []

    def go(self) -> None:
        """See Load."""
        order = self._order
        self._began = time.monotonic()
        self._cpu_before = cpu_seconds(self._host.pid)
        self._host.heard = self._heard
        self._sampler.start()
        if order.verb == "produce":
            arguments = producer_arguments(
                order.bootstrap, order.topic, order.records, order.record_bytes, order.settings, 250
            )
            self._host.begin(PRODUCER, arguments)
        elif order.verb == "consume":
            arguments = consumer_arguments(order.bootstrap, order.topic, order.records, CONSUMER_TIMEOUT_MS)
            self._host.begin(CONSUMER, arguments)
        else:
            settings = (order.warm_up, order.records, "1", order.record_bytes)
            self._host.begin(PROBE, probe_arguments(order.bootstrap, order.topic, *settings))

    def finish(self, timeout_seconds: float) -> Done:
        """See Load."""
        try:
            lines = self._host.finish(timeout_seconds)
            used = cpu_seconds(self._host.pid) - self._cpu_before
        finally:
            self._ended.set()
            self._give_back()
        records, rate, percentiles = self._parse(lines)
        if records < self._order.records:
            raise PeerError(f"{self._host.name} did {records} of {self._order.records} records")
        return Done(records, records / rate, used, self._rss_peak_bytes, percentiles, self._timeline)

    def kill(self) -> None:
        """Ends it with its JVM."""
        self._ended.set()
        self._host.close()

    def _parse(self, lines: list[str]) -> tuple[int, float, dict[str, float]]:
        if self._order.verb == "produce":
            produced = parse_producer(lines)
            cuts = {"p50": produced.p50_ms, "p99": produced.p99_ms, "p99.9": produced.p999_ms}
            return produced.records, produced.records_per_second, cuts
        if self._order.verb == "consume":
            consumed = parse_consumer(lines)
            return consumed.records, consumed.fetch_records_per_second, {}
        probed = parse_probe(lines)
        cuts = {"p50": probed.p50_us, "p99": probed.p99_us, "p99.9": probed.p999_us, "max": probed.max_us}
        return probed.records, 1e6 / probed.mean_us, {name: us / 1e3 for name, us in cuts.items()}

    def _heard(self, line: str) -> None:
        if found := parse_progress(line):
            self.records_so_far += found[0]
            self.latency_ms = found[1]
            self._timeline.append((time.monotonic() - self._began, self.records_so_far))

    def _sample(self) -> None:
        while not self._ended.wait(TELL_SECONDS):
            try:
                self._rss_peak_bytes = max(self._rss_peak_bytes, memory(self._host.pid).rss_bytes)
            except (OSError, KeyError):
                return  # the JVM ended; the waiting thread reports that
