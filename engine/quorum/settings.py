"""Reads the configs of the quorum, and refuses those that cannot work."""

from typing import Final, NamedTuple

from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.raft.config import QuorumConfig
from bowstring.engine.raft.voters import Node, VoterSet, configured_voters
from bowstring.protocol.whole_numbers import whole_number

BROKER: Final = "broker"
CONTROLLER: Final = "controller"
_FIRST_BOOTSTRAP_ID: Final = -2
_VOTERS: Final = "controller.quorum.voters"
_BOOTSTRAP: Final = "controller.quorum.bootstrap.servers"


class QuorumSettings(NamedTuple):
    """What the configs say about the quorum.

    Attributes:
        roles: `broker`, `controller` or both.
        listener: The first of controller.listener.names, through which controllers are reached.
        voters: controller.quorum.voters; empty with voters in the log.
        bootstrap: Nodes to query for the leader, with ids below -1.
        config: Timeouts and sizes.
    """

    roles: frozenset[str]
    listener: str
    voters: tuple[Node, ...]
    bootstrap: tuple[Node, ...]
    config: QuorumConfig

    @property
    def voter_set(self) -> VoterSet:
        """The configured voters."""
        return configured_voters(self.voters, self.listener)


def quorum_settings(configs: BrokerConfigs, node_id: int) -> QuorumSettings:
    """Returns the settings from the configs.

    Raises:
        ConfigError: They contradict each other or cannot be read.
    """
    value = configs.value
    roles = frozenset(value("process.roles"))
    names = [name.upper() for name in value("controller.listener.names")]
    voters = tuple(_voter(text) for text in value(_VOTERS))
    servers = [_address(text) for text in value(_BOOTSTRAP)]
    bootstrap = tuple(
        Node(_FIRST_BOOTSTRAP_ID - index, host, port) for index, (host, port) in enumerate(servers)
    )
    if not roles:
        raise ConfigError("process.roles is empty; set broker, controller, or broker,controller")
    if not names:
        raise ConfigError(
            "controller.listener.names is empty; name the listener of controllers, such as CONTROLLER"
        )
    _check_voters(voters, node_id, roles)
    if roles != {BROKER, CONTROLLER} and not voters and not bootstrap:
        raise ConfigError(
            f"process.roles={','.join(sorted(roles))} needs a quorum: set {_BOOTSTRAP}=host:port,… (or "
            f"{_VOTERS}=id@host:port,… in a cluster with configured voters)"
        )
    config = QuorumConfig(
        election_timeout_ms=value("controller.quorum.election.timeout.ms"),
        election_backoff_max_ms=value("controller.quorum.election.backoff.max.ms"),
        fetch_timeout_ms=value("controller.quorum.fetch.timeout.ms"),
        request_timeout_ms=value("controller.quorum.request.timeout.ms"),
        retry_backoff_ms=value("controller.quorum.retry.backoff.ms"),
        append_linger_ms=value("controller.quorum.append.linger.ms"),
        fetch_max_bytes=value("controller.quorum.fetch.max.bytes"),
        fetch_snapshot_max_bytes=value("controller.quorum.fetch.snapshot.max.bytes"),
        auto_join=value("controller.quorum.auto.join.enable"),
    )
    if not bootstrap:
        # As in Kafka: with configured voters, an observer queries any of them.
        bootstrap = tuple(
            Node(_FIRST_BOOTSTRAP_ID - index, node.host, node.port) for index, node in enumerate(voters)
        )
    return QuorumSettings(roles, names[0], voters, bootstrap, config)


def _check_voters(voters: tuple[Node, ...], node_id: int, roles: frozenset[str]) -> None:
    ids = [node.id for node in voters]
    twice = next((id for id in ids if ids.count(id) > 1), None)
    if twice is not None:
        raise ConfigError(f"{_VOTERS} names node {twice} twice; give each controller an id of its own")
    addresses = [node[1:] for node in voters]
    shared = next((each for each in addresses if addresses.count(each) > 1), None)
    if shared is not None:
        raise ConfigError(
            f"{_VOTERS} has two controllers at {shared[0]}:{shared[1]}; each needs an address of its own"
        )
    if not voters:
        return
    listed = ", ".join(map(str, ids))
    if CONTROLLER in roles and node_id not in ids:
        raise ConfigError(
            f"node.id={node_id} is not in {_VOTERS} (nodes {listed}); a controller must be one of its "
            "voters: correct node.id, or add the node to the setting on all nodes"
        )
    if CONTROLLER not in roles and node_id in ids:
        raise ConfigError(
            f"node.id={node_id} is in {_VOTERS} (nodes {listed}), but process.roles has no controller; give "
            "this broker another node.id, or add the role"
        )


def _voter(text: str) -> Node:
    id, at, address = text.strip().partition("@")
    node_id = whole_number(id.strip())
    if not at or node_id is None:
        raise ConfigError(f"{_VOTERS}: '{text}' is not a voter; write id@host:port, such as 1@node1:9093")
    host, port = _parsed(address, f"{_VOTERS}: '{text}' is not a voter; write id@host:port")
    return Node(node_id, host, port)


def _address(text: str) -> tuple[str, int]:
    return _parsed(text, f"{_BOOTSTRAP}: '{text}' is not an address; write host:port, such as node1:9093")


def _parsed(address: str, wrong: str) -> tuple[str, int]:
    host, colon, port = address.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    number = whole_number(port, 65535)
    if not colon or not host or not number:
        raise ConfigError(wrong)
    return host, number
