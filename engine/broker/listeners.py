"""`listeners` and `advertised.listeners`: parsed, checked, and completed with the ports that were bound."""

from typing import NamedTuple

from bowstring.engine.configs import BrokerConfigs, ConfigError


class Listener(NamedTuple):
    """Where clients connect: a name, a host ("" for all interfaces), a port, and its security protocol."""

    name: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"


def parse_listener(text: str) -> tuple[str, str, int]:
    """Name, host and port of ``NAME://host:port``; an IPv6 host stands in brackets.

    Raises:
        ConfigError: It is not of that form.
    """
    name, separator, address = text.strip().partition("://")
    host, colon, port = address.rpartition(":")
    if not (separator and name and colon and port.isdigit() and int(port) <= 65535):
        raise ConfigError(f"'{text}' is not a listener; write NAME://host:port, such as PLAINTEXT://:9092")
    return name.upper(), host.removeprefix("[").removesuffix("]"), int(port)


def client_listeners(configs: BrokerConfigs) -> list[Listener]:
    """The listeners that serve clients: `listeners` without those of the controller role.

    Raises:
        ConfigError: Malformed, two of one name, without a known protocol, or with one that is not there yet.
    """
    protocols = dict(
        pair.strip().upper().split(":", 1)
        for pair in configs.value("listener.security.protocol.map").split(",")
        if ":" in pair
    )
    controllers = {name.upper() for name in configs.value("controller.listener.names")}
    found: dict[str, Listener] = {}
    for text in configs.value("listeners"):
        name, host, port = parse_listener(text)
        if name in found:
            raise ConfigError(f"listeners: two listeners are called {name}; each needs a name of its own")
        if name in controllers:
            continue
        protocol = protocols.get(name)
        if protocol is None:
            raise ConfigError(
                f"listeners: no security protocol for {name}; "
                f"add {name}:PLAINTEXT to listener.security.protocol.map"
            )
        if protocol != "PLAINTEXT":
            raise ConfigError(f"listeners: {name} asks for {protocol}, and only PLAINTEXT is there so far")
        found[name] = Listener(name, host, port, protocol)
    if not found:
        raise ConfigError("listeners: none is left for clients; add PLAINTEXT://:9092")
    return list(found.values())


def advertised_listeners(configs: BrokerConfigs, bound: list[Listener]) -> list[Listener]:
    """What metadata tells clients, in the order of `bound`, whose ports are those really bound.

    Raises:
        ConfigError: `advertised.listeners` names one that does not exist, or an address nobody can reach.
    """
    given: dict[str, tuple[str, int]] = {}
    for text in configs.value("advertised.listeners") or []:
        name, host, port = parse_listener(text)
        given[name] = (host, port)
    # Controllers are advertised too, in Kafka's own example file; here nobody asks for them.
    unknown = set(given) - {parse_listener(text)[0] for text in configs.value("listeners")}
    if unknown:
        raise ConfigError(f"advertised.listeners: {sorted(unknown)[0]} is not among listeners")
    advertised = []
    for listener in bound:
        host, port = given.get(listener.name, (listener.host, listener.port))
        if host in ("0.0.0.0", "::"):
            if listener.name in given:
                raise ConfigError(f"advertised.listeners: {host} is no address to reach this broker at")
            host = ""
        advertised.append(listener._replace(host=host or _own_name(), port=port or listener.port))
    return advertised


def _own_name() -> str:
    import socket

    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "localhost"
    return name
