"""Reads what a registry is started with."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bowstring.clients.errors import ConfigError
from bowstring.registry.registry_defaults import RegistryDefaults
from bowstring.schemas.compatibility import LEVELS
from bowstring.web import listening
from bowstring.web.credentials import LOGIN_SETTINGS, has_sasl, security_settings
from bowstring.web.listening import Listening

PORT_DEFAULT = 8081
BOOTSTRAP_DEFAULT = "localhost:9092"
BODY_MIB_DEFAULT = 4


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """What a registry serves, to whom, and where it keeps schemas.

    Attributes:
        listening: the address of its API.
        bootstrap_servers: of the cluster that keeps the schemas, as `host:port,…`.
        security: settings of TLS and SASL of its own clients by canonical names. Never shown.
        advertised_url: where other registries reach this one; None for the address that it listens on.
        topic: keeps the schemas.
        group_id: elects the leader of the registries.
        eligible: whether this registry may lead.
        replication_factor: of a topic that it creates; the cluster may have fewer brokers.
        sign_in: whether each client logs in with a user or a token of the cluster.
        listen_unauthenticated: allows an address that other machines reach, although nobody logs in.
        access_rules: path of a TOML file that says who may do what; None: everybody everything.
        leader_authorities: PEM file of the authorities to trust when writes go to the leader by https.
        body_bytes_max: of a request.
        requests_per_s: of each user or address; 0 for no bound.
        access_log: whether each request is written to stderr.
        defaults: of the API.
    """

    listening: Listening
    bootstrap_servers: str = BOOTSTRAP_DEFAULT
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)
    advertised_url: str | None = None
    topic: str = "_schemas"
    group_id: str = "schema-registry"
    eligible: bool = True
    replication_factor: int = 3
    sign_in: bool = False
    listen_unauthenticated: bool = False
    access_rules: str | None = None
    leader_authorities: str | None = None
    body_bytes_max: int = BODY_MIB_DEFAULT << 20
    requests_per_s: float = 0.0
    access_log: bool = False
    defaults: RegistryDefaults = field(default_factory=RegistryDefaults)

    @property
    def knows_users(self) -> bool:
        """Whether clients say who they are: by a log-in or a certificate."""
        return self.sign_in or self.listening.client_certificates == "required"

    def check(self) -> None:
        """Refuses options that contradict each other, or that let other machines in without a log-in.

        Raises:
            ConfigError: they do; the message says what to change.
        """
        self.listening.check()
        if self.sign_in and not has_sasl(self.security):
            raise ConfigError(
                "clients can log in only to a cluster with SASL: set security.protocol=SASL_SSL (or "
                "SASL_PLAINTEXT) and sasl.mechanism in the file of --command-config"
            )
        if has_sasl(self.security) and not any(name in self.security for name in LOGIN_SETTINGS):
            raise ConfigError(
                "the registry needs a user of its own to keep schemas in the cluster: set sasl.username and "
                "sasl.password (or a token) in the file of --command-config"
            )
        if not (self.listening.is_loopback or self.knows_users or self.listen_unauthenticated):
            raise ConfigError(
                f"--listen {self.listening.host} lets other machines in, and nobody logs in: add --sign-in "
                "for a cluster with SASL, --client-certificates required, or --listen-unauthenticated if "
                "everybody may change schemas"
            )
        if self.body_bytes_max < 1 or self.requests_per_s < 0 or self.replication_factor < 1:
            raise ConfigError(
                "--max-body-mib and --replication-factor must be at least 1, --requests-per-s at least 0"
            )


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the options of a registry, but those of its address, to a command line."""
    _add_store(parser)
    _add_access(parser)


def _add_store(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        *("--bootstrap-server", "-b"),
        default=os.environ.get("BOWSTRING_BOOTSTRAP_SERVERS", BOOTSTRAP_DEFAULT),
        metavar="HOST:PORT,…",
        help=f"brokers to contact first (default {BOOTSTRAP_DEFAULT})",
    )
    add(
        "--command-config",
        default=os.environ.get("BOWSTRING_COMMAND_CONFIG"),
        metavar="FILE",
        help="properties file with settings of TLS and SASL for the registry's own clients",
    )
    add("--advertised-url", metavar="URL", help="where other registries reach this one (default: --listen)")
    add("--topic", default="_schemas", help="topic that keeps the schemas (default _schemas)")
    add(
        "--group",
        default="schema-registry",
        metavar="ID",
        help="group that elects the leader (default schema-registry)",
    )
    add("--follower", action="store_true", help="never lead; writes go to the leader")
    add("--leader-authorities", metavar="FILE", help="PEM certificates to trust a leader with https by")
    add(
        "--replication-factor",
        type=int,
        default=3,
        metavar="N",
        help="of a topic that is created (default 3)",
    )
    add(
        "--compatibility",
        choices=LEVELS,
        default="BACKWARD",
        help="level of subjects without a config (default BACKWARD)",
    )


def _add_access(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--sign-in", action="store_true", help="clients log in as users of the cluster")
    add(
        "--listen-unauthenticated",
        action="store_true",
        help="allow an address that other machines can reach, although nobody logs in",
    )
    add(
        "--access-rules",
        metavar="FILE",
        help="TOML file that says which user may do what with which subject",
    )
    add(
        "--max-body-mib",
        type=int,
        default=BODY_MIB_DEFAULT,
        metavar="MIB",
        help=f"largest body of a request (default {BODY_MIB_DEFAULT})",
    )
    add(
        "--requests-per-s",
        type=float,
        default=0.0,
        metavar="N",
        help="bound of each user, or of each address where nobody logs in (default 0: none)",
    )
    add("--access-log", action="store_true", help="write each request to stderr")


def options_of(given: Namespace, at: Listening | None = None) -> RegistryOptions:
    """Returns the options of a command line.

    Args:
        given: of a parser with `add_arguments`.
        at: the address; None for the one of `listening.add_arguments`.

    Raises:
        ConfigError: options are wrong, or the file of --command-config cannot be read.
    """
    found = RegistryOptions(
        listening=listening.of_arguments(given) if at is None else at,
        bootstrap_servers=given.bootstrap_server,
        security=security_settings(given.command_config),
        advertised_url=given.advertised_url,
        topic=given.topic,
        group_id=given.group,
        eligible=not given.follower,
        replication_factor=given.replication_factor,
        sign_in=given.sign_in,
        listen_unauthenticated=given.listen_unauthenticated,
        access_rules=given.access_rules,
        leader_authorities=given.leader_authorities,
        body_bytes_max=given.max_body_mib << 20,
        requests_per_s=given.requests_per_s,
        access_log=given.access_log,
        defaults=RegistryDefaults(compatibility=given.compatibility),
    )
    found.check()
    return found
