"""Makes contexts of Kerberos (RFC 4120, RFC 4121) by the package gssapi: of servers with a keytab, of clients
with a keytab or a ticket cache.

The package is imported with the first setting that needs it. Files and names of realms come from krb5.conf,
as in every program that uses MIT Kerberos: `KRB5_CONFIG` names another file.
"""

from __future__ import annotations

import getpass
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

from bowstring.distribution import install_command

INSTALL: Final = (
    f"it needs the package gssapi: {install_command('gssapi')} (it is compiled; on Debian first apt-get "
    "install gcc python3-dev libkrb5-dev)"
)

# Codes of RFC 4120, section 7.5.9; those above 127 are MIT's.
CLIENT_UNKNOWN: Final = 6
SERVICE_UNKNOWN: Final = 7
NOT_YET_VALID: Final = (21, 33)
TICKET_EXPIRED: Final = 32
REPLAY: Final = 34
CLOCK_SKEW: Final = 37
NO_KDC: Final = (154, 156, 220)
NO_TICKETS: Final = (141, 195)
_TABLE: Final = -1765328384
_CODES: Final = 256


class KerberosError(Exception):
    """Kerberos refuses, or cannot work.

    Args:
        reason: The library's error, without secrets.

    Attributes:
        code: One of this module's; -1 when it is no error of Kerberos.
    """

    def __init__(self, reason: str, code: int = -1) -> None:
        super().__init__(reason)
        self.code = code


class KerberosMissingError(Exception):
    """The package gssapi is not installed, or its library cannot be loaded."""


class GssContext(Protocol):
    """One side of a security context. Each method raises KerberosError."""

    @property
    def is_complete(self) -> bool:
        """The context is established."""

    @property
    def peer(self) -> str:
        """The client's principal, such as alice@EXAMPLE.COM. Of servers, when the context is established."""

    def step(self, token: bytes) -> bytes:
        """Takes the other side's token and returns the answer; b"" when there is none."""

    def wrap(self, message: bytes) -> bytes:
        """Returns a message with a checksum. It is not encrypted."""

    def unwrap(self, message: bytes) -> bytes:
        """Returns the content of a wrapped message."""


class _Context:
    """A context of the package gssapi. See `GssContext`."""

    def __init__(self, context: Any) -> None:
        self._context = context

    @property
    def is_complete(self) -> bool:
        return bool(self._context.complete)

    @property
    def peer(self) -> str:
        with _errors():
            try:
                return str(self._context.initiator_name)
            except UnicodeError:
                raise KerberosError("the client's principal is not UTF-8") from None

    def step(self, token: bytes) -> bytes:
        with _errors():
            return self._context.step(token or None) or b""

    def wrap(self, message: bytes) -> bytes:
        with _errors():
            return bytes(self._context.wrap(message, False).message)

    def unwrap(self, message: bytes) -> bytes:
        with _errors():
            return bytes(self._context.unwrap(message).message)


def _gssapi() -> Any:
    """Returns the package.

    Raises:
        KerberosMissingError: It is not there.
    """
    try:
        import gssapi
    except Exception as error:  # also of a library that is not found
        raise KerberosMissingError(f"{INSTALL}; {type(error).__name__}: {error}") from error
    return gssapi


@contextmanager
def _errors() -> Iterator[None]:
    """Turns the package's errors into ours."""
    gssapi = _gssapi()
    try:
        yield
    except gssapi.exceptions.GSSError as error:
        code = (int(error.min_code) - _TABLE) & 0xFFFFFFFF
        try:
            said = error.get_all_statuses(error.min_code, False) if error.min_code else []
            said = said or error.get_all_statuses(error.maj_code, True)
        except (gssapi.exceptions.GSSError, UnicodeError):
            said = []
        text = "; ".join(each for each in said if each) or type(error).__name__
        raise KerberosError(text, code if code < _CODES else -1) from None


@cache
def _context_class() -> Any:
    """Returns the class of contexts, which raises errors at once: by default a token for the other side comes
    first.
    """
    gssapi = _gssapi()

    class Context(gssapi.SecurityContext):  # type: ignore[misc, name-defined]
        pass

    Context.__DEFER_STEP_ERRORS__ = False  # its metaclass sets it
    return Context


def default_realm() -> str:
    """Returns default_realm of krb5.conf; empty when there is none.

    Raises:
        KerberosMissingError: The package gssapi is not there.
    """
    gssapi = _gssapi()
    try:
        with _errors():
            name = gssapi.Name("x", gssapi.NameType.kerberos_principal).canonicalize(gssapi.MechType.kerberos)
            return str(name).rpartition("@")[2]
    except KerberosError:
        return ""


def check_keytab(keytab: str, principal: str) -> None:
    """Checks that a keytab can be read and has a key of a principal. Sends nothing to a KDC.

    Args:
        keytab: A path.
        principal: Empty for any.

    Raises:
        KerberosError: The message names the file and the cure.
        KerberosMissingError: The package gssapi is not there.
    """
    _accepting(keytab, principal)


def acceptor(keytab: str, principal: str) -> Callable[[], GssContext]:
    """Returns what makes contexts of a server.

    Only tickets for this principal are accepted. The keytab is read again with each context: a new key counts
    at once.

    Args:
        keytab: A path.
        principal: Such as kafka/broker.example.com@EXAMPLE.COM.

    Raises:
        KerberosError: As from `check_keytab`.
        KerberosMissingError: The package gssapi is not there.
    """
    credentials, context = _accepting(keytab, principal), _context_class()
    return lambda: _Context(context(creds=credentials, usage="accept"))


def _accepting(keytab: str, principal: str) -> Any:
    gssapi = _gssapi()
    path = keytab.removeprefix("FILE:")
    _check_readable(path)
    try:
        with _errors():
            name = gssapi.Name(principal, gssapi.NameType.kerberos_principal) if principal else None
            return gssapi.Credentials(
                name=name,
                usage="accept",
                mechs=[gssapi.MechType.kerberos],
                store={"keytab": f"FILE:{path}"},
            )
    except KerberosError as error:
        raise KerberosError(
            f"the keytab {path} has no key of {principal or 'any principal'} that can be used: {error}; "
            f"`klist -k {path}` shows its principals, and `kadmin -q 'ktadd -k {path} PRINCIPAL'` adds one",
            error.code,
        ) from None


def _check_readable(path: str) -> None:
    try:
        with Path(path).open("rb"):
            pass
    except FileNotFoundError:
        raise KerberosError(
            f"the keytab {path} does not exist: make it with `kadmin -q 'ktadd -k {path} PRINCIPAL'`, or "
            "correct keyTab"
        ) from None
    except OSError as error:
        raise KerberosError(
            f"the keytab {path} cannot be read ({error.strerror}): make {_user()} its owner, with mode 600"
        ) from None


def _user() -> str:
    try:
        return f"the user {getpass.getuser()}"
    except (KeyError, OSError):
        return f"the user with the id {os.getuid()}"


class KerberosInitiator:
    """Makes contexts of a client. Thread-safe.

    Args:
        service: The first part of the server's principal.
        principal: The client's; empty for that of the ticket cache, or the first of the keytab.
        keytab: A path. Tickets got with it stay in memory, and are renewed when half of their life is over.
        ticket_cache: A path, or a name such as KEYRING:…; empty for the default one (KRB5CCNAME).
        uses_cache: With a keytab: a ticket cache that has valid tickets comes first.

    Raises:
        KerberosError: The keytab cannot be used.
        KerberosMissingError: The package gssapi is not there.
    """

    def __init__(
        self,
        service: str,
        *,
        principal: str = "",
        keytab: str = "",
        ticket_cache: str = "",
        uses_cache: bool = False,
    ) -> None:
        _gssapi()
        self._service, self._principal = service, principal
        self._keytab = keytab.removeprefix("FILE:")
        self._ticket_cache, self._uses_cache = ticket_cache, uses_cache
        if self._keytab:
            check_keytab(self._keytab, principal)

    def context(self, host: str) -> GssContext:
        """Returns a new context with the service on a host. May wait for a KDC.

        Raises:
            KerberosError: There are no tickets.
        """
        gssapi = _gssapi()
        with _errors():
            target = gssapi.Name(f"{self._service}@{host}", gssapi.NameType.hostbased_service)
            return _Context(
                _context_class()(
                    name=target,
                    creds=self._credentials(gssapi),
                    usage="initiate",
                    mech=gssapi.MechType.kerberos,
                    flags=[
                        gssapi.RequirementFlag.mutual_authentication,
                        gssapi.RequirementFlag.integrity,
                        gssapi.RequirementFlag.replay_detection,
                        gssapi.RequirementFlag.out_of_sequence_detection,
                    ],
                )
            )

    def _credentials(self, gssapi: Any) -> Any:
        name = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal) if self._principal else None
        cache = {"ccache": self._ticket_cache} if self._ticket_cache else {}

        def acquired(store: dict[str, str]) -> Any:
            return gssapi.Credentials(
                name=name, usage="initiate", mechs=[gssapi.MechType.kerberos], store=store or None
            )

        if self._keytab and self._uses_cache:
            try:
                found = acquired(cache)
                if found.lifetime > 0:
                    return found
            except gssapi.exceptions.GSSError:
                pass  # the keytab counts
        if not self._keytab:
            return acquired(cache)
        return acquired({"client_keytab": f"FILE:{self._keytab}", "ccache": self._memory()})

    def _memory(self) -> str:
        """Returns the name of a ticket cache in memory: another one when the keytab has been replaced."""
        try:
            state = os.stat(self._keytab)
            facts = f"{self._keytab}\0{self._principal}\0{state.st_mtime_ns}\0{state.st_ino}"
        except OSError:
            facts = f"{self._keytab}\0{self._principal}"
        return f"MEMORY:bowstring-{os.getpid()}-{hashlib.sha256(facts.encode()).hexdigest()[:16]}"
