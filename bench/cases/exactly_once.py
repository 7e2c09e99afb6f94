"""Measures what transactions cost clients, with Kafka's own Java clients on both brokers."""

from __future__ import annotations

import statistics

from bench.cases.produce import limit_seconds
from bench.lab import PARTITIONS, RECORD_BYTES, Lab
from bench.peers.peer import Peer
from bench.peers.tools import (
    CONSUMER,
    EXACTLY_ONCE,
    PRODUCER,
    consumer_arguments,
    finish_consumer,
    finish_producer,
    parse_timed,
    producer_arguments,
)
from bench.procfs import Meter
from bench.results import CaseResult

COPY_BYTES = 1024
COMMIT_INTERVAL_MS = 100
# A tenth as much is copied or read before, unmeasured, for the JIT compilers.
WARM_UP_SHARE = 10
READS = 4
TRANSACTION_MS = 100
LIMIT_SECONDS = 600.0
ISOLATION = "isolation.level"


def java_transactions(lab: Lab, peer: Peer, topic: str, partitions: int, count: int) -> dict[str, float]:
    """Commits transactions of a record to each partition from one Java producer."""
    (host,) = lab.hosts(1)
    numbers = [str(partitions), str(max(10, count // 4)), str(count)]
    lines = host.run(EXACTLY_ONCE, ["transactions", peer.bootstrap, topic, *numbers], LIMIT_SECONDS)
    found = parse_timed(lines)
    return {
        "java_commits_per_second": found["count"] / found["seconds"],
        "java_p50_ms": found["p50_us"] / 1000,
        "java_p99_ms": found["p99_us"] / 1000,
    }


def copy(lab: Lab, name: str, title: str) -> CaseResult:
    """Copies a topic exactly once, and the same without transactions."""
    facts = {
        "records": f"{lab.size.copied_records:,} of {COPY_BYTES} B",
        "partitions": str(PARTITIONS),
        "commits": f"every {COMMIT_INTERVAL_MS} ms, of records and of the group's offsets",
        "without": "an idempotent producer, flush and commitSync as often",
        "client": "ExactlyOnceTool on kafka-clients in a warm JVM",
    }

    def measure(peer_name: str) -> dict[str, float]:
        peer = lab.peer(peer_name)
        few = max(100, lab.size.copied_records // WARM_UP_SHARE)
        source = lab.new_topic(peer)
        _fill(lab, peer, source, lab.size.copied_records, COPY_BYTES)
        for transactional in (False, True):
            _copy(lab, peer, source, few, transactional=transactional)
        without = _copy(lab, peer, source, lab.size.copied_records, transactional=False)
        values = _copy(lab, peer, source, lab.size.copied_records, transactional=True)
        lab.delete_topic(peer, source)
        return {
            **values,
            "share_of_without": values["records_per_second"] / without["records_per_second"],
            **{f"without_{key}": value for key, value in without.items()},
        }

    return lab.alternate(CaseResult(name, title, facts), measure)


def _copy(lab: Lab, peer: Peer, source: str, records: int, *, transactional: bool) -> dict[str, float]:
    (host,) = lab.hosts(1)
    target = lab.new_topic(peer)
    arguments = ["copy", peer.bootstrap, source, target, str(records), str(COMMIT_INTERVAL_MS)]
    with Meter(peer.pid) as meter:
        lines = host.run(EXACTLY_ONCE, [*arguments, str(transactional).lower()], LIMIT_SECONDS)
    found = parse_timed(lines)
    lab.delete_topic(peer, target)
    return {
        "records_per_second": found["count"] / found["seconds"],
        "cpu_seconds_per_gb": meter.cpu_seconds / (found["count"] * COPY_BYTES / 1e9),
    }


def read_committed(lab: Lab, name: str, title: str) -> CaseResult:
    """Reads a topic of committed transactions in both isolation levels, in turn."""
    facts = {
        "records": f"{lab.size.consume_records:,} of {RECORD_BYTES} B",
        "written": f"in transactions of {TRANSACTION_MS} ms, none aborted; read from the page cache",
        "measured": f"medians of {READS} reads of each isolation level in turn",
        "client": "ConsumerPerformance in a warm JVM",
    }
    written: dict[int, str] = {}

    def measure(peer_name: str) -> dict[str, float]:
        peer = lab.peer(peer_name)
        if peer.pid not in written:
            written[peer.pid] = lab.new_topic(peer)
            _fill(
                lab,
                peer,
                written[peer.pid],
                lab.size.consume_records,
                RECORD_BYTES,
                {"transactional.id": written[peer.pid], "transaction.timeout.ms": "60000"},
            )
        rates: dict[str, list[float]] = {"read_uncommitted": [], "read_committed": []}
        used = dict.fromkeys(rates, 0.0)
        for number in range(READS + 1):
            levels = list(rates)
            for isolation in levels if number % 2 else reversed(levels):
                rate, cpu_seconds = _read(lab, peer, written[peer.pid], isolation)
                if number:  # the first is the warm-up
                    rates[isolation].append(rate)
                    used[isolation] += cpu_seconds
        medians = {isolation: statistics.median(found) for isolation, found in rates.items()}
        return {
            "records_per_second": medians["read_committed"],
            "uncommitted_records_per_second": medians["read_uncommitted"],
            "committed_over_uncommitted": medians["read_committed"] / medians["read_uncommitted"],
            "cpu_committed_over_uncommitted": used["read_committed"] / used["read_uncommitted"],
        }

    return lab.alternate(CaseResult(name, title, facts), measure)


def _read(lab: Lab, peer: Peer, topic: str, isolation: str) -> tuple[float, float]:
    """Returns records a second and the broker's processor seconds."""
    records = lab.size.consume_records
    (host,) = lab.hosts(1)
    with Meter(peer.pid) as meter:
        host.begin(
            CONSUMER, consumer_arguments(peer.bootstrap, topic, records, settings={ISOLATION: isolation})
        )
        read = finish_consumer(host, records, limit_seconds(records))
    return read.fetch_records_per_second, meter.cpu_seconds


def _fill(
    lab: Lab, peer: Peer, topic: str, records: int, size_bytes: int, settings: dict[str, str] | None = None
) -> None:
    (host,) = lab.hosts(1)
    # With a transactional id the tool commits by time.
    more = ["--transaction-duration-ms", str(TRANSACTION_MS)] if settings else []
    host.begin(
        PRODUCER, [*producer_arguments(peer.bootstrap, topic, records, size_bytes, settings or {}), *more]
    )
    finish_producer(host, records, limit_seconds(records))
