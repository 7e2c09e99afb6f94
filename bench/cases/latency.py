"""Measures end-to-end latency of one record at a time, with a microsecond timer."""

from __future__ import annotations

from bench.lab import RECORD_BYTES, Lab
from bench.peers.peer import Peer
from bench.peers.tools import PROBE, parse_probe, probe_arguments
from bench.procfs import Meter
from bench.results import CaseResult

ACKS = "1"
LIMIT_SECONDS = 600.0


def end_to_end_latency(lab: Lab, name: str, title: str) -> CaseResult:
    """Measures from before send() to after the poll() that returned the record, like Kafka's
    EndToEndLatency.
    """
    facts = {
        "acks": ACKS,
        "linger.ms": "0",
        "fetch.max.wait.ms": "0",
        "record": f"{RECORD_BYTES} B value, no key",
        "partitions": "1",
        "records": f"{lab.size.latency_records:,} after {lab.size.latency_warm_up:,} of warm-up",
        "client": "LatencyProbe on kafka-clients in a warm JVM, System.nanoTime",
    }
    return lab.alternate(CaseResult(name, title, facts), lambda peer: _measure(lab, lab.peer(peer)))


def _measure(lab: Lab, peer: Peer) -> dict[str, float]:
    topic = lab.new_topic(peer, partitions=1)
    (host,) = lab.hosts(1)
    size = lab.size
    arguments = probe_arguments(
        peer.bootstrap, topic, size.latency_warm_up, size.latency_records, ACKS, RECORD_BYTES
    )
    with Meter(peer.pid) as meter:
        latency = parse_probe(host.run(PROBE, arguments, LIMIT_SECONDS))
    lab.delete_topic(peer, topic)
    trips = size.latency_warm_up + size.latency_records
    return {
        "p50_ms": latency.p50_us / 1000,
        "p99_ms": latency.p99_us / 1000,
        "p999_ms": latency.p999_us / 1000,
        "mean_ms": latency.mean_us / 1000,
        "max_ms": latency.max_us / 1000,
        "broker_cpu_us_per_record": meter.cpu_seconds / trips * 1e6,
        "stolen_seconds": meter.stolen_seconds,
    }
