"""Measures native producers over TLS 1.3, and on three brokers with TLS and SCRAM everywhere."""

from __future__ import annotations

import time

from bench.cases.native_load import CLIENT, PRODUCERS, Together, produce_together
from bench.cases.produce import MODERN_DEFAULTS
from bench.cases.security import SecuredPeers
from bench.lab import PARTITIONS, RECORD_BYTES, Lab, log
from bench.peers.bowstring import Bowstring
from bench.peers.members import MemberCluster
from bench.peers.peer import Peer
from bench.peers.secured_settings import Security, make_security
from bench.peers.tls_files import MECHANISM, SUITE, VERSION, TlsFiles
from bench.peers.wire import wait_for_partitions
from bench.procfs import Meter, cpu_seconds
from bench.results import CaseResult
from bowstring.demo.headline import SETTINGS as SMALL_BATCHES

REPLICAS = 3
_READY_SECONDS = 60.0
_WARM_UP_RECORDS = 200_000


def produce_over_tls(lab: Lab, name: str, title: str) -> CaseResult:
    """Three producers to one broker, over TLS and in the clear, one after the other."""
    peers = SecuredPeers(lab)

    def measure(peer_name: str) -> dict[str, float]:
        peer = peers.peer(peer_name)
        secured = _measure(lab, peer, peers.files)
        plain = _measure(lab, peer, None)
        share = secured["records_per_second"] / plain["records_per_second"]
        return (
            secured
            | {f"plain_{figure}": value for figure, value in plain.items()}
            | {"share_of_plain": share}
        )

    try:
        return lab.alternate(CaseResult(name, title, SMALL_BATCHES | _facts(lab)), measure)
    finally:
        peers.stop()


def _facts(lab: Lab) -> dict[str, str]:
    return {
        "producers": str(PRODUCERS),
        "records per producer": f"{lab.size.produce_records:,}",
        "record": f"{RECORD_BYTES} B value, no key",
        "partitions": str(PARTITIONS),
        "TLS": f"{VERSION}, {SUITE}, ECDSA P-256",
        "client": CLIENT,
    }


def _measure(lab: Lab, peer: Peer, files: TlsFiles | None) -> dict[str, float]:
    bootstrap = peer.bootstrap if files is None else peer.tls_bootstrap
    settings = SMALL_BATCHES | ({} if files is None else files.client_settings())
    topic = lab.new_topic(peer)
    with Meter(peer.pid) as meter:
        done = produce_together(bootstrap, topic, lab.size.produce_records, settings)
    lab.delete_topic(peer, topic)
    return _figures(done, meter.cpu_seconds)


def _figures(done: Together, broker_cpu_seconds: float) -> dict[str, float]:
    payload_gb = done.records * RECORD_BYTES / 1e9
    return {
        "records_per_second": done.records_per_second,
        "cpu_seconds_per_gb": broker_cpu_seconds / payload_gb,
        "client_cpu_seconds_per_gb": done.client_cpu_seconds / payload_gb,
    }


def produce_to_cluster(lab: Lab, name: str, title: str) -> CaseResult:
    """Three producers with acks=all to three brokers: in the clear, and Bowstring with TLS and SCRAM, too."""
    facts = MODERN_DEFAULTS | _facts(lab)
    facts |= {"replicas": str(REPLICAS), "log-ins": f"{MECHANISM} of clients, brokers and controllers"}
    clusters = _Clusters(lab)

    def measure(peer_name: str) -> dict[str, float]:
        plain = clusters.measure(peer_name, None)
        values = {f"plain_{figure}": value for figure, value in plain.items()}
        if peer_name != Bowstring.name:
            return values
        secured = clusters.measure(peer_name, clusters.security)
        share = secured["records_per_second"] / plain["records_per_second"]
        return secured | values | {"share_of_plain": share}

    try:
        return lab.alternate(CaseResult(name, title, facts), measure)
    finally:
        clusters.kill()


class _Clusters:
    """Clusters of three brokers, plain and secured; each is started and warmed up on first use."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._security: Security | None = None
        self._running: dict[tuple[str, bool], MemberCluster] = {}
        self._topics = 0

    @property
    def security(self) -> Security:
        """The certificates and the user, made once."""
        if self._security is None:
            self._security = make_security(self._lab.work / "cluster-tls")
        return self._security

    def measure(self, name: str, security: Security | None) -> dict[str, float]:
        """Returns the figures of one round.

        Args:
            name: Of the peer.
            security: Of the cluster and its clients; None for one in the clear.

        Raises:
            PeerError, WireError: A broker or a producer failed.
        """
        cluster = self._running.get((name, security is not None))
        if cluster is None or len(cluster.listeners) < len(cluster.nodes):
            cluster = self._start(name, security)
        return self._produce(cluster, security, self._lab.size.produce_records)

    def kill(self) -> None:
        """Ends all brokers."""
        for cluster in self._running.values():
            cluster.kill()

    def _start(self, name: str, security: Security | None) -> MemberCluster:
        cluster = self._lab.new_cluster(name, security=security)
        self._running[name, security is not None] = cluster
        cluster.start()
        log(f"warming three brokers of {name} up for {self._lab.size.warm_up_seconds:g} s")
        end = time.monotonic() + self._lab.size.warm_up_seconds
        while time.monotonic() < end:
            self._produce(cluster, security, _WARM_UP_RECORDS)
        return cluster

    def _produce(self, cluster: MemberCluster, security: Security | None, records: int) -> dict[str, float]:
        bootstrap = cluster.bootstrap if security is None else cluster.secured_bootstrap
        settings = MODERN_DEFAULTS | ({} if security is None else security.client_settings())
        topic = self._new_topic(cluster)
        pids = [node.pid for node in cluster.nodes.values()]
        before = sum(map(cpu_seconds, pids))
        done = produce_together(bootstrap, topic, records, settings)
        used = sum(map(cpu_seconds, pids)) - before
        with cluster.connect() as connection:
            connection.delete_topics([topic])
        return _figures(done, used)

    def _new_topic(self, cluster: MemberCluster) -> str:
        self._topics += 1
        topic = f"bench-{self._topics}"
        with cluster.connect() as connection:
            connection.create_topics([topic], PARTITIONS, replication=REPLICAS)
        first, *others = cluster.listeners
        wait_for_partitions(*first, PARTITIONS, time.monotonic() + _READY_SECONDS, [topic], others)
        return topic
