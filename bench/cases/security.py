"""Measures producing and consuming over TLS 1.3 beside the same in the clear, with Kafka's own tools."""

from __future__ import annotations

from bench.cases.produce import MIB, MODERN_DEFAULTS, limit_seconds
from bench.lab import PARTITIONS, RECORD_BYTES, Lab, wait_until_calm
from bench.limits import catalogue
from bench.peers.peer import Peer
from bench.peers.tls_files import SUITE, VERSION, TlsFiles, make_tls_files
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


class SecuredPeers:
    """Brokers with a listener for TLS beside the plain one; each is started on first use."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._files: TlsFiles | None = None
        self._peers: dict[str, Peer] = {}
        self._topics: dict[str, str] = {}

    @property
    def files(self) -> TlsFiles:
        """The certificates, made once."""
        if self._files is None:
            self._files = make_tls_files(self._lab.work / "tls")
        return self._files

    def peer(self, name: str) -> Peer:
        """Returns the broker of that name, running and warm over TLS.

        Raises:
            PeerError: It does not start.
        """
        peer = self._peers.get(name)
        if peer is None or not peer.alive:
            peer = self._peers[name] = self._lab.new_peer(name)
            peer.tls = self.files
            peer.start()
            self._warm_up(peer)
        return peer

    def topic(self, peer: Peer) -> str:
        """Returns a topic with the size's records to read."""
        if peer.name not in self._topics:
            topic = self._topics[peer.name] = self._lab.new_topic(peer)
            produce_once(self._lab, peer, topic, self._lab.size.consume_records, None)
            wait_until_calm()
        return self._topics[peer.name]

    def stop(self) -> None:
        """Stops the brokers."""
        peers, self._peers = self._peers, {}
        for peer in peers.values():
            peer.stop()

    def _warm_up(self, peer: Peer) -> None:
        records = self._lab.size.produce_records
        topic = self._lab.new_topic(peer)
        for files in (self.files, None) if self._lab.size.warm_up_seconds else ():
            produce_once(self._lab, peer, topic, records, files)
        self._lab.delete_topic(peer, topic)


def produce_over_tls(lab: Lab, name: str, title: str) -> CaseResult:
    """One producer with modern defaults, over TLS and in the clear, one after the other."""
    facts = MODERN_DEFAULTS | _facts(lab.size.produce_records, "ProducerPerformance in a warm JVM")
    peers = SecuredPeers(lab)

    def measure(peer_name: str) -> dict[str, float]:
        peer = peers.peer(peer_name)
        secured = _measure_produce(lab, peer, peers.files)
        plain = _measure_produce(lab, peer, None)
        return secured | {f"plain_{figure}": value for figure, value in plain.items()}

    try:
        return lab.alternate(CaseResult(name, title, facts), measure)
    finally:
        peers.stop()


def consume_over_tls(lab: Lab, name: str, title: str) -> CaseResult:
    """One consumer reads a topic from the page cache, over TLS and in the clear, one after the other."""
    facts = _facts(lab.size.consume_records, "ConsumerPerformance in a warm JVM, its default settings")
    peers = SecuredPeers(lab)

    def measure(peer_name: str) -> dict[str, float]:
        peer = peers.peer(peer_name)
        secured = _measure_consume(lab, peer, peers.topic(peer), peers.files)
        plain = _measure_consume(lab, peer, peers.topic(peer), None)
        return secured | {f"plain_{figure}": value for figure, value in plain.items()}

    try:
        return lab.alternate(
            CaseResult(name, title, facts), measure, limits=catalogue.fetch_sealed(RECORD_BYTES)
        )
    finally:
        peers.stop()


def _facts(records: int, client: str) -> dict[str, str]:
    return {
        "records": f"{records:,}",
        "record": f"{RECORD_BYTES} B value, no key",
        "partitions": str(PARTITIONS),
        "TLS": f"{VERSION}, {SUITE}, ECDSA P-256",
        "client": client,
    }


def produce_once(lab: Lab, peer: Peer, topic: str, records: int, files: TlsFiles | None) -> float:
    """Produces records with modern defaults, over TLS with `files`; returns records a second."""
    (host,) = lab.hosts(1)
    settings = MODERN_DEFAULTS | (files.client_settings() if files is not None else {})
    bootstrap = peer.tls_bootstrap if files is not None else peer.bootstrap
    host.begin(PRODUCER, producer_arguments(bootstrap, topic, records, RECORD_BYTES, settings))
    return finish_producer(host, records, limit_seconds(records)).records_per_second


def _measure_produce(lab: Lab, peer: Peer, files: TlsFiles | None) -> dict[str, float]:
    records = lab.size.produce_records
    topic = lab.new_topic(peer)
    with Meter(peer.pid) as meter:
        rate = produce_once(lab, peer, topic, records, files)
    lab.delete_topic(peer, topic)
    return {"records_per_second": rate} | _costs(meter, records)


def _measure_consume(lab: Lab, peer: Peer, topic: str, files: TlsFiles | None) -> dict[str, float]:
    records = lab.size.consume_records
    (host,) = lab.hosts(1)
    settings = files.client_settings() if files is not None else {}
    bootstrap = peer.tls_bootstrap if files is not None else peer.bootstrap
    with Meter(peer.pid) as meter:
        host.begin(CONSUMER, consumer_arguments(bootstrap, topic, records, settings=settings))
        consumed = finish_consumer(host, records, limit_seconds(records))
    return {"records_per_second": consumed.fetch_records_per_second} | _costs(meter, records)


def _costs(meter: Meter, records: int) -> dict[str, float]:
    payload_gb = records * RECORD_BYTES / 1e9
    return {
        "cpu_seconds_per_gb": meter.cpu_seconds / payload_gb,
        "client_and_system_cpu_seconds_per_gb": meter.other_cpu_seconds / payload_gb,
        "rss_peak_mib": meter.rss_peak_bytes / MIB,
        "stolen_seconds": meter.stolen_seconds,
    }
