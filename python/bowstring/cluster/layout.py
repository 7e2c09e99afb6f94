"""Plans the nodes of a cluster on this machine: ids, roles, ports, directories, settings; formats them.

A cluster's directory has one for each node: `node-1/server.properties`, `node-1/node.log`, `node-1/data`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bowstring.cluster.secret_files import write_secret
from bowstring.engine.broker.node_format import format_plan
from bowstring.engine.configs import ConfigError
from bowstring.engine.configs.files import load
from bowstring.engine.quorum.formatting import FormatOptions, carry_out
from bowstring.protocol.ids import format_uuid, random_uuid

HOST: Final = "127.0.0.1"
BROKER, CONTROLLER = "broker", "controller"
# Brokers fetch from one another through a listener of their own, if links between nodes can be cut.
CLIENTS, BETWEEN_BROKERS, CONTROLLERS = "PLAINTEXT", "INTERNAL", "CONTROLLER"
FIRST_CONTROLLER_ID: Final = 101
VOTERS_MAX: Final = 5
REPLICAS_MAX: Final = 3
PORT_MAX: Final = 65_535
SECURITY: Final = "security"
PASSWORDS: Final = "passwords.json"
_PROPERTIES: Final = "server.properties"
_META: Final = "meta.properties"
_WRITTEN: Final = "# Written at each start of the cluster. bowstring serve --config starts this node alone.\n"


@dataclass(frozen=True)
class Node:
    """One node.

    Attributes:
        roles: `broker`, `controller` or both.
        directory: Holds its settings, its log and its data.
        ports: By listener.
    """

    id: int
    roles: tuple[str, ...]
    directory: Path
    ports: Mapping[str, int]

    @property
    def config_file(self) -> Path:
        """Its server.properties."""
        return self.directory / _PROPERTIES

    @property
    def log_file(self) -> Path:
        """What it writes to standard output and standard error."""
        return self.directory / "node.log"

    @property
    def data_dir(self) -> Path:
        """Its log directory."""
        return self.directory / "data"

    @property
    def is_broker(self) -> bool:
        """Whether clients connect to it."""
        return BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        """Whether it is a voter of the metadata quorum."""
        return CONTROLLER in self.roles


def node_of(directory: Path, id: int, roles: tuple[str, ...], ports: Mapping[str, int]) -> Node:
    """Returns a node of the cluster in a directory."""
    return Node(id, roles, directory / f"node-{id}", ports)


# ---------------------------------------------------------------- which nodes


def roles_of(brokers: int, controllers: int) -> dict[int, tuple[str, ...]]:
    """Returns the roles by node id.

    Args:
        brokers: Their ids are 1, 2, 3 ...
        controllers: Nodes that are only controllers, with ids from 101 on. With 0, the largest odd number of
            brokers up to five are controllers, too: an even number survives no more failures. Two brokers get
            a controller of their own: a node that is its only voter is a cluster alone, which none can join.

    Raises:
        ConfigError: There would be no broker, or a negative number of controllers.
    """
    if brokers < 1:
        raise ConfigError(f"a cluster of {brokers} brokers cannot hold records; give at least 1")
    if controllers < 0:
        raise ConfigError(f"{controllers} is not a number of controllers; give 0 or more")
    if brokers == 2:
        controllers = max(1, controllers)
    voters = 0 if controllers else min(VOTERS_MAX, brokers - 1 + brokers % 2)
    roles: dict[int, tuple[str, ...]] = {}
    for id in range(1, brokers + 1):
        roles[id] = (BROKER, CONTROLLER) if id <= voters else (BROKER,)
    for index in range(controllers):
        roles[FIRST_CONTROLLER_ID + index] = (CONTROLLER,)
    return roles


def settings_files(directory: Path) -> list[Path]:
    """Returns the server.properties of the nodes that a directory holds."""
    return sorted(directory.glob(f"node-*/{_PROPERTIES}"))


def roles_in(directory: Path) -> dict[int, tuple[str, ...]]:
    """Returns the roles of the nodes that a directory holds by node id; none for a new directory.

    Raises:
        ConfigError, OSError: A node's settings cannot be read.
    """
    found = {}
    for path in settings_files(directory):
        settings = load(path, [])
        found[int(settings["node.id"])] = tuple(settings["process.roles"].split(","))
    return dict(sorted(found.items()))


def is_secure(directory: Path) -> bool:
    """Returns whether a directory has a cluster with TLS, users and an authorizer."""
    return (directory / SECURITY / PASSWORDS).exists()


def check_roles(directory: Path, roles: Mapping[int, tuple[str, ...]]) -> None:
    """A directory keeps its nodes: other voters could decide differently from the previous ones.

    Raises:
        ConfigError: The directory has other nodes.
    """
    there = roles_in(directory)
    if there and there != roles:
        brokers = sum(BROKER in each for each in there.values())
        others = len(there) - brokers
        advice = f"ask for {brokers} brokers and {others} nodes that are only controllers"
        if brokers and roles_of(brokers, others) != there:  # some were removed
            advice = f"use `bowstring cluster start --data {directory}` without numbers of nodes"
        raise ConfigError(
            f"{directory} holds a cluster of nodes {listed(there)}, not of {listed(roles)}; {advice}, or "
            "name another directory"
        )


def cluster_id_in(directory: Path) -> str:
    """Returns the cluster's id from its formatted nodes; a new one for a new directory."""
    for path in sorted(directory.glob(f"node-*/data/{_META}")):
        if match := re.search(r"^cluster\.id=(\S+)$", path.read_text(encoding="utf-8"), re.M):
            return match[1]
    return format_uuid(random_uuid())


# ---------------------------------------------------------------- ports


def consecutive_ports(
    roles: Mapping[int, tuple[str, ...]], first: int, first_controller: int, kept: Mapping[int, int]
) -> dict[int, dict[str, int]]:
    """Returns the ports by node id and listener: one after the other for brokers, and for controllers. Nodes
    that were removed leave theirs free.

    Args:
        roles: The roles of nodes.
        first: Port of broker 1.
        first_controller: Port of the first controller.
        kept: Ports that controllers have already, by node id.

    Raises:
        ConfigError: There are no such ports.
    """
    ports: dict[int, dict[str, int]] = {id: {} for id in roles}
    for id, each in roles.items():
        if BROKER in each:
            ports[id][CLIENTS] = first + id - 1
        if CONTROLLER in each:
            index = id - (1 if BROKER in each else FIRST_CONTROLLER_ID)
            ports[id][CONTROLLERS] = kept.get(id, first_controller + index)
    used = [port for each in ports.values() for port in each.values()]
    twice = next((port for port in kept.values() if used.count(port) > 1), None)
    if twice is not None:
        raise ConfigError(
            f"port {first}: brokers listen from there on, and a controller of this cluster keeps port "
            f"{twice}; choose a port for brokers that leaves {twice} free"
        )
    if min(used) < 1 or max(used) > PORT_MAX or len(set(used)) < len(used):
        raise ConfigError(
            f"port {first} leaves no room for {len(roles)} nodes: brokers listen from {first} on, and "
            f"controllers from {first_controller} on; choose a port between 1024 and 60000"
        )
    return ports


def listeners_of(roles: Sequence[str], *, linked: bool) -> list[str]:
    """Returns the names of a node's listeners.

    Args:
        roles: Its roles.
        linked: Whether nodes reach one another through links that can be cut.
    """
    names = [CLIENTS] if BROKER in roles else []
    names += [BETWEEN_BROKERS] if BROKER in roles and linked else []
    return [*names, CONTROLLERS] if CONTROLLER in roles else names


# ---------------------------------------------------------------- settings


def settings_of(
    node: Node, nodes: Iterable[Node], advertised: Mapping[tuple[int, str], int], configs: dict[str, str]
) -> dict[str, str]:
    """Returns a node's settings, with the controllers among them.

    Args:
        node: The node.
        nodes: All nodes of the cluster.
        advertised: Ports through which others reach a listener, by node id and listener, where they differ.
        configs: Further settings; they win.
    """
    listeners, told = [], []
    for name, port in node.ports.items():
        listeners.append(f"{name}://{HOST}:{port}")
        told.append(f"{name}://{HOST}:{advertised.get((node.id, name), port)}")
    voters = [
        f"{each.id}@{HOST}:{advertised.get((each.id, CONTROLLERS), each.ports[CONTROLLERS])}"
        for each in nodes
        if each.is_controller
    ]
    settings = {
        "node.id": str(node.id),
        "process.roles": ",".join(node.roles),
        "log.dirs": str(node.data_dir),
        "listeners": ",".join(listeners),
        "advertised.listeners": ",".join(told),
        "listener.security.protocol.map": ",".join(
            f"{name}:PLAINTEXT" for name in (CLIENTS, BETWEEN_BROKERS, CONTROLLERS)
        ),
        "controller.listener.names": CONTROLLERS,
        "controller.quorum.voters": ",".join(voters),
    }
    if BETWEEN_BROKERS in node.ports:
        settings["inter.broker.listener.name"] = BETWEEN_BROKERS
    return settings | configs


def replication_settings(brokers: int) -> dict[str, str]:
    """Returns the default replication factor of topics: three, if there are as many brokers."""
    replicas = str(min(REPLICAS_MAX, brokers))
    return {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": str(min(2, brokers)),
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": str(min(2, brokers)),
    }


# ---------------------------------------------------------------- writing


def prepare(
    node: Node, settings: Mapping[str, str], cluster_id: str, options: FormatOptions | None = None
) -> bool:
    """Writes a node's server.properties and formats its directory; returns whether that was new.

    Args:
        node: The node.
        settings: Its settings.
        cluster_id: The cluster's id.
        options: How to format; default: as a node whose settings name the controllers.

    Raises:
        ConfigError, DataDirectoryError, OSError: The message says what is wrong and what to do.
    """
    plan = format_plan(settings, options or FormatOptions(cluster_id=cluster_id, ignore_formatted=True))
    node.directory.parent.mkdir(parents=True, exist_ok=True)
    node.directory.mkdir(mode=0o700, exist_ok=True)
    lines = "".join(f"{name}={_escaped(value)}\n" for name, value in settings.items())
    write_secret(node.config_file, (_WRITTEN + lines).encode())
    carry_out(plan)
    return bool(plan.new)


def _escaped(value: str) -> str:
    """A value as java.util.Properties reads it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


def listed(ids: Iterable[int]) -> str:
    """Returns ids for a message."""
    return ", ".join(map(str, ids))


def text_of(value: object) -> str:
    """Returns a setting's value as text: `true` for True, items of a list separated by commas."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(text_of, value))
    return str(value)
