"""A certificate authority for tests: ECDSA P-256, in memory, made in milliseconds."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from functools import cache
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

DAY: Final = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Identity:
    """A certificate with its private key, both PEM."""

    certificate: bytes
    key: bytes

    def encrypted_key(self, password: str) -> bytes:
        """Returns the key as PKCS8, encrypted."""
        key = serialization.load_pem_private_key(self.key, None)
        return key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password.encode()),
        )


def _name(common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Bowstring"),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


class CertificateAuthority:
    """Signs certificates; `certificate` (PEM) is what its peers trust."""

    def __init__(self, common_name: str = "Bowstring test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(common_name)
        self._signed = self._sign(self._name, self._key, (), -DAY, 3650 * DAY, is_authority=True)
        self.certificate: Final = self._signed.public_bytes(serialization.Encoding.PEM)

    def identity(
        self,
        common_name: str = "localhost",
        names: tuple[str, ...] = ("localhost", "127.0.0.1"),
        *,
        valid_from: datetime.timedelta = -DAY,
        valid_for: datetime.timedelta = 365 * DAY,
        key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = None,
    ) -> Identity:
        """Returns a new certificate for `names` with its key; `valid_from` counts from now."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        signed = self._sign(_name(common_name), key, names, valid_from, valid_for, is_authority=False)
        return Identity(
            signed.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )

    def _sign(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey,
        names: tuple[str, ...],
        valid_from: datetime.timedelta,
        valid_for: datetime.timedelta,
        *,
        is_authority: bool,
    ) -> x509.Certificate:
        begins = datetime.datetime.now(datetime.UTC) + valid_from
        built = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(begins + valid_for)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if names:
            built = built.add_extension(
                x509.SubjectAlternativeName(list(map(_alternative, names))), critical=False
            )
        return built.sign(self._key, hashes.SHA256())


@cache
def authority() -> CertificateAuthority:
    """Returns the authority of this process."""
    return CertificateAuthority()


@cache
def foreign_authority() -> CertificateAuthority:
    """Returns another authority, which nobody trusts."""
    return CertificateAuthority("Foreign authority")


@cache
def server_identity() -> Identity:
    """Returns a certificate for localhost."""
    return authority().identity()


@cache
def client_identity() -> Identity:
    """Returns a certificate of the client `alice`."""
    return authority().identity("alice", ())
