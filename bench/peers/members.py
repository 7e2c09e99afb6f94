"""Runs brokers as members of a cluster: each is a controller of its quorum, too."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers.bowstring import Bowstring
from bench.peers.install import PeerError
from bench.peers.kafka import LOG4J, SHIPPED_SETTINGS, Kafka
from bench.peers.peer import COMMON_SETTINGS, HOST, Peer, free_ports, write_properties
from bench.peers.secured_settings import Security
from bench.peers.wire import Connection, TopicState, wait_for_brokers

# Of both peers, beside the settings of a lone broker. Kafka ships the same.
REGISTERED_SECONDS = 60.0
CLUSTER_SETTINGS = COMMON_SETTINGS | {"offsets.topic.replication.factor": "1"}


@dataclass(frozen=True)
class Membership:
    """One broker's place in a cluster.

    Attributes:
        node: Its id, from 1.
        quorum: (node, address, broker port, controller port) of every broker.
        cluster_id: The cluster's.
    """

    node: int
    quorum: tuple[tuple[int, str, int, int], ...]
    cluster_id: str

    @property
    def port(self) -> int:
        """The port for clients."""
        return next(port for node, _, port, _ in self.quorum if node == self.node)

    def settings(self, host: str) -> dict[str, str]:
        """Returns what a node's server.properties says of its place."""
        _, _, port, controller_port = next(each for each in self.quorum if each[0] == self.node)
        listener = f"PLAINTEXT://{host}:{port}"
        voters = ",".join(f"{node}@{address}:{at}" for node, address, _, at in self.quorum)
        return {
            "node.id": str(self.node),
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "listeners": f"{listener},CONTROLLER://{host}:{controller_port}",
            "advertised.listeners": listener,
            "controller.quorum.voters": voters,
        }


def memberships(addresses: Sequence[str], ports: Callable[[str, int], Sequence[int]]) -> list[Membership]:
    """Plans a cluster with one broker at each address.

    Args:
        addresses: In the order of node ids; an address may occur several times.
        ports: Returns so many different free ports of an address.
    """
    # Requested at once, otherwise the same port could be returned twice.
    free = {each: iter(ports(each, 2 * addresses.count(each))) for each in dict.fromkeys(addresses)}
    quorum = tuple(
        (node, address, next(free[address]), next(free[address])) for node, address in enumerate(addresses, 1)
    )
    # An id that begins with a dash would be parsed as an option.
    cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")
    return [Membership(node, quorum, cluster_id) for node, *_ in quorum]


class MemberKafka(Kafka):
    """One of several Apache Kafka brokers.

    Args:
        settings: Further ones; they win.
        heap: See Kafka.
    """

    def __init__(
        self,
        work: Path,
        member: Membership,
        settings: Mapping[str, str] | None = None,
        heap: list[str] | None = None,
    ):
        super().__init__(work, heap)
        self._member = member
        self._more = settings or {}

    def prepare(self) -> None:
        """Writes its configuration and formats its directory as a member of the quorum."""
        (self.work / "log4j2.properties").write_text(LOG4J)
        settings = SHIPPED_SETTINGS | CLUSTER_SETTINGS | self._member.settings(self.host)
        settings |= {"log.dirs": str(self.data), **self._more}
        write_properties(self._settings, settings)
        options = ["--config", str(self._settings), "--cluster-id", self._member.cluster_id]
        _format([*self._java(["-Xmx256M"]), "kafka.tools.StorageTool", "format", *options])
        self.port = self._member.port


class MemberBowstring(Bowstring):
    """One of several Bowstring brokers.

    Args:
        settings: Further ones; they win.
        security: With it, brokers reach one another by TLS and SCRAM, and a further listener serves clients
            so; the plain listener remains.
    """

    def __init__(
        self,
        work: Path,
        member: Membership,
        settings: Mapping[str, str] | None = None,
        security: Security | None = None,
    ):
        super().__init__(work)
        self._member = member
        self._more = settings or {}
        self._security = security

    def prepare(self) -> None:
        """Writes its configuration and formats its directory as a member of the quorum."""
        self.compile()
        settings = CLUSTER_SETTINGS | self._member.settings(self.host)
        # As in Kafka: acknowledged from the page cache. Durable topics say so in their configs.
        settings |= {"log.dirs": str(self.data), "bowstring.durability": "os", **self._more}
        options = ["--config", str(self._settings), "--cluster-id", self._member.cluster_id]
        if self._security is not None:
            (self.sasl_port,) = free_ports(1, self.host)
            settings = self._security.secured(settings, f"{self.host}:{self.sasl_port}")
            options += ["--add-scram-file", str(self._security.users)]
        write_properties(self._settings, settings)
        _format([sys.executable, "-m", "bowstring", "format", *options])
        self.port = self._member.port

    def command(self) -> list[str]:
        """Returns the command that a user would type."""
        others = [] if self.host == HOST else ["--listen-unauthenticated"]
        return [sys.executable, "-m", "bowstring", "serve", "--config", str(self._settings), *others]


class MemberCluster:
    """A cluster on this machine, one process for each broker; `with` starts and ends it.

    Args:
        name: Of the peer: bowstring or kafka.
        work: A directory for all brokers.
        settings: Of each broker, beside those of all peers.
        heap: Of Kafka's JVMs, see Kafka.
        security: See MemberBowstring; Kafka has none here.

    Attributes:
        nodes: By node id, from 1.
    """

    def __init__(
        self,
        name: str,
        work: Path,
        settings: Mapping[str, str] | None = None,
        brokers: int = 3,
        heap: list[str] | None = None,
        security: Security | None = None,
    ):
        places = memberships([HOST] * brokers, lambda _, count: free_ports(count))
        self.name = name
        self.nodes = {
            place.node: member(name, work / str(place.node), place, settings, heap, security)
            for place in places
        }

    def start(self) -> None:
        """Starts all brokers, and returns when each lists all of them.

        Raises:
            PeerError, WireError: one does not start.
        """
        for node in self.nodes.values():
            node.prepare()
        for node in self.nodes.values():
            node.launch()
        for node in self.nodes.values():
            node.await_ready()
        wait_for_brokers(self.listeners, time.monotonic() + REGISTERED_SECONDS)

    @property
    def listeners(self) -> list[tuple[str, int]]:
        """Host and port of the brokers that run, in the order of their ids."""
        return [(node.host, node.port) for node in self.nodes.values() if node.alive]

    @property
    def bootstrap(self) -> str:
        """`host:port,…` of the brokers that run."""
        return ",".join(f"{host}:{port}" for host, port in self.listeners)

    @property
    def secured_bootstrap(self) -> str:
        """The same of their listeners for TLS and SCRAM."""
        return ",".join(f"{node.host}:{node.sasl_port}" for node in self.nodes.values() if node.alive)

    def connect(self) -> Connection:
        """Returns a raw connection to the first broker that runs."""
        return Connection(*self.listeners[0])

    def state(self, topic: str) -> TopicState:
        """Returns a topic's metadata from the first broker that runs."""
        with self.connect() as connection:
            return connection.topics([topic])[topic]

    def log_tails(self) -> str:
        """Returns the ends of all logs."""
        return "\n".join(f"node {id}:\n{node.log_tail(8)}" for id, node in self.nodes.items())

    def __enter__(self) -> MemberCluster:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Ends all at once."""
        for node in self.nodes.values():
            node.kill()


def member(
    name: str,
    work: Path,
    place: Membership,
    settings: Mapping[str, str] | None = None,
    heap: list[str] | None = None,
    security: Security | None = None,
) -> Peer:
    """Returns a broker of a cluster by the peer's name; `heap` is Kafka's, `security` Bowstring's."""
    if name == Kafka.name:
        return MemberKafka(work, place, settings, heap)
    return MemberBowstring(work, place, settings, security)


def _format(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PeerError(f"formatting a broker's directory failed:\n{done.stdout}{done.stderr}")
