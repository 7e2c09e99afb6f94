"""Measures consuming from the page cache, and producing and consuming at once."""

from __future__ import annotations

from bench.cases.produce import COMMIT, MIB, SMALL_BATCHES, fill, limit_seconds
from bench.lab import PARTITIONS, RECORD_BYTES, Lab, wait_until_calm
from bench.limits import catalogue
from bench.peers.peer import Peer
from bench.peers.toolhost import ToolHost
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


class FilledTopics:
    """A topic for each peer, filled on first use and read by every consume case."""

    def __init__(self, lab: Lab):
        self._lab = lab
        self._topics: dict[tuple[str, int, bool], str] = {}

    def topic(self, peer: Peer, *, commit: bool = False) -> str:
        """Returns the filled topic; a restarted broker gets a new one.

        Args:
            peer: The broker.
            commit: Bowstring acknowledges the topic's records from the medium.
        """
        key = (peer.name, peer.pid, commit and peer.name == "bowstring")
        if key not in self._topics:
            topic = self._lab.new_topic(peer, configs=COMMIT if key[2] else None)
            fill(self._lab, peer, topic, self._lab.size.consume_records)
            wait_until_calm()
            self._topics[key] = topic
        return self._topics[key]


def consume(
    lab: Lab, topics: FilledTopics, name: str, title: str, consumers: int = 1, *, commit: bool = False
) -> CaseResult:
    """Each consumer, in a group of its own, reads the whole topic; with `commit`, Bowstring's topic is
    acknowledged from the medium.
    """
    facts = {
        "consumers": str(consumers),
        "records per consumer": f"{lab.size.consume_records:,}",
        "record": f"{RECORD_BYTES} B value, no key",
        "partitions": str(PARTITIONS),
        "written with": "batch.size 16384, linger.ms 5; read from the page cache",
        "client": "ConsumerPerformance in a warm JVM, its default settings",
    }

    def measure(peer_name: str) -> dict[str, float]:
        peer = lab.peer(peer_name)
        return _measure_consume(lab, peer, topics.topic(peer, commit=commit), consumers)

    limits = catalogue.fetch(catalogue.throughput(RECORD_BYTES))
    return lab.alternate(CaseResult(name, title, facts), measure, limits=limits)


def produce_and_consume(lab: Lab, name: str, title: str) -> CaseResult:
    """One producer and one consumer on the same topic, started together."""
    facts = SMALL_BATCHES | {
        "producers": "1",
        "consumers": "1",
        "records": f"{lab.size.produce_records:,}",
        "record": f"{RECORD_BYTES} B value, no key",
        "partitions": str(PARTITIONS),
        "client": "ProducerPerformance and ConsumerPerformance in warm JVMs",
    }
    case = CaseResult(name, title, facts)
    limits = catalogue.produce_and_fetch(catalogue.throughput(RECORD_BYTES))
    return lab.alternate(case, lambda peer: _measure_both(lab, lab.peer(peer)), limits=limits)


def _begin_consumer(host: ToolHost, peer: Peer, topic: str, records: int) -> None:
    host.begin(CONSUMER, consumer_arguments(peer.bootstrap, topic, records))


def _measure_consume(lab: Lab, peer: Peer, topic: str, consumers: int) -> dict[str, float]:
    records = lab.size.consume_records
    hosts = lab.hosts(consumers)
    with Meter(peer.pid) as meter:
        for host in hosts:
            _begin_consumer(host, peer, topic, records)
        outcomes = [finish_consumer(host, records, limit_seconds(records * consumers)) for host in hosts]
    payload_gb = sum(outcome.records for outcome in outcomes) * RECORD_BYTES / 1e9
    return {
        "cpu_seconds_per_gb": meter.cpu_seconds / payload_gb,
        "records_per_second": sum(outcome.fetch_records_per_second for outcome in outcomes),
        "wall_records_per_second": records * consumers / meter.wall_seconds,
        "client_and_system_cpu_seconds_per_gb": meter.other_cpu_seconds / payload_gb,
        "join_ms": max(float(outcome.rebalance_ms) for outcome in outcomes),
        "rss_peak_mib": meter.rss_peak_bytes / MIB,
        "stolen_seconds": meter.stolen_seconds,
    }


def _measure_both(lab: Lab, peer: Peer) -> dict[str, float]:
    records = lab.size.produce_records
    topic = lab.new_topic(peer)
    writer, reader = lab.hosts(2)
    arguments = producer_arguments(peer.bootstrap, topic, records, RECORD_BYTES, SMALL_BATCHES)
    with Meter(peer.pid) as meter:
        _begin_consumer(reader, peer, topic, records)
        writer.begin(PRODUCER, arguments)
        produced = finish_producer(writer, records, limit_seconds(records))
        consumed = finish_consumer(reader, records, limit_seconds(records))
    lab.delete_topic(peer, topic)
    payload_gb = records * RECORD_BYTES / 1e9
    return {
        "produce_records_per_second": produced.records_per_second,
        "consume_records_per_second": consumed.fetch_records_per_second,
        "wall_records_per_second": records / meter.wall_seconds,
        "cpu_seconds_per_gb": meter.cpu_seconds / payload_gb,
        "client_and_system_cpu_seconds_per_gb": meter.other_cpu_seconds / payload_gb,
        "rss_peak_mib": meter.rss_peak_bytes / MIB,
        "stolen_seconds": meter.stolen_seconds,
    }
