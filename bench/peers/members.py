"""Runs brokers as members of a cluster: each is a controller of its quorum, too."""

from __future__ import annotations

import subprocess
import sys
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers.bowstring import Bowstring
from bench.peers.install import PeerError
from bench.peers.kafka import LOG4J, SHIPPED_SETTINGS, Kafka
from bench.peers.peer import COMMON_SETTINGS, HOST, Peer, write_properties

# Of both peers, beside the settings of a lone broker. Kafka ships the same.
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
    """

    def __init__(self, work: Path, member: Membership, settings: Mapping[str, str] | None = None):
        super().__init__(work)
        self._member = member
        self._more = settings or {}

    def prepare(self) -> None:
        """Writes its configuration and formats its directory as a member of the quorum."""
        self.compile()
        settings = CLUSTER_SETTINGS | self._member.settings(self.host)
        # As in Kafka: acknowledged from the page cache. Durable topics say so in their configs.
        settings |= {"log.dirs": str(self.data), "bowstring.durability": "os", **self._more}
        write_properties(self._settings, settings)
        options = ["--config", str(self._settings), "--cluster-id", self._member.cluster_id]
        _format([sys.executable, "-m", "bowstring", "format", *options])
        self.port = self._member.port

    def command(self) -> list[str]:
        """Returns the command that a user would type."""
        others = [] if self.host == HOST else ["--listen-unauthenticated"]
        return [sys.executable, "-m", "bowstring", "serve", "--config", str(self._settings), *others]


def member(name: str, work: Path, place: Membership, settings: Mapping[str, str] | None = None) -> Peer:
    """Returns a broker of a cluster by the peer's name."""
    kind = MemberKafka if name == Kafka.name else MemberBowstring
    return kind(work, place, settings)


def _format(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PeerError(f"formatting a broker's directory failed:\n{done.stdout}{done.stderr}")
