"""Measures what an unused broker costs: start, idle memory and CPU, and idle partitions."""

from __future__ import annotations

import subprocess
import sys
import time

from bench.lab import Lab
from bench.peers.bowstring import Bowstring
from bench.peers.install import PeerError
from bench.peers.peer import HOST, Peer
from bench.peers.wire import wait_for_partitions
from bench.procfs import Meter, memory, thread_count
from bench.results import CaseResult

KIB = 1024
MIB = 1 << 20
# Kafka's controller accepts at most 10,000 records in one operation, so topics are created by the hundred.
TOPICS_PER_REQUEST = 100
READY_TIMEOUT_SECONDS = 300.0


def start(lab: Lab, name: str, title: str) -> CaseResult:
    """Measures a start on an empty, formatted directory, and on the same directory after a clean stop.

    Bowstring's start is measured in commit mode, too, which is its default, and inside a Python program.
    """
    facts = {
        "measured": "fork to the first ApiVersions answer, a new connection tried every 1 ms",
        "embedded": "`import bowstring` to the end of `Broker().start()`, in a new Python process",
    }

    def measure(peer_name: str) -> dict[str, float]:
        with lab.new_peer(peer_name) as peer:
            first_seconds = peer.start_seconds
            peer.stop()
            peer.start()
            again_seconds = peer.start_seconds
            peer.stop()
            values = {
                "start_seconds": first_seconds,
                "restart_seconds": again_seconds,
                "stop_seconds": peer.stop_seconds,
            }
        another = lab.new_peer(peer_name)
        if isinstance(another, Bowstring):
            another.durability = "commit"  # the default of `bowstring serve`
            with another:
                values["commit_start_seconds"] = another.start_seconds
            values["embedded_start_seconds"] = _embedded_start_seconds()
        return values

    return lab.alternate(CaseResult(name, title, facts), measure, lab.size.starts)


def _embedded_start_seconds() -> float:
    ran = subprocess.run(
        [sys.executable, "-m", "bench.clients.embedded_start"],
        capture_output=True,
        text=True,
        check=False,
        timeout=READY_TIMEOUT_SECONDS,
    )
    if ran.returncode:
        raise PeerError(f"the embedded broker ended with {ran.returncode}: {ran.stderr[-2000:]}")
    return float(ran.stdout)


def idle(lab: Lab, name: str, title: str) -> CaseResult:
    """Measures memory and CPU of a fresh broker without topics or connections."""
    size = lab.size
    facts = {"measured": f"{size.idle_seconds:g} s, beginning {size.settle_seconds:g} s after the start"}

    def measure(peer_name: str) -> dict[str, float]:
        with lab.new_peer(peer_name) as peer:
            time.sleep(size.settle_seconds)
            with Meter(peer.pid, sample_ms=500) as meter:
                time.sleep(size.idle_seconds)
            now = memory(peer.pid)
            return {
                "rss_mib": now.rss_bytes / MIB,
                "rss_anon_mib": now.rss_anon_bytes / MIB,
                "cpu_percent": 100 * meter.cpu_seconds / meter.wall_seconds,
                "threads": float(thread_count(peer.pid)),
            }

    return lab.alternate(CaseResult(name, title, facts), measure, rounds=1)


def many_partitions(lab: Lab, name: str, title: str) -> CaseResult:
    """Creates many topics, restarts, and measures what each idle partition costs."""
    size = lab.size
    facts = {
        "topics": f"{size.topics:,}",
        "partitions per topic": str(size.partitions_per_topic),
        "create": f"{TOPICS_PER_REQUEST} topics a request, until every partition answers ListOffsets",
        "restart": "clean stop; fork until every partition answers ListOffsets",
        "memory": "resident memory after restart, less that of the same broker without topics, by partition",
    }
    case = CaseResult(name, title, facts)
    return lab.alternate(case, lambda peer: _measure_partitions(lab, lab.new_peer(peer)), rounds=1)


def _measure_partitions(lab: Lab, peer: Peer) -> dict[str, float]:
    size = lab.size
    partitions = size.topics * size.partitions_per_topic
    with peer:
        # The empty broker is restarted too, so that both memory figures follow the same path.
        peer.stop()
        peer.start()
        time.sleep(size.settle_seconds)
        empty = memory(peer.pid)
        create_seconds = _create(peer, size.topics, size.partitions_per_topic)
        created = memory(peer.pid)
        peer.stop()
        stop_seconds = peer.stop_seconds
        began = time.monotonic()
        peer.start()
        wait_for_partitions(HOST, peer.port, partitions, began + READY_TIMEOUT_SECONDS)
        restart_seconds = time.monotonic() - began
        time.sleep(size.settle_seconds)
        full = memory(peer.pid)
        with Meter(peer.pid, sample_ms=500) as meter:
            time.sleep(size.idle_seconds)
    return {
        "create_seconds": create_seconds,
        "restart_seconds": restart_seconds,
        "restart_api_versions_seconds": peer.start_seconds,
        "stop_seconds": stop_seconds,
        "rss_kib_per_partition": (full.rss_bytes - empty.rss_bytes) / partitions / KIB,
        "rss_anon_kib_per_partition": (full.rss_anon_bytes - empty.rss_anon_bytes) / partitions / KIB,
        "rss_mib": full.rss_bytes / MIB,
        "rss_after_create_mib": created.rss_bytes / MIB,
        "idle_cpu_percent": 100 * meter.cpu_seconds / meter.wall_seconds,
    }


def _create(peer: Peer, topics: int, partitions_per_topic: int) -> float:
    names = [f"many-{number:04d}" for number in range(topics)]
    began = time.monotonic()
    with peer.connect() as connection:
        for at in range(0, topics, TOPICS_PER_REQUEST):
            connection.create_topics(names[at : at + TOPICS_PER_REQUEST], partitions_per_topic)
    wait_for_partitions(HOST, peer.port, topics * partitions_per_topic, began + READY_TIMEOUT_SECONDS)
    return time.monotonic() - began
