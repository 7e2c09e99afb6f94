"""Gives a cluster on this machine TLS, SCRAM users and an authorizer: `bowstring cluster start --secure`.

The cluster's directory gets `security`, which only its owner can read: a development authority, the brokers'
certificate, the passwords of two users and the client settings of one of them. Later starts use it again.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bowstring.cluster import layout
from bowstring.cluster.certificates import AUTHORITY, BROKER, Authority
from bowstring.cluster.secret_files import write_secret
from bowstring.engine.configs import ConfigError
from bowstring.engine.quorum.formatting import FormatOptions

# Users that may do everything: people, and brokers among one another.
ADMIN, BROKERS = "admin", "broker"
_CLIENTS: Final = "SASL_SSL"
_MECHANISM: Final = "SCRAM-SHA-512"
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class SecureCluster:
    """The security of a cluster in a directory. A new one is made, one that is there is used again.

    Args:
        directory: the cluster's.

    Attributes:
        admin_file: client settings of the user `admin`.

    Raises:
        ConfigError: the directory has a cluster without security, or files are missing or wrong.
        MissingPackageError: the package `cryptography` is not installed.
    """

    def __init__(self, directory: Path) -> None:
        folder = directory / layout.SECURITY
        if layout.settings_files(directory) and not layout.is_secure(directory):
            raise ConfigError(
                f"{directory} has a cluster without security, whose users and rules are not there: "
                "start a new one in another directory"
            )
        self._authority = folder / AUTHORITY
        self._certificate = folder / BROKER
        self.admin_file = folder / f"{ADMIN}.properties"
        authority = Authority(folder)
        if not self._certificate.exists():
            authority.issue_broker()
        passwords = folder / layout.PASSWORDS
        if not passwords.exists():
            made = {name: secrets.token_urlsafe(24) for name in (ADMIN, BROKERS)}
            write_secret(passwords, json.dumps(made).encode())
        self._passwords = _read(passwords)
        write_secret(self.admin_file, self._client_settings(ADMIN).encode())
        self._environment = folder / f"{ADMIN}.env"

    def settings(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Returns a node's settings with security.

        Args:
            settings: of the node, with plain listeners.
        """
        secure = {**settings}
        for name in ("listeners", "advertised.listeners"):
            secure[name] = secure[name].replace(f"{layout.CLIENTS}://", f"{_CLIENTS}://")
        clients = f"listener.name.{_CLIENTS.lower()}"
        controllers = f"listener.name.{layout.CONTROLLERS.lower()}"
        return secure | {
            "listener.security.protocol.map": f"{_CLIENTS}:SASL_SSL,{layout.CONTROLLERS}:SSL",
            "inter.broker.listener.name": _CLIENTS,
            "sasl.enabled.mechanisms": _MECHANISM,
            "sasl.mechanism.inter.broker.protocol": _MECHANISM,
            f"{clients}.{_MECHANISM.lower()}.sasl.jaas.config": self._jaas(BROKERS),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._certificate),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._authority),
            # Controllers log in with their certificate, CN=broker: users are only known after the metadata.
            f"{controllers}.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
            "authorizer.class.name": _AUTHORIZER,
            "super.users": f"User:{ADMIN};User:{BROKERS}",
        }

    def format_options(self, options: FormatOptions | None, cluster_id: str) -> FormatOptions:
        """Returns how to format a node, so that the first metadata has the users.

        Args:
            options: how to format it otherwise; None: as a node whose settings name the controllers.
            cluster_id: the cluster's id.
        """
        users = [
            f"{_MECHANISM}=[name={name},password={password}]" for name, password in self._passwords.items()
        ]
        given = options or FormatOptions(cluster_id=cluster_id, ignore_formatted=True)
        return dataclasses.replace(given, add_scram=users)

    def write_environment(self, servers: str) -> None:
        """Writes the settings of a shell whose commands act as the user `admin`.

        Args:
            servers: `host:port,…` of the brokers.
        """
        exports = {"BOWSTRING_BOOTSTRAP_SERVERS": servers, "BOWSTRING_COMMAND_CONFIG": str(self.admin_file)}
        lines = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in exports.items())
        write_secret(self._environment, lines.encode())

    def advice(self) -> list[str]:
        """Returns what people need to begin, line by line."""
        return [
            f"user {ADMIN} may do everything; its client settings and password are in {self.admin_file}",
            f"  . {self._environment}",
            "  bowstring topics create orders",
            "  bowstring users add alice",
            "  bowstring acls add --allow alice --producer --topic orders",
            "  bowstring acls add --allow alice --consumer --topic orders --group readers",
            "  bowstring acls explain alice write topic:orders",
            f"other users trust the certificate in {self._authority}",
        ]

    def _jaas(self, user: str) -> str:
        return f'{_SCRAM_MODULE} required username="{user}" password="{self._passwords[user]}";'

    def _client_settings(self, user: str) -> str:
        return (
            f"# Client settings of the user {user}, for Java, Kafka's tools and Bowstring.\n"
            "security.protocol=SASL_SSL\n"
            f"sasl.mechanism={_MECHANISM}\n"
            f"sasl.jaas.config={self._jaas(user)}\n"
            "ssl.truststore.type=PEM\n"
            f"ssl.truststore.location={self._authority}\n"
        )


def _read(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {name: str(found[name]) for name in (ADMIN, BROKERS)}
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{path} does not have the passwords of {ADMIN} and {BROKERS}") from None
