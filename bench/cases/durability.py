"""Measures the cost of commit mode, in which an acknowledged record is on the medium."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from contextlib import nullcontext

from bench.affinity import apart, can_be_apart
from bench.cases.produce import COMMIT, MODERN_DEFAULTS, PINNED, limit_seconds, pinned
from bench.lab import PARTITIONS, Lab
from bench.limits import catalogue
from bench.peers.peer import Peer
from bench.peers.tools import PRODUCER, finish_producer, producer_arguments
from bench.procfs import Meter
from bench.results import CaseResult
from bowstring._native.record.encode import encode_batch

RECORD_BYTES = 1024
MIB = 1 << 20
# Apache Kafka creates at most 10,000 records for a request: one for the topic, one for each partition.
MANY_PARTITIONS = 9_999
SYNC_EACH = {"flush.messages": "1"}


def against_page_cache(lab: Lab, name: str, title: str) -> CaseResult:
    """Bowstring in commit mode, Kafka with its defaults."""
    return _alternate(lab, name, title, {}, lab.size.durable_records)


def against_flush(lab: Lab, name: str, title: str) -> CaseResult:
    """Bowstring in commit mode, Kafka syncing every append."""
    return _alternate(lab, name, title, SYNC_EACH, lab.size.synced_records)


def _alternate(lab: Lab, name: str, title: str, kafka: Mapping[str, str], records: int) -> CaseResult:
    facts = MODERN_DEFAULTS | {
        "records": f"{records:,}",
        "record": f"{RECORD_BYTES} B value, no key",
        "partitions": str(PARTITIONS),
        "Bowstring's topic": str(COMMIT),
        "Kafka's topic": str(kafka) if kafka else "default",
        "client": "ProducerPerformance in a warm JVM",
    }
    if not kafka:
        facts["pinned"] = PINNED

    def measure(name: str) -> dict[str, float]:
        peer = lab.peer(name)
        configs = COMMIT if name == "bowstring" else kafka
        values = _produce(lab, peer, PARTITIONS, configs, records)
        if kafka or not can_be_apart():
            return values
        return values | pinned(_produce(lab, peer, PARTITIONS, configs, records, apart_from_clients=True))

    limits = catalogue.commit(catalogue.throughput(RECORD_BYTES))
    return lab.alternate(CaseResult(name, title, facts), measure, limits=limits)


def _produce(
    lab: Lab,
    peer: Peer,
    partitions: int,
    configs: Mapping[str, str],
    records: int,
    apart_from_clients: bool = False,
) -> dict[str, float]:
    topic = lab.new_topic(peer, partitions, configs)
    (host,) = lab.hosts(1)
    place = apart(peer.pid, [host.pid]) if apart_from_clients else nullcontext()
    with place, Meter(peer.pid) as meter:
        host.begin(
            PRODUCER, producer_arguments(peer.bootstrap, topic, records, RECORD_BYTES, MODERN_DEFAULTS)
        )
        outcome = finish_producer(host, records, limit_seconds(records) * 4)
    lab.delete_topic(peer, topic)
    return {
        "records_per_second": outcome.records_per_second,
        "cpu_seconds_per_gb": meter.cpu_seconds / (records * RECORD_BYTES / 1e9),
        "send_p50_ms": outcome.p50_ms,
        "send_p99_ms": outcome.p99_ms,
        "rss_peak_mib": meter.rss_peak_bytes / MIB,
        "stolen_seconds": meter.stolen_seconds,
    }


def latency(lab: Lab, name: str, title: str) -> CaseResult:
    """Sends one request at a time over a plain socket, without a client library."""
    facts = {
        "acks": "all",
        "record": f"{RECORD_BYTES} B value in a batch of its own",
        "partitions": "1",
        "records": f"{lab.size.latency_records // 10:,} after {lab.size.latency_warm_up // 10:,} of warm-up",
        "Bowstring's topic": str(COMMIT),
        "Kafka's topic": str(SYNC_EACH),
        "client": "a blocking socket",
    }

    def measure(name: str) -> dict[str, float]:
        peer = lab.peer(name)
        topic = lab.new_topic(peer, 1, COMMIT if name == "bowstring" else SYNC_EACH)
        batch = encode_batch([(None, bytes(RECORD_BYTES), time.time_ns() // 1_000_000, ())])
        times_ms = []
        with peer.connect() as connection:
            for _ in range(lab.size.latency_warm_up // 10):
                connection.produce(topic, batch)
            for _ in range(lab.size.latency_records // 10):
                began = time.perf_counter_ns()
                connection.produce(topic, batch)
                times_ms.append((time.perf_counter_ns() - began) / 1e6)
        lab.delete_topic(peer, topic)
        cuts = statistics.quantiles(times_ms, n=1000)
        return {"p50_ms": cuts[499], "p99_ms": cuts[989], "p999_ms": cuts[998], "max_ms": max(times_ms)}

    limits = catalogue.commit_latency()
    return lab.alternate(CaseResult(name, title, facts), measure, limits=limits)


def many_partitions(lab: Lab, name: str, title: str) -> CaseResult:
    """Runs the same load on one partition, on six, and evenly on many, with Bowstring in commit mode."""
    facts = MODERN_DEFAULTS | {
        "records": f"{lab.size.durable_records:,} each",
        "record": f"{RECORD_BYTES} B value, no key",
        "partitions": f"1, {PARTITIONS}, then {MANY_PARTITIONS:,}",
        "Bowstring's topic": str(COMMIT),
        "Kafka's topic": "default",
        "client": "ProducerPerformance in a warm JVM",
    }

    def measure(name: str) -> dict[str, float]:
        peer = lab.peer(name)
        configs = COMMIT if name == "bowstring" else {}
        one = _produce(lab, peer, 1, configs, lab.size.durable_records)
        six = _produce(lab, peer, PARTITIONS, configs, lab.size.durable_records)
        many = _produce(lab, peer, MANY_PARTITIONS, configs, lab.size.durable_records)
        return {
            "one_records_per_second": one["records_per_second"],
            "six_records_per_second": six["records_per_second"],
            "many_records_per_second": many["records_per_second"],
            "share_of_one": many["records_per_second"] / one["records_per_second"],
            "share_of_six": many["records_per_second"] / six["records_per_second"],
            "one_cpu_seconds_per_gb": one["cpu_seconds_per_gb"],
            "many_cpu_seconds_per_gb": many["cpu_seconds_per_gb"],
            "many_rss_peak_mib": many["rss_peak_mib"],
        }

    limits = catalogue.commit(catalogue.throughput(RECORD_BYTES, "one_", "many_"))
    return lab.alternate(CaseResult(name, title, facts), measure, limits=limits)
