"""Says where a program listens, and with which certificates; binds the socket."""

from __future__ import annotations

import ipaddress
import re
import socket
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass

from bowstring.clients.errors import ConfigError

HOST_DEFAULT = "127.0.0.1"
CLIENT_CERTIFICATES = ("none", "requested", "required")
_BACKLOG = 1024
_ORIGIN = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class Listening:
    """An address of a program, and its TLS.

    Attributes:
        port: 0 for a free one.
        host: the address; the default is reached from this machine only.
        tls_certificate: PEM file of the certificate chain, for https; None for http.
        tls_key: PEM file of its key.
        tls_client_authorities: PEM file of the authorities that sign certificates of clients.
        client_certificates: "none", "requested" (clients may have one) or "required".
        allowed_origins: of pages that may call (CORS), as `https://app.example.org`; `*` for all.
    """

    port: int
    host: str = HOST_DEFAULT
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_client_authorities: str | None = None
    client_certificates: str = "none"
    allowed_origins: tuple[str, ...] = ()

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the address."""
        return is_loopback(self.host)

    @property
    def scheme(self) -> str:
        """`http` or `https`."""
        return "https" if self.tls_certificate else "http"

    def check(self) -> None:
        """Refuses options that contradict each other.

        Raises:
            ConfigError: they do; the message says what to change.
        """
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"the port is {self.port}; it must be between 0 and 65535")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError("https needs both --tls-certificate and --tls-key")
        for each in self.allowed_origins:
            if each != "*" and _ORIGIN.fullmatch(each) is None:
                raise ConfigError(
                    f"--allow-origin is {each!r}; write origins as https://app.example.org, with commas "
                    "between them, or * for pages of all sites"
                )
        if "*" in self.allowed_origins and self.client_certificates != "none":
            raise ConfigError(
                "--allow-origin * and --client-certificates exclude each other: a browser sends its reader's "
                "certificate for pages of every site; name the origins that may call"
            )
        if self.client_certificates not in CLIENT_CERTIFICATES:
            raise ConfigError(
                f"--client-certificates is {self.client_certificates!r}; choose one of "
                f"{', '.join(CLIENT_CERTIFICATES)}"
            )
        if self.client_certificates != "none":
            if self.tls_certificate is None:
                raise ConfigError("--client-certificates needs https: add --tls-certificate and --tls-key")
            if self.tls_client_authorities is None:
                raise ConfigError(
                    "--client-certificates needs --tls-client-authorities, the PEM file of who signs them"
                )
        elif self.tls_client_authorities is not None:
            raise ConfigError(
                "--tls-client-authorities has no effect: add --client-certificates required (or requested)"
            )

    def bind(self) -> socket.socket:
        """Returns a listening, non-blocking socket.

        Raises:
            ConfigError: the address is unknown or in use.
        """
        host = self.host.strip("[]")
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
        except OSError as error:
            raise ConfigError(f"cannot listen on {self.host}: {error.strerror or error}") from error
        made = socket.socket(family, kind, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            made.listen(_BACKLOG)
        except OSError as error:
            made.close()
            raise ConfigError(
                f"cannot listen on {self.host}:{self.port}: {error.strerror}; choose another port"
            ) from error
        made.setblocking(False)
        return made

    def url(self, bound: socket.socket) -> str:
        """Returns the address of a bound socket, as `http://127.0.0.1:8081`."""
        host, port = bound.getsockname()[:2]
        return f"{self.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def is_loopback(address: str) -> bool:
    """Whether an address, or a name, is of this machine alone."""
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return address == "localhost"


def origins_of(text: str) -> tuple[str, ...]:
    """Returns the origins of an option: those between commas."""
    return tuple(filter(None, map(str.strip, text.split(","))))


def add_arguments(parser: ArgumentParser, port_default: int) -> None:
    """Adds the options of an address to a command line."""
    parser.add_argument(
        "--port", type=int, default=port_default, help=f"port (default {port_default}; 0: any free port)"
    )
    parser.add_argument(
        "--listen", default=HOST_DEFAULT, metavar="ADDRESS", help=f"address (default {HOST_DEFAULT})"
    )
    parser.add_argument("--tls-certificate", metavar="FILE", help="PEM certificate, for https")
    parser.add_argument("--tls-key", metavar="FILE", help="PEM key of the certificate")
    parser.add_argument(
        "--tls-client-authorities", metavar="FILE", help="PEM certificates of who signs clients' certificates"
    )
    parser.add_argument(
        "--client-certificates",
        choices=CLIENT_CERTIFICATES,
        default="none",
        help="whether clients show a certificate (default none)",
    )
    parser.add_argument(
        "--allow-origin",
        default="",
        metavar="ORIGIN,…",
        help="pages that may call (CORS), as https://app.example.org; * for all (default: none)",
    )


def of_arguments(given: Namespace) -> Listening:
    """Returns the address of a command line with the options of `add_arguments`.

    Raises:
        ConfigError: options contradict each other.
    """
    found = Listening(
        port=given.port,
        host=given.listen,
        tls_certificate=given.tls_certificate,
        tls_key=given.tls_key,
        tls_client_authorities=given.tls_client_authorities,
        client_certificates=given.client_certificates,
        allowed_origins=origins_of(given.allow_origin),
    )
    found.check()
    return found
