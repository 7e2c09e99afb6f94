"""Defines the loads, each with the processes that are sampled under it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.cases.produce import SMALL_BATCHES
from bench.flame.stacks import Recording, Stack
from bench.kreps.loads import Order
from bench.lab import PARTITIONS, RECORD_BYTES, Lab
from bench.peers.install import PeerError
from bench.peers.peer import Peer
from bench.peers.tools import PRODUCER, finish_producer, producer_arguments
from bench.procfs import cpu_seconds
from bowstring import Admin, Cluster, NewTopic

ROOT = Path(__file__).resolve().parents[2]
MEMORY = {"buffer.memory": "67108864"}
TIMEOUT_SECONDS = 600.0


@dataclass(frozen=True)
class Sampled:
    """Samples of one load: stacks and CPU seconds by role, and its rate."""

    stacks: dict[str, dict[Stack, int]]
    cpu_seconds: dict[str, float]
    records_per_second: float


@dataclass(frozen=True)
class Load:
    """A load by name; `run` puts it on a broker and samples."""

    name: str
    title: str
    run: Callable[[Lab, Peer, int], Sampled]


@contextmanager
def _client(order: Order) -> Iterator[subprocess.Popen[str]]:
    """Starts a native client in its own process, connected; it begins on "go"."""
    command = [sys.executable, "-m", "bench.kreps.load_main", "native", json.dumps(asdict(order))]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as client:
        try:
            assert client.stdout is not None
            if not client.stdout.readline():
                raise PeerError(f"the {order.verb}r did not connect")
            yield client
        finally:
            client.kill()


def _finish(client: subprocess.Popen[str]) -> dict[str, float]:
    """Starts the load and waits for its result."""
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write("go\n")
    client.stdin.flush()
    lines = list(client.stdout)
    if client.wait(TIMEOUT_SECONDS) != 0 or not lines:
        raise PeerError("the client failed")
    done: dict[str, float] = json.loads(lines[-1])
    return done


def _native(lab: Lab, peer: Peer, order: Order) -> Sampled:
    """Runs an order while client and broker are sampled."""
    with _client(order) as client:
        before = cpu_seconds(peer.pid)
        with Recording([peer.pid, client.pid], lab.work / "perf.data") as recording:
            recording.await_start()
            done = _finish(client)
        used = cpu_seconds(peer.pid) - before
    found = recording.stacks()
    return Sampled(
        {"broker": found.get(peer.pid, {}), "client": found.get(client.pid, {})},
        {"broker": used, "client": done["cpu_seconds"]},
        done["records"] / done["seconds"],
    )


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
    """Runs poll_arrow on a topic that the native producer filled."""
    topic = lab.new_topic(peer)
    fill = Order(
        "produce", peer.bootstrap, topic, records, RECORD_BYTES, {"acks": "1", "batch.size": "16384"} | MEMORY
    )
    with _client(fill) as client:
        _finish(client)
    found = _native(lab, peer, Order("consume", peer.bootstrap, topic, records, RECORD_BYTES))
    lab.delete_topic(peer, topic)
    return found


def java_produce(lab: Lab, peer: Peer, records: int) -> Sampled:
    """Runs Kafka's ProducerPerformance in a warm JVM; only the broker is sampled."""
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


def replicated_produce(lab: Lab, peer: Peer, records: int) -> Sampled:
    """Runs send_arrow on three brokers, of which one leads; samples the leader and a follower."""
    config = {"bowstring.durability": "os"}
    with (
        Cluster(3, data_dir=lab.work / "cluster", config=config, linked=False) as cluster,
        Admin(cluster.bootstrap_servers) as admin,
    ):
        topic = "replicated"
        admin.create_topics([NewTopic(topic, assignments={index: (1, 2, 3) for index in range(PARTITIONS)})])
        pids = {"leader": cluster.pid(1), "follower": cluster.pid(2)}
        with _client(
            Order("produce", cluster.address(1), topic, records, RECORD_BYTES, SMALL | MEMORY)
        ) as client:
            before = {role: cpu_seconds(pid) for role, pid in pids.items()}
            with Recording([*pids.values()], lab.work / "perf.data") as recording:
                recording.await_start()
                done = _finish(client)
            used = {role: cpu_seconds(pid) - before[role] for role, pid in pids.items()}
        found = recording.stacks()
    stacks: dict[str, dict[Stack, int]] = {role: found.get(pid, {}) for role, pid in pids.items()}
    return Sampled(stacks, used, done["records"] / done["seconds"])


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
    Load("replicated", "Native producer, acks=1, batch.size 8196, three replicas", replicated_produce),
    Load("produce-java", "Java's ProducerPerformance, acks=1, batch.size 8196", java_produce),
)
