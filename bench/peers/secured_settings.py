"""Gives brokers of a cluster TLS and SCRAM among one another and for clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.peers.tls_files import MECHANISM, SUITE, VERSION, TlsFiles, make_tls_files

USER, PASSWORD = "bench", "bench-secret"
_LISTENER = "SECURE"
_JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    f'username="{USER}" password="{PASSWORD}";'
)


@dataclass(frozen=True)
class Security:
    """The certificates and the user of a cluster.

    Attributes:
        files: The certificate of all brokers, and the authority.
        users: A file with the user, as `bowstring format --add-scram-file` reads it.
    """

    files: TlsFiles
    users: Path

    def secured(self, settings: Mapping[str, str], address: str) -> dict[str, str]:
        """Returns the settings of a broker with security.

        Args:
            settings: Of a broker whose listeners are plain.
            address: Of the listener to add, as `host:port`.
        """
        more = f",{_LISTENER}://{address}"
        protocols = f"CONTROLLER:SASL_SSL,PLAINTEXT:PLAINTEXT,{_LISTENER}:SASL_SSL"
        login = {
            f"listener.name.{name}.{MECHANISM.lower()}.sasl.jaas.config": _JAAS
            for name in (_LISTENER.lower(), "controller")
        }
        return {
            **settings,
            "listeners": settings["listeners"] + more,
            "advertised.listeners": settings["advertised.listeners"] + more,
            "listener.security.protocol.map": protocols,
            "inter.broker.listener.name": _LISTENER,
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            "sasl.mechanism.controller.protocol": MECHANISM,
            **login,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.files.keystore),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.files.authority),
            "ssl.enabled.protocols": VERSION,
            "ssl.cipher.suites": SUITE,
        }

    def client_settings(self) -> dict[str, str]:
        """Returns the settings of a client, in Java's names."""
        login = {"sasl.mechanism": MECHANISM, "sasl.jaas.config": _JAAS}
        return self.files.client_settings() | {"security.protocol": "SASL_SSL"} | login


def make_security(folder: Path) -> Security:
    """Makes the certificates and the user of a cluster in a folder.

    Raises:
        PeerError: There is no `openssl`, or it failed.
    """
    files = make_tls_files(folder)
    users = folder / "users"
    users.touch(mode=0o600)
    users.write_text(f"{MECHANISM}=[name={USER},password={PASSWORD}]\n")
    return Security(files, users)
