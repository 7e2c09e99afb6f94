"""Writes the server.properties with which a migrated broker starts."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.configs.broker_configs import why_unenforced
from bowstring.engine.configs.config_key import OWN_PREFIX
from bowstring.engine.configs.files import parse_properties
from bowstring.engine.configs.table import broker_key
from bowstring.engine.metadata.image import BrokerImage
from bowstring.engine.requests.listeners import client_listeners, is_loopback
from bowstring.engine.security.sasl_mechanisms import check_mechanisms

# A lone broker can hold only one copy of the internal topics; Kafka's default is three.
_ONE_COPY: Final = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
_OF_LISTENERS: Final = ("listeners", "controller.listener.names", "listener.security.protocol.map")
_ALLOWED: Final = {"bowstring.listen.unauthenticated": "true"}
_CONTROLLER: Final = "CONTROLLER"
_LOOPBACK: Final = ("localhost", "127.", "::1")
# Settings that are computed again for the broker that takes over.
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
    """Returns the content of a server.properties.

    Args:
        settings: The present settings; those that the other broker supports are kept.
        broker: The registration in the metadata log, so that clients find the broker at the same addresses.
        voters_in_log: kraft.version is 1; otherwise the file must list the voters for Kafka.

    Settings in `unenforced` are written as comments: Bowstring would refuse to start with them.
    """
    made = {name: value for name, value in settings.items() if name not in _REPLACED}
    for name, value in _addresses(broker).items():
        made.setdefault(name, value)
    made |= {"node.id": str(node_id), "log.dirs": ",".join(directories)}
    if to == "kafka":
        made = {name: value for name, value in made.items() if not name.startswith(OWN_PREFIX)}
        made = _ONE_COPY | made | _controller(made, node_id, voters_in_log, controller_port)
    refused = unenforced(made) if to == "bowstring" else {}
    lines = [f"{'# ' if name in refused else ''}{name}={_escaped(value)}\n" for name, value in made.items()]
    return "# Written by bowstring migrate-dir\n" + "".join(lines)


def unenforced(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns why Bowstring refuses settings that request a protection which it lacks, by name.

    Invalid values are not among them: a start refuses them with its own error.
    """
    found = {}
    for name, value in settings.items():
        try:
            reason = why_unenforced(name, value)
        except ConfigError:
            continue
        if reason is not None:
            found[name] = reason
    return found


def refusal(properties: str) -> str | None:
    """Returns why Bowstring cannot listen as a server.properties says; None when it can."""
    settings = {name: value for name, value, _ in parse_properties(properties)}
    used = {name: text for name, text in settings.items() if name in _OF_LISTENERS or _is_of_sasl(name)}
    try:
        configs = BrokerConfigs(used | _ALLOWED)
        for each in client_listeners(configs):
            if each.has_sasl:
                check_mechanisms(configs, each.name, each.protocol)
    except ConfigError as error:
        return str(error)
    return None


def _is_of_sasl(name: str) -> bool:
    if not name.startswith(("sasl.", "listener.name.")):
        return False
    try:
        return broker_key(name).name.startswith("sasl.")
    except ConfigError:
        return False


def open_listeners(properties: str) -> list[str]:
    """Returns the client listeners of a server.properties, as Bowstring reads them, that other machines can
    reach without authentication.
    """
    settings = {name: value for name, value, _ in parse_properties(properties)}
    allowed = {name: settings[name] for name in _OF_LISTENERS if name in settings} | _ALLOWED
    try:
        listeners = client_listeners(BrokerConfigs(allowed))
    except ConfigError:
        return []  # a start refuses these listeners with a clear error
    return [
        f"{each.name}://{each.host}:{each.port}"
        for each in listeners
        if not (each.has_sasl or is_loopback(each.host))
    ]


def _addresses(broker: BrokerImage | None) -> dict[str, str]:
    """Returns listeners for the advertised addresses; on all interfaces unless only loopback was
    advertised.
    """
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
