"""Makes the keys and certificates of a bench over TLS: one authority, one certificate for every broker."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.peers.install import PeerError

# The suite and the version that both brokers and all clients of a bench use.
SUITE = "TLS_AES_128_GCM_SHA256"
VERSION = "TLSv1.3"
MECHANISM = "SCRAM-SHA-256"
_DAYS = "60"
_EC = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


@dataclass(frozen=True)
class TlsFiles:
    """The files of one bench.

    Attributes:
        keystore: Key and certificate chain of the brokers, PEM.
        authority: The certificate that clients trust, PEM.
    """

    keystore: Path
    authority: Path

    def broker_settings(self) -> dict[str, str]:
        """Returns the settings that give a broker its certificate, and log clients in with SCRAM."""
        protocols = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL:SASL_PLAINTEXT"
        return {
            "listener.security.protocol.map": protocols,
            "sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.sasl.{MECHANISM.lower()}.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.keystore),
            "ssl.enabled.protocols": VERSION,
            "ssl.cipher.suites": SUITE,
        }

    def client_settings(self) -> dict[str, str]:
        """Returns the settings of a Java client."""
        return {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
            "ssl.enabled.protocols": VERSION,
            "ssl.cipher.suites": SUITE,
        }


def make_tls_files(folder: Path) -> TlsFiles:
    """Makes ECDSA P-256 keys and certificates in a folder, for the address of the bench.

    Raises:
        PeerError: There is no `openssl`, or it failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    authority, key, chain = folder / "ca.pem", folder / "broker.key", folder / "broker.crt"
    keystore, issuer = folder / "broker.pem", folder / "ca.key"
    subject = ["-days", _DAYS, "-subj", "/CN=bench authority", "-keyout", str(issuer), "-out", str(authority)]
    _openssl(["req", "-x509", *_EC, *subject])
    names = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    leaf = ["-addext", "basicConstraints=critical,CA:FALSE", "-CA", str(authority), "-CAkey", str(issuer)]
    subject = ["-days", _DAYS, "-subj", "/CN=broker", "-keyout", str(key), "-out", str(chain)]
    _openssl(["req", "-x509", *_EC, *names, *leaf, *subject])
    keystore.touch(mode=0o600)
    keystore.write_text(key.read_text() + chain.read_text())
    return TlsFiles(keystore, authority)


def _openssl(arguments: list[str]) -> None:
    try:
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise PeerError(
            "a bench over TLS needs the command openssl (Debian: apt-get install openssl)"
        ) from error
    if done.returncode != 0:
        raise PeerError(f"openssl {' '.join(arguments[:2])} failed:\n{done.stderr}")
