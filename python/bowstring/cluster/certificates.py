"""Makes a development authority and certificates for brokers and clients, as PEM files.

Keys are ECDSA P-256. Files with keys can be read by their owner only, and so can the directory. An authority
that is there is used again, so that certificates can be renewed, and hosts and clients added.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bowstring.clients.errors import ConfigError, MissingPackageError
from bowstring.cluster.secret_files import write_public, write_secret

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

AUTHORITY, AUTHORITY_KEY, BROKER = "ca.pem", "ca.key", "broker.pem"
BROKER_NAME = "broker"
AUTHORITY_NAME = "Bowstring development authority"
AUTHORITY_DAYS = 3650
DAYS = 365
# Names of files that are not of a client.
RESERVED = ("ca", "broker", "client", "server")
HOSTS = ("localhost", "127.0.0.1", "::1")
# Clocks of other machines may be behind by as much.
SKEW = timedelta(hours=1)
# Common names of X.509 are not longer, in bytes.
NAME_MAX = 64
_HOST_MAX = 253
# A part of a host's name; underscores occur in container names.
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")


class CertificateFacts(NamedTuple):
    """What a certificate contains.

    Attributes:
        subject, issuer: distinguished names, as in `User:CN=alice`.
        hosts: names and addresses that clients may connect to.
        not_before, not_after: when it begins and ends.
        is_authority: whether it may sign others.
        key: algorithm of its key.
        has_private_key: whether the file has a private key, too.
    """

    subject: str
    issuer: str
    hosts: tuple[str, ...]
    not_before: datetime
    not_after: datetime
    is_authority: bool
    key: str
    has_private_key: bool

    def days_left(self, now: datetime) -> int:
        """Returns whole days until it ends; negative if it has ended."""
        return (self.not_after - now).days


def _needs_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise MissingPackageError("cryptography", "security") from error


class Authority:
    """A development authority in a directory, and what it has signed.

    Args:
        directory: where the files are; made if it is not there, for its owner only.

    Raises:
        ConfigError: the directory has the authority's certificate without its key, or they do not fit.
        MissingPackageError: the package `cryptography` is not installed.
    """

    def __init__(self, directory: Path) -> None:
        _needs_cryptography()
        self.directory = directory
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
        certificate, key = directory / AUTHORITY, directory / AUTHORITY_KEY
        if certificate.exists() and not key.exists():
            raise ConfigError(
                f"{directory} has {certificate.name}, but not {key.name}: put it back, or use another "
                "directory"
            )
        self.is_new = not key.exists()
        if self.is_new:
            self._key = _new_key()
            write_secret(key, _key_pem(self._key))
        else:
            self._key = _loaded_key(key)
        if certificate.exists():
            self._load()
        else:
            self._certify()

    def _certify(self) -> None:
        """Makes the certificate of the key, also when an earlier run was killed behind the key: what the key
        has signed by then stays valid.
        """
        from cryptography import x509

        name = _name(AUTHORITY_NAME)
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        builder = _builder(name, name, self._key, AUTHORITY_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self._certificate = _signed(builder.add_extension(usage, critical=True), self._key)
        write_public(self.directory / AUTHORITY, _pem(self._certificate))

    def _load(self) -> None:
        from cryptography import x509

        path = self.directory / AUTHORITY
        try:
            self._certificate = x509.load_pem_x509_certificate(path.read_bytes())
        except ValueError as error:
            raise ConfigError(f"{path} is no certificate that can be read: {error}") from None
        if self._key.public_key() != self._certificate.public_key():
            raise ConfigError(f"{self.directory / AUTHORITY_KEY} is not the key of {AUTHORITY} beside it")

    def issue_broker(self, hosts: Sequence[str] = HOSTS, *, days: int = DAYS, file: str = BROKER) -> Path:
        """Makes a certificate that brokers show, and may show to other brokers; returns its file, which has
        the key, too.

        Args:
            hosts: names and addresses of the brokers.
            days: how long it is valid.
            file: name of the file.

        Raises:
            ConfigError: a host is neither a name nor an address, or the authority ends sooner.
        """
        return self._issue(BROKER_NAME, hosts, days, file, server=True)

    def issue_client(self, name: str, *, days: int = DAYS) -> Path:
        """Makes a client's certificate; returns its file NAME.pem, which has the key, too.

        Args:
            name: common name: the principal is `User:CN=name`, unless `ssl.principal.mapping.rules` say
                otherwise.
            days: how long it is valid.

        Raises:
            ConfigError: the name cannot be that of a file, or the authority ends sooner.
        """
        return self._issue(name, (), days, client_file(name), server=False)

    def _issue(self, name: str, hosts: Iterable[str], days: int, file: str, *, server: bool) -> Path:
        from cryptography import x509
        from cryptography.x509.oid import ExtendedKeyUsageOID

        path = self.directory / file
        if path.exists() and not self._has_signed(path):
            raise ConfigError(
                f"{path} is not of the authority in {self.directory}: move it away, or use another directory"
            )
        ends = _now() + timedelta(days=days)
        if ends > self._certificate.not_valid_after_utc:
            last = f"{self._certificate.not_valid_after_utc:%Y-%m-%d}"
            raise ConfigError(
                f"the authority in {self.directory} ends on {last}, before {ends:%Y-%m-%d}: give fewer days, "
                "or make a new authority in another directory"
            )
        key = _new_key()
        builder = _builder(_name(name), self._certificate.subject, key, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        uses = [ExtendedKeyUsageOID.SERVER_AUTH] if server else []
        uses.append(ExtendedKeyUsageOID.CLIENT_AUTH)
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        if names := [_general_name(each) for each in dict.fromkeys(hosts)]:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        write_secret(path, _key_pem(key) + _pem(_signed(builder, self._key)))
        return path

    def _has_signed(self, path: Path) -> bool:
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature

        try:
            for each in x509.load_pem_x509_certificates(path.read_bytes()):
                each.verify_directly_issued_by(self._certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True


def client_file(name: str) -> str:
    """Returns the name of the file of a client's certificate.

    Raises:
        ConfigError: The name cannot be that of a file, or is too long for a certificate.
    """
    if not name.isprintable() or not name or name in RESERVED or "/" in name or name.startswith("."):
        raise ConfigError(f"a client cannot be called {name!r}: it becomes the name of a file")
    if len(name.encode("utf-8")) > NAME_MAX:
        raise ConfigError(f"{name!r} is too long for a certificate: at most {NAME_MAX} bytes")
    return f"{name}.pem"


def check_names(hosts: Iterable[str], clients: Iterable[str]) -> None:
    """Refuses names before anything is written.

    Raises:
        ConfigError: One is not that of a host, or of a client.
        MissingPackageError: The package `cryptography` is not installed.
    """
    _needs_cryptography()
    for host in hosts:
        _general_name(host)
    for client in clients:
        client_file(client)


def read_certificates(path: Path) -> list[CertificateFacts]:
    """Returns the facts of all certificates in a PEM file, in its order.

    Raises:
        ConfigError: the file has none, or one cannot be read.
        MissingPackageError: the package `cryptography` is not installed.
    """
    _needs_cryptography()
    from cryptography import x509

    data = path.read_bytes()
    try:
        certificates = x509.load_pem_x509_certificates(data)
    except ValueError as error:
        raise ConfigError(f"{path} has no certificate that can be read: {error}") from None
    return [_facts(each, b"PRIVATE KEY-----" in data) for each in certificates]


def _facts(certificate: x509.Certificate, has_private_key: bool) -> CertificateFacts:
    from cryptography import x509

    extensions = certificate.extensions
    hosts: tuple[str, ...] = ()
    is_authority = False
    for extension in extensions:
        if isinstance(extension.value, x509.SubjectAlternativeName):
            hosts = tuple(str(each.value) for each in extension.value)
        elif isinstance(extension.value, x509.BasicConstraints):
            is_authority = extension.value.ca
    return CertificateFacts(
        certificate.subject.rfc4514_string(),
        certificate.issuer.rfc4514_string(),
        hosts,
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
        is_authority,
        _key_text(certificate.public_key()),
        has_private_key,
    )


def _key_text(key: object) -> str:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    if isinstance(key, ec.EllipticCurvePublicKey):
        return f"ECDSA {key.curve.name}"
    if isinstance(key, rsa.RSAPublicKey):
        return f"RSA {key.key_size} bits"
    return type(key).__name__.removesuffix("PublicKey")


def _now() -> datetime:
    return datetime.now(UTC)


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(common_name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        if "%" not in host:
            return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not host.isascii():
        raise ConfigError(f"{host!r} has letters that certificates cannot have: write it in punycode, xn--…")
    labels = host.removeprefix("*.").split(".")
    is_name = (
        all(map(_LABEL.fullmatch, labels))
        and not re.fullmatch("[0-9]+", labels[-1])
        and len(host) <= _HOST_MAX
    )
    if not is_name:
        raise ConfigError(
            f"{host!r} is neither the name nor the address of a host: write, for example, kafka.example.com, "
            "*.example.com, 10.0.0.1 or ::1, without a port"
        )
    return x509.DNSName(host)


def _loaded_key(path: Path) -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path} is no private key that can be read: {error}") from None
    if not isinstance(key, EllipticCurvePrivateKey):
        raise ConfigError(f"{path} is not a key that `bowstring certs` has made: use another directory")
    return key


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    from cryptography import x509

    builder = x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    now = _now().replace(microsecond=0)
    builder = builder.not_valid_before(now - SKEW).not_valid_after(now + timedelta(days=days))
    subject_key = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return builder.add_extension(subject_key, critical=False)


def _signed(builder: x509.CertificateBuilder, by: EllipticCurvePrivateKey) -> x509.Certificate:
    from cryptography.hazmat.primitives import hashes

    return builder.sign(by, hashes.SHA256())


def _pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: EllipticCurvePrivateKey) -> bytes:
    """PKCS #8 without a password, as Java, OpenSSL and librdkafka read it."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
