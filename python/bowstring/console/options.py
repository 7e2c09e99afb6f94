"""Reads what the console is started with: the cluster, its settings of TLS and SASL, where to listen."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bowstring.clients.audit import COUNTS_TOPIC
from bowstring.clients.config.security import client_security, environment_security, security_of_properties
from bowstring.clients.errors import ConfigError
from bowstring.security.client_settings import SecuritySettingsError, canonical

PORT_DEFAULT = 8080
HOST_DEFAULT = "127.0.0.1"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
_LOGIN = ("sasl.username", "sasl.password", "sasl.jaas.config")


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """What the console serves, and to whom.

    Attributes:
        bootstrap_servers: brokers to contact first, as `host:port,…`.
        security: settings of TLS and SASL by Kafka's names; None for plain text. Never shown.
        listen: the address that pages are served on.
        port: its port; 0 for a free one.
        write: whether pages may change the cluster.
        sign_in: whether each user signs in with a user name and a password of the cluster.
        listen_unauthenticated: allows an address that other machines reach, although nobody signs in.
        tls_certificate, tls_key: PEM files for https; None for http.
        timeout_s: how long a request to the cluster may take.
        schema_registry: address of a schema registry, for values with schema ids; may have a user and a
            password. Never shown.
        audit_topic: topic of the counts that clients report (docs/how-to/audit.md).
        connect_urls: addresses of clusters of Kafka Connect; may have users and passwords. Never shown.
        connect_config: properties file with the log-in to Connect.
    """

    bootstrap_servers: str = "localhost:9092"
    security: Mapping[str, Any] | None = field(default=None, repr=False)
    listen: str = HOST_DEFAULT
    port: int = PORT_DEFAULT
    write: bool = False
    sign_in: bool = False
    listen_unauthenticated: bool = False
    tls_certificate: str | None = None
    tls_key: str | None = None
    timeout_s: float = 10.0
    schema_registry: str | None = field(default=None, repr=False)
    audit_topic: str = COUNTS_TOPIC
    connect_urls: tuple[str, ...] = field(default=(), repr=False)
    connect_config: str | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the pages."""
        return is_loopback(self.listen)

    @property
    def mechanism(self) -> str:
        """The SASL mechanism that users sign in with; empty without one."""
        return str(canonical(self.security or {}).get("sasl.mechanism", "")).upper()

    def check(self) -> None:
        """Refuses options that contradict each other, or that let other machines in without a sign-in.

        Raises:
            ConfigError: they do; the message says what to change.
        """
        if not self.sign_in:
            client_security(self.security)
        if self.schema_registry is not None:
            from bowstring.clients.registry.registry_client import RegistryClient

            RegistryClient(self.schema_registry)
        if self.connect_urls:
            from bowstring.console.connect.connect_access import clusters_from

            clusters_from(self)
        if self.sign_in and not self._has_sasl():
            raise ConfigError(
                "users can sign in only to a cluster with SASL: set security.protocol=SASL_SSL (or "
                "SASL_PLAINTEXT) and sasl.mechanism in the file of --command-config"
            )
        if self.sign_in and self.mechanism not in MECHANISMS:
            raise ConfigError(
                f"sasl.mechanism is {self.mechanism or 'missing'}; users sign in with one of "
                f"{', '.join(MECHANISMS)}: set it in the file of --command-config"
            )
        if not (self.is_loopback or self.sign_in or self.listen_unauthenticated):
            raise ConfigError(
                f"--listen {self.listen} lets other machines in, and nobody signs in: add --sign-in for a "
                "cluster with SASL, or --listen-unauthenticated if everybody may see the cluster"
            )
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError("https needs both --tls-certificate and --tls-key")

    def _has_sasl(self) -> bool:
        protocol = str(canonical(self.security or {}).get("security.protocol", "")).upper()
        return protocol.startswith("SASL_")

    def security_of(self, user: str, password: str) -> dict[str, Any]:
        """Returns the settings of clients that act as a user."""
        kept = {name: value for name, value in canonical(self.security or {}).items() if name not in _LOGIN}
        return kept | {"sasl.username": user, "sasl.password": password}


def is_loopback(address: str) -> bool:
    """Whether an address, or a name, is of this machine alone."""
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return address == "localhost"


def security_settings(command_config: str | None) -> dict[str, Any] | None:
    """Returns the settings of TLS and SASL of a file and of the environment; the file's win.

    Raises:
        ConfigError: the file cannot be read.
    """
    found: dict[str, Any] = dict(environment_security())
    if command_config is not None:
        from bowstring.security.properties_file import parse_properties

        try:
            entries = parse_properties(Path(command_config).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"--command-config: cannot read {command_config}: {error}") from error
        of_file, _ = security_of_properties({name: value for name, value, _ in entries})
        found |= of_file
    return found or None


def needs_sign_in(security: Mapping[str, Any] | None) -> bool:
    """Whether settings name a protocol with SASL, but no user to log in as.

    Raises:
        ConfigError: two names set one setting to different values.
    """
    try:
        given = canonical(security or {})
    except SecuritySettingsError as error:
        raise ConfigError(str(error)) from error
    if not str(given.get("security.protocol", "")).upper().startswith("SASL_"):
        return False
    mechanism = str(given.get("sasl.mechanism", "")).upper()
    return mechanism in ("", *MECHANISMS) and not any(name in given for name in _LOGIN)
