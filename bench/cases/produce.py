"""Measures producing: broker CPU per gigabyte and throughput, with ProducerPerformance as the client."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

from bench.affinity import apart, can_be_apart
from bench.lab import PARTITIONS, RECORD_BYTES, Lab, log
from bench.limits import catalogue
from bench.peers.peer import Peer
from bench.peers.tools import PRODUCER, finish_producer, producer_arguments
from bench.procfs import Meter, memory
from bench.results import CaseResult

KIB = 1 << 10
MIB = 1 << 20

# Other settings are the Java client's defaults; in 4.x that makes linger.ms 5.
SMALL_BATCHES = {"acks": "1", "batch.size": "8196"}
MODERN_DEFAULTS = {"acks": "all", "enable.idempotence": "true", "batch.size": "16384", "linger.ms": "5"}
COMMIT = {"bowstring.durability": "commit"}
PINNED = "the broker on the last processor, the client on the others"
# What is also measured with broker and clients on processors of their own.
PINNED_FIGURES = ("records_per_second", "cpu_seconds_per_gb", "send_p50_ms", "send_p99_ms")
LARGE_BATCHES = {"acks": "1", "batch.size": "65536"}


def produce(lab: Lab, name: str, title: str, settings: dict[str, str], producers: int = 1) -> CaseResult:
    """Runs `producers` producers at once, each sending the size's number of records to one topic."""
    facts = settings | {
        "producers": str(producers),
        "records per producer": f"{lab.size.produce_records:,}",
        "record": f"{RECORD_BYTES} B value, no key",
        "partitions": str(PARTITIONS),
        "client": "ProducerPerformance in a warm JVM",
    }
    case = CaseResult(name, title, facts)
    limits = catalogue.produce(RECORD_BYTES, round(int(settings["batch.size"]) / KIB))
    return lab.alternate(case, lambda peer: _measure(lab, lab.peer(peer), settings, producers), limits=limits)


def produce_durably(lab: Lab, name: str, title: str, settings: dict[str, str]) -> CaseResult:
    """One producer, on all processors and apart from the broker. Bowstring is measured in commit mode, and on
    all processors in os mode, too; Kafka with its defaults.
    """
    facts = settings | {
        "records": f"{lab.size.produce_records:,}",
        "record": f"{RECORD_BYTES} B value, no key",
        "partitions": str(PARTITIONS),
        "Bowstring's topic": str(COMMIT),
        "Kafka's topic": "default",
        "client": "ProducerPerformance in a warm JVM",
        "pinned": PINNED,
    }

    def measure(name: str) -> dict[str, float]:
        peer = lab.peer(name)
        configs = COMMIT if name == "bowstring" else None
        values = _measure(lab, peer, settings, 1, configs)
        if can_be_apart():
            values |= pinned(_measure(lab, peer, settings, 1, configs, apart_from_clients=True))
        if name != "bowstring":
            return values
        os_mode = _measure(lab, peer, settings, 1)
        for figure in ("records_per_second", "cpu_seconds_per_gb"):
            values[f"os_{figure}"] = os_mode[figure]
        return values | {"share_of_os": values["records_per_second"] / os_mode["records_per_second"]}

    limits = catalogue.commit(catalogue.throughput(RECORD_BYTES))
    return lab.alternate(CaseResult(name, title, facts), measure, limits=limits)


def pinned(values: Mapping[str, float]) -> dict[str, float]:
    """Returns figures of a run with broker and clients apart, with names of their own."""
    return {f"pinned_{figure}": values[figure] for figure in PINNED_FIGURES}


def fill(lab: Lab, peer: Peer, topic: str, records: int) -> None:
    """Produces `records` records to `topic` with modern defaults, without measuring."""
    (host,) = lab.hosts(1)
    host.begin(PRODUCER, producer_arguments(peer.bootstrap, topic, records, RECORD_BYTES, MODERN_DEFAULTS))
    finish_producer(host, records, limit_seconds(records))


def limit_seconds(records: int) -> float:
    """Returns the time limit of a tool for `records` records; a slower round has failed."""
    return 60 + records / 50_000


def _measure(
    lab: Lab,
    peer: Peer,
    settings: dict[str, str],
    producers: int,
    configs: Mapping[str, str] | None = None,
    apart_from_clients: bool = False,
) -> dict[str, float]:
    records = lab.size.produce_records
    topic = lab.new_topic(peer, configs=configs)
    hosts = lab.hosts(producers)
    place = apart(peer.pid, [host.pid for host in hosts]) if apart_from_clients else nullcontext()
    with place, Meter(peer.pid) as meter:
        for host in hosts:
            host.begin(PRODUCER, producer_arguments(peer.bootstrap, topic, records, RECORD_BYTES, settings))
        outcomes = [finish_producer(host, records, limit_seconds(records * producers)) for host in hosts]
    total = records * producers
    payload_gb = total * RECORD_BYTES / 1e9
    stored_bytes = _stored_bytes(peer, topic)
    lab.delete_topic(peer, topic)
    values = {
        "cpu_seconds_per_gb": meter.cpu_seconds / payload_gb,
        "records_per_second": sum(outcome.records_per_second for outcome in outcomes),
        "wall_records_per_second": total / meter.wall_seconds,
        "client_and_system_cpu_seconds_per_gb": meter.other_cpu_seconds / payload_gb,
        "rss_peak_mib": meter.rss_peak_bytes / MIB,
        "rss_anon_mib": memory(peer.pid).rss_anon_bytes / MIB,
        "send_p50_ms": max(outcome.p50_ms for outcome in outcomes),
        "send_p99_ms": max(outcome.p99_ms for outcome in outcomes),
        "stolen_seconds": meter.stolen_seconds,
    }
    if stored_bytes:
        values["cpu_seconds_per_stored_gb"] = meter.cpu_seconds / (stored_bytes / 1e9)
        values["stored_bytes_per_record"] = stored_bytes / total
    else:
        log(f"{peer.name}: no segment files of {topic} found; figures per stored byte are left out")
    return values


def _stored_bytes(peer: Peer, topic: str) -> int:
    """Returns the size of the topic's segments: the bytes sent over the wire without request headers."""
    return sum(path.stat().st_size for path in peer.data.glob(f"{topic}-*/*.log"))
