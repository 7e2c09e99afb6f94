"""Decides where the nodes of a directory find their controllers: in their settings, or in the metadata log.

Controllers in the log (KIP-853) can be added and removed while the cluster runs, and the log has their
ports, too: they stay. New directories use the log; those of earlier versions keep their settings.
"""

import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from bowstring.cluster import layout
from bowstring.cluster.layout import HOST, Node
from bowstring.engine.broker.node_format import controller_ports
from bowstring.engine.configs import ConfigError
from bowstring.engine.configs.files import load
from bowstring.engine.quorum.formatting import FormatOptions
from bowstring.engine.quorum.state_file import voters_in_log
from bowstring.protocol.ids import format_uuid, random_uuid

VOTERS: Final = "controller.quorum.voters"
_BOOTSTRAP: Final = "controller.quorum.bootstrap.servers"


def have_run(directory: Path) -> bool:
    """Whether a node of the directory has ever been started: then the cluster has its first voters."""
    return bool(_answers(directory))


def _answers(directory: Path) -> list[bool]:
    """Returns whether voters are in the log, for each node that has run, as it stored it."""
    found = [voters_in_log(path) for path in directory.glob("node-*/data")]
    return [each for each in found if each is not None]


def are_in_log(directory: Path) -> bool:
    """Whether the controllers of a directory are in its metadata log, or will be because it is new.

    Raises:
        ConfigError, OSError: A node's settings or state cannot be read.
    """
    answers = _answers(directory)
    if answers:
        return any(answers)
    return not any(VOTERS in load(path, []) for path in layout.settings_files(directory))


def kept_ports(directory: Path) -> dict[int, int]:
    """Returns the ports of controllers by node id: those in the log, as the nodes' settings have them.

    Raises:
        ConfigError, OSError: A node's settings cannot be read.
    """
    found = {}
    if any(_answers(directory)):
        for path in layout.settings_files(directory):
            settings = load(path, [])
            if layout.CONTROLLER in settings["process.roles"].split(","):
                (found[int(settings["node.id"])],) = controller_ports(settings)
    return found


def check_in_settings(directory: Path) -> None:
    """Refuses a directory for nodes that get other ports at each start.

    Raises:
        ConfigError: Its controllers are in the metadata log.
    """
    if any(_answers(directory)):
        raise ConfigError(
            f"{directory} holds a cluster whose controllers are in its metadata, with their ports; run it "
            f"with `bowstring cluster start --data {directory}`, or name another directory"
        )


def settings_without(settings: Mapping[str, str], nodes: Iterable[Node]) -> dict[str, str]:
    """Returns a node's settings with the addresses at which it finds the controllers in the log, and without
    a list of them.
    """
    ports = [node.ports[layout.CONTROLLERS] for node in nodes if node.is_controller]
    servers = ",".join(f"{HOST}:{port}" for port in ports)
    kept = {name: value for name, value in settings.items() if name != VOTERS}
    return {_BOOTSTRAP: servers} | kept


def format_options(node: Node, nodes: Iterable[Node], cluster_id: str, *, first: bool) -> FormatOptions:
    """Returns how to format a node with controllers in the log, if it is not formatted yet.

    Ids of first directories derive from the cluster's and the node's: when formatting is interrupted, the
    next start gives the other nodes the ids that the first ones expect.

    Args:
        node: The node.
        nodes: All nodes.
        cluster_id: The cluster's id.
        first: No node has been started yet. A later node is no voter until it is added.
    """
    if not node.is_controller:
        return FormatOptions(cluster_id=cluster_id, ignore_formatted=True)
    if not first:
        return FormatOptions(cluster_id=cluster_id, ignore_formatted=True, no_initial_controllers=True)
    controllers = [
        f"{each.id}@{HOST}:{each.ports[layout.CONTROLLERS]}:{_directory_id(cluster_id, each.id)}"
        for each in nodes
        if each.is_controller
    ]
    return FormatOptions(cluster_id=cluster_id, ignore_formatted=True, initial_controllers=controllers)


def _directory_id(cluster_id: str, node_id: int) -> str:
    return format_uuid(random_uuid(random.Random(f"{cluster_id}/{node_id}").randbytes))


def how_to_vote_again(node: Node) -> str:
    """Describes what to do for a controller whose directory was lost: others rely on its promises."""
    return (
        f"node {node.id} has a new directory, and is no voter before its old one is removed: "
        f"bowstring quorum remove {node.id}, then bowstring quorum add --config {node.config_file}"
    )
