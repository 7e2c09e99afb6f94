"""Measures a consumer that catches up from the disk, and its effect on a producer beside it."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import threading
import time

from bench.cases.produce import LARGE_BATCHES, MIB, limit_seconds
from bench.clients.consumers import PACED_MB_PER_SECOND
from bench.lab import Lab, wait_until_calm
from bench.limits import catalogue
from bench.peers.install import PeerError
from bench.peers.peer import Peer
from bench.peers.tools import (
    CONSUMER,
    PRODUCER,
    consumer_arguments,
    finish_consumer,
    finish_producer,
    producer_arguments,
)
from bench.procfs import Meter
from bench.results import CaseResult
from bowstring._native.record.encode import encode_batch

RECORD_BYTES = 1024
PRODUCES_PER_SECOND = 500
PARTITIONS = 1


def catch_up(lab: Lab, name: str, title: str) -> CaseResult:
    """Measures a steady producer's p99: alone, beside a consumer of cached records, beside one of evicted
    records, and beside one that reads evicted records at PACED_MB_PER_SECOND.
    """
    facts = {
        "catching up": f"{lab.size.cold_records:,} records of {RECORD_BYTES} B from {PARTITIONS} partition",
        "producer": f"{PRODUCES_PER_SECOND} requests/s of {RECORD_BYTES} B, acks=all, a blocking socket, "
        "real-time priority where allowed",
        "consumer": "ConsumerPerformance in a warm JVM, its default settings",
        "paced consumer": f"bowstring's consumer in a process of its own, {PACED_MB_PER_SECOND} MB/s",
        "evicted": "fsync, then posix_fadvise(DONTNEED) of the topic's files",
    }
    case = CaseResult(name, title, facts)
    limits = catalogue.fetch(catalogue.cached)
    return lab.alternate(case, lambda peer: _measure(lab, lab.peer(peer)), limits=limits)


class _SteadyProducer:
    """Sends at a fixed rate on its own thread, and records the latency of each answer."""

    def __init__(self, peer: Peer, topic: str) -> None:
        self._peer, self._topic = peer, topic
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.times_ms: list[float] = []
        self.failure: Exception | None = None

    def __enter__(self) -> _SteadyProducer:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        _take_precedence()
        batch = encode_batch([(None, bytes(RECORD_BYTES), time.time_ns() // 1_000_000, ())])
        try:
            with self._peer.connect() as connection:
                due = time.perf_counter()
                while not self._ended.is_set():
                    began = time.perf_counter()
                    connection.produce(self._topic, batch)
                    self.times_ms.append((time.perf_counter() - began) * 1e3)
                    due = max(due + 1 / PRODUCES_PER_SECOND, time.perf_counter())
                    time.sleep(max(0.0, due - time.perf_counter()))
        except Exception as error:  # raised by the thread that waits for this one
            self.failure = error

    @property
    def p99_ms(self) -> float:
        """p99 of everything sent so far."""
        return statistics.quantiles(self.times_ms, n=100)[98]


def _take_precedence() -> None:
    """Gives the calling thread real-time priority, as if it had its own machine.

    Otherwise a small machine mostly measures how long the consumer's JVM keeps this thread from a processor.
    Without permission (CAP_SYS_NICE) it stays an ordinary thread.
    """
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(threading.get_native_id(), os.SCHED_FIFO, os.sched_param(1))


def _measure(lab: Lab, peer: Peer) -> dict[str, float]:
    records = lab.size.cold_records
    old, new = lab.new_topic(peer, PARTITIONS), lab.new_topic(peer, 1)
    (host,) = lab.hosts(1)
    arguments = producer_arguments(peer.bootstrap, old, records, RECORD_BYTES, LARGE_BATCHES)
    host.begin(PRODUCER, arguments)
    finish_producer(host, records, limit_seconds(records) * 4)
    wait_until_calm()
    with _SteadyProducer(peer, new) as quiet:
        time.sleep(lab.size.cold_quiet_seconds)
    cached = _beside_consumer(lab, peer, old, new)
    evict(peer, old)
    cold = _beside_consumer(lab, peer, old, new)
    evict(peer, old)
    paced_p99_ms = _beside_paced_consumer(lab, peer, old, new)
    lab.delete_topic(peer, old)
    lab.delete_topic(peer, new)
    return {
        "quiet_p99_ms": quiet.p99_ms,
        "cached_p99_ms": cached["p99_ms"],
        "cold_p99_ms": cold["p99_ms"],
        "paced_p99_ms": paced_p99_ms,
        "cached_p99_over_quiet": cached["p99_ms"] / quiet.p99_ms,
        "cold_p99_over_quiet": cold["p99_ms"] / quiet.p99_ms,
        "paced_p99_over_quiet": paced_p99_ms / quiet.p99_ms,
        "cached_mib_per_second": cached["mib_per_second"],
        "cold_mib_per_second": cold["mib_per_second"],
        "cached_cpu_seconds_per_gb": cached["cpu_seconds_per_gb"],
        "cold_cpu_seconds_per_gb": cold["cpu_seconds_per_gb"],
        "stolen_seconds": cached["stolen_seconds"] + cold["stolen_seconds"],
    }


def _beside_consumer(lab: Lab, peer: Peer, old: str, new: str) -> dict[str, float]:
    records = lab.size.cold_records
    (host,) = lab.hosts(1)
    with _SteadyProducer(peer, new) as producer, Meter(peer.pid) as meter:
        host.begin(CONSUMER, consumer_arguments(peer.bootstrap, old, records))
        outcome = finish_consumer(host, records, limit_seconds(records) * 4)
    payload = outcome.records * RECORD_BYTES
    return {
        "p99_ms": producer.p99_ms,
        "mib_per_second": outcome.fetch_records_per_second * RECORD_BYTES / MIB,
        "cpu_seconds_per_gb": meter.cpu_seconds / (payload / 1e9),
        "stolen_seconds": meter.stolen_seconds,
    }


def _beside_paced_consumer(lab: Lab, peer: Peer, old: str, new: str) -> float:
    client = ["bowstring-paced", peer.bootstrap, old, str(lab.size.cold_records)]
    with _SteadyProducer(peer, new) as producer:
        ended = subprocess.run(
            [sys.executable, "-m", "bench.clients", *client],
            capture_output=True,
            text=True,
            timeout=limit_seconds(lab.size.cold_records) * 4,
        )
    if ended.returncode != 0:
        raise PeerError(f"the paced consumer ended with {ended.returncode}: {ended.stderr[-2000:]}")
    return producer.p99_ms


def evict(peer: Peer, topic: str) -> None:
    """Drops a topic's files from the page cache."""
    for directory in peer.data.glob(f"{topic}-*"):
        for path in directory.iterdir():
            fd = os.open(path, os.O_RDONLY)
            try:
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)
