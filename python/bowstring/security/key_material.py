"""Reads keys, certificates and trust from the settings of Kafka and librdkafka.

PEM files and texts (KIP-651) and PKCS12 stores. JKS stores are refused with the command that converts them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bowstring._native.tls.key_store import read_key_store
from bowstring._native.tls.library import TlsError

if TYPE_CHECKING:
    from bowstring._native.tls.context import TlsContext

_JKS: Final = b"\xfe\xed\xfe\xed"
_JCEKS: Final = b"\xce\xce\xce\xce"
_DER: Final = b"\x30\x82"
_PEM_TYPE: Final = "PEM"
_STORE_TYPES: Final = ("JKS", "PKCS12", _PEM_TYPE)
_FILE_BYTES_MAX: Final = 16 << 20


class KeyMaterial:
    """The keys and certificates of one side of TLS, as PEM; what is not set is None.

    Attributes:
        certificate_chain: Its own certificate and those of its authorities.
        private_key: Of its certificate, perhaps encrypted.
        key_password: Of an encrypted private key.
        trusted: The authorities that peers' certificates must come from.
        files: What was read, to notice changes.
        own_files: Those of them that have its own certificate and key.
    """

    __slots__ = ("certificate_chain", "files", "key_password", "own_files", "private_key", "trusted")

    def __init__(
        self,
        certificate_chain: bytes | None = None,
        private_key: bytes | None = None,
        key_password: str | None = None,
        trusted: bytes | None = None,
        *,
        files: tuple[str, ...] = (),
        own_files: tuple[str, ...] = (),
    ) -> None:
        self.certificate_chain = certificate_chain
        self.private_key = private_key
        self.key_password = key_password
        self.trusted = trusted
        self.files = files
        self.own_files = own_files

    def __repr__(self) -> str:
        """Shows no secret."""
        return f"KeyMaterial(files={self.files!r})"

    @classmethod
    def of(cls, settings: Mapping[str, str | None]) -> KeyMaterial:
        """Reads what the settings name; settings of other things are ignored.

        Kafka's: `ssl.keystore.*`, `ssl.truststore.*`, `ssl.key.password`. librdkafka's: `ssl.ca.*`,
        `ssl.certificate.*`, `ssl.key.*`.

        Raises:
            TlsError: A setting contradicts another, or a file is unreadable; the message names it.
        """
        given = {name: value for name, value in settings.items() if value is not None}
        files: list[str] = []
        chain, key, password = _identity(given, files)
        own = tuple(files)
        trusted = _trusted(given, files)
        return cls(chain, key, password, trusted, files=tuple(files), own_files=own)

    def context(
        self,
        *,
        server: bool,
        client_auth: str = "none",
        protocols: Sequence[str] = ("TLSv1.2", "TLSv1.3"),
        ciphers: Sequence[str] = (),
        verify: bool = True,
    ) -> TlsContext:
        """Returns a TLS context with these keys and certificates.

        Raises:
            TlsError: They are not acceptable; the message names the files. TlsUnavailableError: no OpenSSL 3.
        """
        from bowstring._native.tls.context import TlsContext

        try:
            return TlsContext(
                server=server,
                certificate_chain=self.certificate_chain,
                private_key=self.private_key,
                key_password=self.key_password,
                trusted=self.trusted,
                client_auth=client_auth,
                protocols=protocols,
                ciphers=ciphers,
                verify=verify,
            )
        except TlsError as error:
            files = self._files_of(str(error))
            if not files:
                raise
            raise type(error)(f"{', '.join(files)}: {error}") from error

    def _files_of(self, error: str) -> tuple[str, ...]:
        """Returns the files that an error of a context is about; none: it is about other settings."""
        if "ssl." in error and "password" not in error:
            return ()
        return self.files[len(self.own_files) :] if "trust store" in error else self.own_files


def file_state(path: str) -> tuple[int, int, int] | None:
    """Returns what changes when a file is replaced; None for one that cannot be read."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # ValueError: the path has a null character
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def check_files(settings: Mapping[str, str]) -> None:
    """Refuses pipes and devices, for programs that must not wait for a file: who may change settings of a
    broker could stop it by them.

    Raises:
        TlsError: A setting names one.
    """
    for name, location in settings.items():
        if not name.endswith(".location"):
            continue
        try:
            mode = os.stat(location).st_mode
        except (OSError, ValueError):
            continue  # `KeyMaterial.of` says why
        if not stat.S_ISREG(mode):
            raise TlsError(f"{name}={location} is no regular file; name one")


def _read(location: str, setting: str, files: list[str]) -> bytes:
    if "-----BEGIN " in location:  # perhaps a private key, which no error may have
        raise TlsError(
            f"{setting} has a PEM text; it must be the path of a file: see ssl.keystore.key, "
            "ssl.keystore.certificate.chain and ssl.truststore.certificates for texts"
        )
    try:
        with Path(location).open("rb") as file:
            data = file.read(_FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:  # ValueError: the path has a null character
        why = error.strerror if isinstance(error, OSError) else error
        raise TlsError(
            f"{setting}={location} cannot be read: {why}; correct the path, or its permissions"
        ) from error
    if len(data) > _FILE_BYTES_MAX:
        raise TlsError(f"{setting}={location} has more than {_FILE_BYTES_MAX >> 20} MiB; name a key file")
    files.append(location)
    return data


def _store_type(given: Mapping[str, str], store: str, data: bytes | None) -> str:
    """The type in the settings; without one, what the content is."""
    name = f"ssl.{store}.type"
    kind = given.get(name, "").upper()
    if kind and kind not in _STORE_TYPES:
        raise TlsError(f"{name}={given[name]} is not supported; use PEM or PKCS12")
    if not kind and (data is None or b"-----BEGIN " in data):
        return _PEM_TYPE
    return kind or "JKS"


def _check_pem(given: Mapping[str, str], store: str, data: bytes) -> None:
    """Refuses a binary store of which the settings say that it is PEM."""
    where = f"ssl.{store}.location={given[f'ssl.{store}.location']}"
    if data.startswith((_JKS, _JCEKS)):
        _open_store(given, store, data)  # says how to convert it
    if data.startswith(_DER):
        raise TlsError(f"{where} is no PEM file; if it is a PKCS12 store, set ssl.{store}.type=PKCS12")


def _open_store(
    given: Mapping[str, str], store: str, data: bytes
) -> tuple[bytes | None, bytes | None, bytes]:
    """Reads a binary store. Java writes PKCS12 for the type JKS, too, and reads both for either."""
    location = given[f"ssl.{store}.location"]
    where = f"ssl.{store}.location={location}"
    if data.startswith((_JKS, _JCEKS)):
        raise TlsError(
            f"{where} is a JKS store, which only Java reads; convert it: "
            f"keytool -importkeystore -srckeystore {location} -destkeystore {location}.p12 "
            f"-deststoretype PKCS12; then set ssl.{store}.location and ssl.{store}.type=PKCS12"
        )
    if b"-----BEGIN " in data:
        raise TlsError(f"{where} is PEM; set ssl.{store}.type=PEM")
    try:
        return read_key_store(data, given.get(f"ssl.{store}.password"))
    except TlsError as error:
        raise TlsError(f"{where}: {error} (ssl.{store}.password)") from error


def _identity(given: Mapping[str, str], files: list[str]) -> tuple[bytes | None, bytes | None, str | None]:
    """The certificate chain, the private key and its password."""
    password = given.get("ssl.key.password")
    location = given.get("ssl.keystore.location")
    inline_key, inline_chain = given.get("ssl.keystore.key"), given.get("ssl.keystore.certificate.chain")
    if location is None and inline_key is None and inline_chain is None:
        return _librdkafka_identity(given, files, password)
    if location is not None and (inline_key is not None or inline_chain is not None):
        raise TlsError("ssl.keystore.location and ssl.keystore.key exclude each other; set one of them")
    if location is None:
        if _store_type(given, "keystore", None) != _PEM_TYPE:
            raise TlsError("ssl.keystore.key is PEM; set ssl.keystore.type=PEM")
        if inline_key is None or inline_chain is None:
            raise TlsError("ssl.keystore.key and ssl.keystore.certificate.chain belong together; set both")
        return _text(inline_chain), _text(inline_key), password
    data = _read(location, "ssl.keystore.location", files)
    if _store_type(given, "keystore", data) == _PEM_TYPE:
        _check_pem(given, "keystore", data)
        if given.get("ssl.keystore.password"):
            raise TlsError(
                "a PEM file has no ssl.keystore.password; the password of its key is ssl.key.password"
            )
        return data, data, password
    chain, key, _ = _open_store(given, "keystore", data)
    if key is None:
        raise TlsError(f"ssl.keystore.location={location} has no private key; is it the trust store?")
    return chain, key, None


def _librdkafka_identity(
    given: Mapping[str, str], files: list[str], password: str | None
) -> tuple[bytes | None, bytes | None, str | None]:
    chain, key = (
        _file_or_text(given, f"ssl.{what}.location", f"ssl.{what}.pem", files)
        for what in ("certificate", "key")
    )
    if (chain is None) != (key is None):
        raise TlsError("ssl.certificate.location and ssl.key.location belong together; set both")
    return chain, key, password


def _file_or_text(given: Mapping[str, str], location: str, text: str, files: list[str]) -> bytes | None:
    if given.get(location):
        return _read(given[location], location, files)
    return _text(given[text]) if given.get(text) else None


def _text(pem: str) -> bytes:
    """Properties files may have the lines of a PEM in one line, with \\n between them."""
    return pem.replace("\\n", "\n").encode()


def _trusted(given: Mapping[str, str], files: list[str]) -> bytes | None:
    location, inline = given.get("ssl.truststore.location"), given.get("ssl.truststore.certificates")
    if location is None and inline is None:
        return _librdkafka_trusted(given, files)
    if location is not None and inline is not None:
        raise TlsError("ssl.truststore.location and ssl.truststore.certificates exclude each other")
    if location is None:
        if _store_type(given, "truststore", None) != _PEM_TYPE:
            raise TlsError("ssl.truststore.certificates is PEM; set ssl.truststore.type=PEM")
        assert inline is not None
        return _text(inline)
    data = _read(location, "ssl.truststore.location", files)
    if _store_type(given, "truststore", data) == _PEM_TYPE:
        _check_pem(given, "truststore", data)
        if given.get("ssl.truststore.password"):
            raise TlsError("a PEM file has no ssl.truststore.password; remove it")
        return data
    chain, _, others = _open_store(given, "truststore", data)
    return (chain or b"") + others


def _librdkafka_trusted(given: Mapping[str, str], files: list[str]) -> bytes | None:
    location = given.get("ssl.ca.location")
    if location is None or not os.path.isdir(location):
        return _file_or_text(given, "ssl.ca.location", "ssl.ca.pem", files)
    pems = (
        _read(str(path), "ssl.ca.location", files)
        for path in sorted(Path(location).iterdir())
        if path.suffix in (".pem", ".crt", ".cer") and path.is_file()
    )
    found = b"\n".join(pem for pem in pems if b"-----BEGIN CERTIFICATE-----" in pem)
    if not found:
        raise TlsError(f"ssl.ca.location={location} has no certificates (*.pem, *.crt, *.cer)")
    return found
