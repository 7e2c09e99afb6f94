"""Starts what a broker runs beside itself: the console, and the HTTP services for schemas and records."""

import os
import socket
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.requests.listeners import Listener
from bowstring.supervised_child import (
    ChildProgram,
    SupervisedChild,
    address_of,
    nearest_listener,
    security_of,
)

NEEDED: Final = {
    "registry": ("uvicorn", "httptools"),
    "rest": ("uvicorn", "httptools", "msgspec"),
}
"""Packages of the extras, by service."""
_HOST: Final = "127.0.0.1"


class HttpPorts:
    """The addresses of the HTTP services, bound by the broker.

    A client that connects before the services have started waits; they keep their ports if they start again.

    Args:
        registry: port of the schema registry on loopback, 0 for a free one; None for no registry.
        rest: the same of the REST proxy.
        allowed_origins: of pages that may call both (CORS), with commas between them; `*` for all.

    Attributes:
        registry_url: such as `http://127.0.0.1:8081`; None without a registry.
        rest_url: likewise.

    Raises:
        ConfigError: a port is in use, a package is missing, or an origin is none.
    """

    def __init__(self, registry: int | None, rest: int | None, allowed_origins: str = "") -> None:
        self._sockets: dict[str, socket.socket] = {}
        self._allowed_origins = allowed_origins
        if allowed_origins:
            _check_origins(allowed_origins)
        for name, port in (("registry", registry), ("rest", rest)):
            if port is not None:
                _require(name)
                try:
                    self._sockets[name] = socket.create_server((_HOST, port), backlog=1024)
                except OSError as error:
                    self.close()
                    raise ConfigError(
                        f"the {name} cannot listen on {_HOST}:{port}: {error.strerror}; choose another port"
                    ) from error
        self.registry_url, self.rest_url = self._url("registry"), self._url("rest")

    def _url(self, name: str) -> str | None:
        bound = self._sockets.get(name)
        return None if bound is None else f"http://{_HOST}:{bound.getsockname()[1]}"

    def close(self) -> None:
        """Frees the addresses: clients are refused from now on."""
        for each in self._sockets.values():
            each.close()

    def start(self, listeners: Sequence[Listener], configs: BrokerConfigs) -> SupervisedChild:
        """Starts the services: one process for both.

        Args:
            listeners: the broker's, with their ports.
            configs: the broker's.
        """
        listener = nearest_listener(listeners)
        arguments = ["-m", "bowstring.http_services", "--bootstrap-server", address_of(listener)]
        for name, each in self._sockets.items():
            arguments += [f"--{name}-socket", str(each.fileno())]
        if self._allowed_origins:
            arguments += ["--allow-origin", self._allowed_origins]
        program = ChildProgram(
            "HTTP services",
            arguments,
            "restart the broker, or run `bowstring registry` and `bowstring rest`",
            security_of(listener, configs),
            [each.fileno() for each in self._sockets.values()],
        )
        return SupervisedChild(program)


def _check_origins(text: str) -> None:
    from bowstring.clients.errors import ClientError
    from bowstring.web import listening

    try:
        listening.Listening(0, allowed_origins=listening.origins_of(text)).check()
    except ClientError as error:
        raise ConfigError(str(error)) from error


def _require(name: str) -> None:
    for package in NEEDED[name]:
        if find_spec(package) is None:
            raise ConfigError(
                f"the {name} needs the package {package}: install it with pip install 'bowstring[{name}]'"
            )


def start_console(
    listeners: Sequence[Listener], configs: BrokerConfigs, port: int, registry_url: str | None = None
) -> SupervisedChild:
    """Starts the console.

    Args:
        listeners: the broker's, with their ports.
        configs: the broker's, for the mechanism that users sign in with.
        port: of the pages, on loopback; 0 for a free one.
        registry_url: of the registry beside the broker, which shows values by their schemas.
    """
    listener = nearest_listener(listeners)
    arguments = ["-m", "bowstring", "console", "--until-stdin-ends"]
    arguments += ["--bootstrap-server", address_of(listener), "--port", str(port)]
    # Where users sign in, the registry needs a log-in, too, and the console has none of its own.
    if registry_url is not None and not listener.has_sasl and not os.environ.get("BOWSTRING_SCHEMA_REGISTRY"):
        arguments += ["--schema-registry", registry_url]
    advice = "run `bowstring console` or restart the broker"
    return SupervisedChild(ChildProgram("console", arguments, advice, security_of(listener, configs)))
