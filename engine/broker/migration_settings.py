"""The server.properties that a handed-over broker starts with."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from bowstring.engine.metadata.image import BrokerImage

OWN_PREFIX: Final = "bowstring."

# A lone broker can have one copy of what its coordinators write, and Kafka wants three by default.
_ONE_COPY: Final = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
_CONTROLLER: Final = "CONTROLLER"
_LOOPBACK: Final = ("localhost", "127.", "::1")
# What is written anew for the one who takes over.
_REPLACED: Final = frozenset(
    {
        "log.dir",
        "broker.id",
        "process.roles",
        "controller.listener.names",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
    }
)


def server_properties(
    to: Literal["kafka", "bowstring"],
    settings: Mapping[str, str],
    *,
    node_id: int,
    directories: Sequence[str],
    broker: BrokerImage | None,
    voters_in_log: bool,
    controller_port: int,
) -> str:
    """The content of a server.properties.

    Args:
        settings: The settings so far; what the other broker knows is taken over.
        broker: The registration in the metadata log: clients find the broker where they did.
        voters_in_log: kraft.version 1; else Kafka must be told who votes.
    """
    made = {name: value for name, value in settings.items() if name not in _REPLACED}
    for name, value in _addresses(broker).items():
        made.setdefault(name, value)
    made |= {"node.id": str(node_id), "log.dirs": ",".join(directories)}
    if to == "kafka":
        made = {name: value for name, value in made.items() if not name.startswith(OWN_PREFIX)}
        made = _ONE_COPY | made | _controller(made, node_id, voters_in_log, controller_port)
    lines = [f"{name}={_escaped(value)}\n" for name, value in made.items()]
    return "# Written by bowstring migrate-dir\n" + "".join(lines)


def _addresses(broker: BrokerImage | None) -> dict[str, str]:
    """Listeners as the broker advertised them; all interfaces unless it was told to keep to itself."""
    if broker is None or not broker.endpoints:
        return {"listeners": "PLAINTEXT://:9092"}
    listeners, advertised = [], []
    for each in broker.endpoints:
        host = f"[{each.host}]" if ":" in each.host else each.host
        bound = host if each.host.startswith(_LOOPBACK) else ""
        listeners.append(f"{each.listener}://{bound}:{each.port}")
        advertised.append(f"{each.listener}://{host}:{each.port}")
    return {"listeners": ",".join(listeners), "advertised.listeners": ",".join(advertised)}


def _controller(made: Mapping[str, str], node_id: int, voters_in_log: bool, port: int) -> dict[str, str]:
    address = f"127.0.0.1:{port}"
    clients = [each for each in made["listeners"].split(",") if not each.strip().startswith(_CONTROLLER)]
    names = {each.partition("://")[0].strip() for each in clients}
    protocols = made.get("listener.security.protocol.map") or ",".join(
        f"{name}:PLAINTEXT" for name in [_CONTROLLER, *sorted(names)]
    )
    quorum = (
        {"controller.quorum.bootstrap.servers": address}
        if voters_in_log
        else {"controller.quorum.voters": f"{node_id}@{address}"}
    )
    return {
        "process.roles": "broker,controller",
        "controller.listener.names": _CONTROLLER,
        "listeners": ",".join([*clients, f"{_CONTROLLER}://{address}"]),
        "listener.security.protocol.map": protocols,
        "inter.broker.listener.name": made.get("inter.broker.listener.name", sorted(names)[0]),
        **quorum,
    }


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\")
