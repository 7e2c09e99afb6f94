"""Parses and checks `listeners` and `advertised.listeners`, and fills in the ports that were bound."""

import socket
from typing import Final, NamedTuple

from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.configs.listener_configs import listener_protocol, listener_value
from bowstring.protocol.whole_numbers import whole_number

ALL_INTERFACES: Final = "PLAINTEXT://:9092"


class Listener(NamedTuple):
    """One listener: a name, a host ("" for all interfaces), a port, its security protocol, and whether it is
    for controllers.
    """

    name: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"
    is_controller: bool = False

    @property
    def has_sasl(self) -> bool:
        """Whether clients authenticate with SASL."""
        return self.protocol.startswith("SASL_")

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol.endswith("SSL")


WITHIN: Final = Listener("", "", 0, is_controller=True)
"""That of requests of this process to its own controller."""


def parse_listener(text: str, setting: str = "listeners") -> tuple[str, str, int]:
    """Returns name, host and port of ``NAME://host:port``; an IPv6 host is in brackets.

    Args:
        text: What `setting` has.
        setting: For the error.

    Raises:
        ConfigError: The text does not have that form.
    """
    name, separator, address = text.strip().partition("://")
    host, colon, port = address.rpartition(":")
    number = whole_number(port, 65535)
    if not (separator and name and colon) or number is None:
        raise ConfigError(
            f"{setting}: '{text}' is not a listener; write NAME://host:port, such as PLAINTEXT://:9092"
        )
    return name.upper(), host.removeprefix("[").removesuffix("]"), number


def client_listeners(configs: BrokerConfigs) -> list[Listener]:
    """Returns the listeners for clients: `listeners` without those of the controller role.

    Raises:
        ConfigError: A listener is malformed, has the name of another one, has no or an unsupported security
            protocol, or is open to other machines without explicit permission.
    """
    found = _checked_listeners(configs, of_controllers=False)
    if not found:
        raise ConfigError("listeners has no listener for clients; add PLAINTEXT://:9092")
    return found


def controller_listeners(configs: BrokerConfigs, *, may_lack: bool = False) -> list[Listener]:
    """Returns the listeners of the controller role, in the order of controller.listener.names.

    Args:
        may_lack: There may be none, because no setting names another node: then no other reaches this one.

    Raises:
        ConfigError: As for `client_listeners`.
    """
    names = [name.upper() for name in configs.value("controller.listener.names")]
    found = _checked_listeners(configs, of_controllers=True)
    if not found and not may_lack:
        raise ConfigError(
            f"process.roles has controller, but listeners={','.join(configs.value('listeners'))} has none of "
            f"controller.listener.names={','.join(names)}; add {names[0]}://127.0.0.1:9093"
        )
    return sorted(found, key=lambda each: names.index(each.name))


def _checked_listeners(configs: BrokerConfigs, *, of_controllers: bool) -> list[Listener]:
    controllers = {name.upper() for name in configs.value("controller.listener.names")}
    found: dict[str, Listener] = {}
    open_to_all = configs.value("bowstring.listen.unauthenticated")
    for text in _wanted(configs):
        name, host, port = parse_listener(text)
        if name in found:
            raise ConfigError(f"listeners: two listeners are called {name}; give each its own name")
        if (name in controllers) is not of_controllers:
            continue
        protocol = listener_protocol(configs, name)
        found[name] = Listener(name, host, port, protocol, of_controllers)
        if not (open_to_all or _authenticates(configs, found[name]) or is_loopback(host)):
            raise ConfigError(
                f"listeners: {text.strip()} would let every machine that can reach this one read, write and "
                "delete everything, because its clients do not authenticate; listen on 127.0.0.1, or set "
                f"{name}:SASL_SSL in listener.security.protocol.map (or {name}:SSL, with "
                f"listener.name.{name.lower()}.ssl.client.auth=required), or allow it with "
                "--listen-unauthenticated (in a file: bowstring.listen.unauthenticated=true)"
            )
    return list(found.values())


def _authenticates(configs: BrokerConfigs, listener: Listener) -> bool:
    """Whether every client of a listener proves who it is."""
    if listener.has_sasl:
        return True
    return listener.has_tls and bool(listener_value(configs, listener.name, "ssl.client.auth") == "required")


def _wanted(configs: BrokerConfigs) -> list[str]:
    if "listeners" not in configs.static and configs.value("bowstring.listen.unauthenticated"):
        configs.static["listeners"] = ALL_INTERFACES  # reported to clients that request the config
    return list(configs.value("listeners"))


def is_loopback(host: str) -> bool:
    """Returns whether `host` ("" for all interfaces) is reachable only from this machine.

    Resolves names. An unknown name counts as loopback, because nothing can listen on it.
    """
    address = host.partition("%")[0]  # without the interface of an IPv6 address
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return _is_loopback_address(socket.inet_pton(family, address))
        except OSError:
            continue
    if not host or ":" in host:
        return False
    try:
        found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
    except OSError:
        return True
    return all(_is_loopback_address(socket.inet_pton(family, str(to[0]))) for family, *_, to in found)


def _is_loopback_address(packed: bytes) -> bool:
    if len(packed) == 4:
        return packed[0] == 127
    mapped = packed[:12] == bytes(10) + b"\xff\xff" and packed[12] == 127
    return mapped or packed == bytes(15) + b"\x01"


def told_elsewhere(bound: list[Listener], advertised: list[Listener]) -> list[str]:
    """Returns advertised addresses of loopback listeners that belong to another interface."""
    return [
        f"{told.name}://{told.host}:{told.port}"
        for listener, told in zip(bound, advertised, strict=True)
        if told.host not in (listener.host, "localhost")
        and is_loopback(listener.host)
        and not told.host.startswith("127.")
        and told.host != "::1"
    ]


def advertised_listeners(configs: BrokerConfigs, bound: list[Listener]) -> list[Listener]:
    """Returns the advertised listeners for metadata, in the order of `bound`, which has the ports really
    bound.

    Raises:
        ConfigError: `advertised.listeners` names an unknown listener, or an unreachable address.
    """
    given: dict[str, tuple[str, int]] = {}
    for text in configs.value("advertised.listeners") or []:
        name, host, port = parse_listener(text, "advertised.listeners")
        given[name] = (host, port)
    # Kafka's own example file advertises controllers too; no client requests them here.
    unknown = set(given) - {parse_listener(text)[0] for text in _wanted(configs)}
    if unknown:
        raise ConfigError(f"advertised.listeners: {sorted(unknown)[0]} is not among listeners")
    advertised = []
    for listener in bound:
        host, port = given.get(listener.name, (listener.host, listener.port))
        if host in ("0.0.0.0", "::"):
            if listener.name in given:
                raise ConfigError(
                    f"advertised.listeners: clients cannot connect to {host}; name an address that reaches "
                    "this broker"
                )
            host = ""
        advertised.append(listener._replace(host=host or _own_name(), port=port or listener.port))
    return advertised


def _own_name() -> str:
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "localhost"
    return name
