"""Clusters under measurement: one broker or several as processes of this machine, or on others."""

from __future__ import annotations

import subprocess
import uuid
from abc import ABC, abstractmethod
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from bench.peers.bowstring import Bowstring
from bench.peers.install import PeerError
from bench.peers.kafka import LOG4J, SHIPPED_SETTINGS, Kafka
from bench.peers.peer import COMMON_SETTINGS, HOST, Peer, free_ports, write_properties
from bench.procfs import cpu_seconds, memory


class Cluster(ABC):
    """Brokers of one kind; `with` starts and stops them.

    Attributes:
        name: what results call it: bowstring or kafka.
        brokers: how many.
        replicates: whether topics may have several replicas.
    """

    name: str
    brokers: int
    replicates: bool

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """`host:port,…` for clients."""

    @property
    @abstractmethod
    def version(self) -> str:
        """Name and version, for the report."""

    @abstractmethod
    def start(self) -> None:
        """Returns when every broker answers."""

    @abstractmethod
    def stop(self) -> None:
        """Stops every broker."""

    @abstractmethod
    def cpu_seconds(self) -> float:
        """Of all brokers since they started; 0 where it cannot be known."""

    @abstractmethod
    def rss_bytes(self) -> int:
        """Of all brokers now; 0 where it cannot be known."""

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class LocalCluster(Cluster):
    """Processes of this machine."""

    def __init__(self, name: str, peers: list[Peer]):
        self.name = name
        self.peers = peers
        self.brokers = len(peers)
        self.replicates = name == Kafka.name and len(peers) > 1

    @property
    def bootstrap(self) -> str:
        """See Cluster."""
        return ",".join(peer.bootstrap for peer in self.peers)

    @property
    def version(self) -> str:
        """See Cluster."""
        return self.peers[0].version()

    def start(self) -> None:
        """Starts all and waits for all: a quorum needs its members."""
        for peer in self.peers:
            if peer.port == 0:
                peer.prepare()
        for peer in self.peers:
            peer.launch()
        for peer in self.peers:
            peer.await_ready()

    def stop(self) -> None:
        """See Cluster."""
        failure: PeerError | None = None
        for peer in self.peers:
            try:
                peer.stop()
            except PeerError as error:
                failure = error
        if failure is not None:
            raise failure

    def cpu_seconds(self) -> float:
        """See Cluster."""
        return sum(cpu_seconds(peer.pid) for peer in self.peers)

    def rss_bytes(self) -> int:
        """See Cluster."""
        return sum(memory(peer.pid).rss_bytes for peer in self.peers)


class QuorumKafka(Kafka):
    """One of several Apache Kafka brokers, each a controller too.

    Args:
        quorum: (node id, broker port, controller port) of every one of them.
    """

    def __init__(self, work: Path, node: int, quorum: list[tuple[int, int, int]], cluster_id: str):
        super().__init__(work)
        self._node = node
        self._quorum = quorum
        self._cluster_id = cluster_id

    def prepare(self) -> None:
        """Writes its configuration and formats its directory as a member of the quorum."""
        _, port, controller_port = next(each for each in self._quorum if each[0] == self._node)
        (self.work / "log4j2.properties").write_text(LOG4J)
        listeners = f"PLAINTEXT://{HOST}:{port}"
        voters = ",".join(f"{node}@{HOST}:{controller}" for node, _, controller in self._quorum)
        settings: Mapping[str, str] = {
            **SHIPPED_SETTINGS,
            **COMMON_SETTINGS,
            "node.id": str(self._node),
            "listeners": f"{listeners},CONTROLLER://{HOST}:{controller_port}",
            "advertised.listeners": listeners,
            "controller.quorum.voters": voters,
            "log.dirs": str(self.data),
        }
        write_properties(self._settings, dict(settings))
        options = ["--config", str(self._settings), "--cluster-id", self._cluster_id]
        command = [*self._java(["-Xmx256M"]), "kafka.tools.StorageTool", "format", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise PeerError(f"formatting Kafka's directory failed:\n{done.stdout}{done.stderr}")
        self.port = port


def local_cluster(name: str, brokers: int, work: Path) -> LocalCluster:
    """A cluster of processes, not started.

    Raises:
        PeerError: Bowstring has no replication yet: a cluster of it is one broker.
    """
    if name == Bowstring.name:
        return LocalCluster(name, [Bowstring(work / name)])
    if brokers == 1:
        return LocalCluster(name, [Kafka(work / name)])
    ports = free_ports(2 * brokers)
    quorum = [(node + 1, ports[2 * node], ports[2 * node + 1]) for node in range(brokers)]
    cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    peers: list[Peer] = [
        QuorumKafka(work / f"{name}-{node}", node, quorum, cluster_id) for node, _, _ in quorum
    ]
    return LocalCluster(name, peers)
