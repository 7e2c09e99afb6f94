"""The loads that are looked at, each with the processes that are sampled under it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.cases.produce import SMALL_BATCHES
from bench.flame.stacks import Recording, Stack
from bench.kreps.loads import Order
from bench.lab import PARTITIONS, RECORD_BYTES, Lab
from bench.peers.install import PeerError
from bench.peers.peer import Peer
from bench.peers.tools import PRODUCER, finish_producer, producer_arguments
from bench.procfs import cpu_seconds

ROOT = Path(__file__).resolve().parents[2]
MEMORY = {"buffer.memory": "67108864"}
TIMEOUT_SECONDS = 600.0


@dataclass(frozen=True)
class Sampled:
    """What one load showed: stacks and CPU seconds by role, and its rate."""

    stacks: dict[str, dict[Stack, int]]
    cpu_seconds: dict[str, float]
    records_per_second: float


@dataclass(frozen=True)
class Load:
    """A load by name; `run` puts it on a broker and samples."""

    name: str
    title: str
    run: Callable[[Lab, Peer, int], Sampled]


def _native(lab: Lab, peer: Peer, order: Order) -> Sampled:
    """A native client in a process of its own, sampled from its first records to its last."""
    command = [sys.executable, "-m", "bench.kreps.load_main", "native", json.dumps(order.__dict__)]
    client = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert client.stdout is not None
    try:
        client.stdout.readline()  # the first quarter second is over
        before = cpu_seconds(peer.pid)
        with Recording([peer.pid, client.pid], lab.work / "perf.data") as recording:
            lines = client.stdout.read().splitlines()
        if client.wait(TIMEOUT_SECONDS) != 0 or not lines:
            raise PeerError(f"the {order.verb}r failed")
        done = json.loads(lines[-1])
        found = recording.stacks()
        # The broker's seconds begin where the sampling does; what it did before, is in the client's alone.
        share = 1 - 0.25 / max(done["seconds"], 0.5)
        return Sampled(
            {"broker": found.get(peer.pid, {}), "client": found.get(client.pid, {})},
            {"broker": (cpu_seconds(peer.pid) - before) / share, "client": done["cpu_seconds"]},
            done["records"] / done["seconds"],
        )
    finally:
        if client.poll() is None:
            client.kill()
            client.wait()
        client.stdout.close()


def native_produce(settings: dict[str, str]) -> Callable[[Lab, Peer, int], Sampled]:
    """send_arrow with these settings."""

    def run(lab: Lab, peer: Peer, records: int) -> Sampled:
        topic = lab.new_topic(peer)
        found = _native(
            lab, peer, Order("produce", peer.bootstrap, topic, records, RECORD_BYTES, settings | MEMORY)
        )
        lab.delete_topic(peer, topic)
        return found

    return run


def native_fetch(lab: Lab, peer: Peer, records: int) -> Sampled:
    """poll_arrow of a topic that was filled by the native producer."""
    topic = lab.new_topic(peer)
    fill = Order(
        "produce", peer.bootstrap, topic, records, RECORD_BYTES, {"acks": "1", "batch.size": "16384"} | MEMORY
    )
    command = [sys.executable, "-m", "bench.kreps.load_main", "native", json.dumps(fill.__dict__)]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True, timeout=TIMEOUT_SECONDS)
    found = _native(lab, peer, Order("consume", peer.bootstrap, topic, records, RECORD_BYTES))
    lab.delete_topic(peer, topic)
    return found


def java_produce(lab: Lab, peer: Peer, records: int) -> Sampled:
    """Kafka's ProducerPerformance in a warm JVM; the broker alone is sampled."""
    (host,) = lab.hosts(1)
    topic = lab.new_topic(peer)
    arguments = producer_arguments(peer.bootstrap, topic, records // 4, RECORD_BYTES, SMALL_BATCHES)
    host.begin(PRODUCER, arguments)
    finish_producer(host, records // 4, TIMEOUT_SECONDS)
    before = cpu_seconds(peer.pid)
    with Recording([peer.pid], lab.work / "perf.data") as recording:
        recording.await_start()
        arguments = producer_arguments(peer.bootstrap, topic, records, RECORD_BYTES, SMALL_BATCHES)
        host.begin(PRODUCER, arguments)
        outcome = finish_producer(host, records, TIMEOUT_SECONDS)
    used = cpu_seconds(peer.pid) - before
    lab.delete_topic(peer, topic)
    stacks: dict[str, dict[Stack, int]] = {"broker": recording.stacks().get(peer.pid, {})}
    return Sampled(stacks, {"broker": used}, outcome.records_per_second)


SMALL = {"acks": "1", "batch.size": "8196"}
LARGE = {"acks": "1", "batch.size": "64000"}
LOADS = (
    Load(
        "produce-8k",
        f"Native producer, acks=1, batch.size 8196, {PARTITIONS} partitions",
        native_produce(SMALL),
    ),
    Load(
        "produce-64k",
        f"Native producer, acks=1, batch.size 64000, {PARTITIONS} partitions",
        native_produce(LARGE),
    ),
    Load("fetch", "Native consumer, poll_arrow over TCP", native_fetch),
    Load("produce-java", "Java's ProducerPerformance, acks=1, batch.size 8196", java_produce),
)
