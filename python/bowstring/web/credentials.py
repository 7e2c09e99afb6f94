"""Reads the credentials of a request, makes client settings of them, and checks them with the broker."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import ipaddress
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from bowstring.clients.config.security import client_security, environment_security, security_of_properties
from bowstring.clients.errors import AuthenticationError, ClientError, ConfigError
from bowstring.security.client_settings import SecuritySettingsError, canonical
from bowstring.web.http_error import HttpError

BASIC, BEARER, CERTIFICATE = "basic", "bearer", "certificate"
PASSWORD_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
AUTHORIZATION_BYTES_MAX = 16 << 10
FRESH_S = 60.0
"""How long a log-in counts after the broker accepted it: a changed password is noticed after that."""
REFUSED_S = 5.0
"""How long a refusal counts."""
LOG_INS_MAX = 10_000
FAILURES_MAX = 20
"""In FAILURES_S from one address; more are refused before the broker is asked."""
FAILURES_S = 60.0
ADDRESSES_MAX = 10_000
THREADS = 4
LOGIN_SETTINGS = (
    "sasl.username",
    "sasl.password",
    "sasl.jaas.config",
    "sasl.oauthbearer.token",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.token.function",
)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who a client says that it is.

    Attributes:
        scheme: BASIC (user and password), BEARER (a token) or CERTIFICATE (verified by TLS).
        user: the name; empty for a token, whose name the broker's check yields.
        secret: password or token. Never shown.
    """

    scheme: str
    user: str
    secret: str = field(default="", repr=False)


def credentials_of(scope: Mapping[str, Any]) -> Credentials | None:
    """Returns the credentials of a request: of its header `Authorization`, else of its certificate.

    Args:
        scope: of ASGI.

    Raises:
        HttpError: 401, the header cannot be read.
    """
    found: bytes | None = None
    for name, value in scope["headers"]:
        if name == b"authorization":
            if found is not None:
                raise unauthorized("the request has two headers Authorization; send one")
            found = value
    if found is None:
        return certificate_of(scope)
    if len(found) > AUTHORIZATION_BYTES_MAX:
        raise unauthorized(f"the header Authorization exceeds {AUTHORIZATION_BYTES_MAX} bytes")
    scheme, _, rest = found.strip().partition(b" ")
    scheme, rest = scheme.lower(), rest.strip()
    if scheme == b"bearer" and rest and rest.isascii():
        return Credentials(BEARER, "", rest.decode("ascii"))
    if scheme == b"basic":
        try:
            user, colon, password = base64.b64decode(rest, validate=True).decode("utf-8").partition(":")
        except (binascii.Error, ValueError):
            colon = user = password = ""
        if colon and user:
            return Credentials(BASIC, user, password)
    raise unauthorized("the header Authorization is neither Basic with user:password nor Bearer with a token")


def certificate_of(scope: Mapping[str, Any]) -> Credentials | None:
    """Returns who a client is by its certificate, which TLS has verified; None without one.

    Args:
        scope: of ASGI.
    """
    tls = (scope.get("extensions") or {}).get("tls") or {}
    name = tls.get("client_cert_name")
    return Credentials(CERTIFICATE, name) if name else None


def unauthorized(message: str) -> HttpError:
    """Returns the answer 401, which says how to log in."""
    return HttpError(401, 401, message, ((b"www-authenticate", b'Basic realm="kafka", charset="UTF-8"'),))


def security_settings(command_config: str | None) -> dict[str, Any]:
    """Returns the settings of TLS and SASL of a properties file and of the environment; the file's win.

    Args:
        command_config: path of the file; None for none.

    Raises:
        ConfigError: the file cannot be read, or settings contradict each other.
    """
    from pathlib import Path

    found: dict[str, Any] = dict(environment_security())
    if command_config is not None:
        from bowstring.security.properties_file import parse_properties

        try:
            entries = parse_properties(Path(command_config).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"--command-config: cannot read {command_config}: {error}") from error
        found |= security_of_properties({name: value for name, value, _ in entries})[0]
    try:
        return canonical(found)
    except SecuritySettingsError as error:
        raise ConfigError(str(error)) from error


def has_sasl(settings: Mapping[str, Any]) -> bool:
    """Whether settings of clients log in by SASL: then users of HTTP can log in, too."""
    return str(settings.get("security.protocol", "")).upper().startswith("SASL_")


def client_settings(base: Mapping[str, Any], credentials: Credentials) -> dict[str, Any]:
    """Returns settings of clients that act as whoever has the credentials. They hold a secret.

    Args:
        base: settings of the program by canonical names: protocol, mechanism, authorities.
        credentials: with a password or a token.

    Raises:
        HttpError: 401, the cluster takes no such credentials.
    """
    kept = {name: value for name, value in base.items() if name not in LOGIN_SETTINGS}
    if not has_sasl(base):
        raise unauthorized("the cluster has no log-in by SASL; send no header Authorization")
    if credentials.scheme == BEARER:
        return kept | {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token": credentials.secret}
    if credentials.scheme != BASIC:
        raise unauthorized("a certificate does not log in to the cluster; send user and password, or a token")
    mechanism = str(base.get("sasl.mechanism", "")).upper()
    if mechanism not in PASSWORD_MECHANISMS:
        mechanism = PASSWORD_MECHANISMS[0]
    return kept | {
        "sasl.mechanism": mechanism,
        "sasl.username": credentials.user,
        "sasl.password": credentials.secret,
    }


class LogIns:
    """Checks credentials with the broker, and remembers the outcome for a short time.

    Belongs to one event loop. Passwords are not kept: a key that is new with each process hashes them.

    Args:
        bootstrap_servers: of the cluster.
        base: settings of the program's own clients by canonical names.
        check: logs in as the credentials say and returns the name of the user; default: asks the broker.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        base: Mapping[str, Any],
        check: Callable[[Credentials], str] | None = None,
    ) -> None:
        self._bootstrap_servers, self._base = bootstrap_servers, dict(base)
        self._check = check or self._log_in
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, tuple[float, str | None]] = OrderedDict()
        self._checking: dict[bytes, asyncio.Future[str | None]] = {}
        self._failures: OrderedDict[str, list[float]] = OrderedDict()
        self._threads = ThreadPoolExecutor(THREADS, "log-in")

    def close(self) -> None:
        """Ends the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def user(self, credentials: Credentials, address: str) -> str:
        """Returns the name of the user.

        Args:
            credentials: of a request.
            address: of its client; many failures from it are refused without asking the broker.

        Raises:
            HttpError: 401, the broker refuses them; 429, too many failures; 503, the broker does not answer.
        """
        if credentials.scheme == CERTIFICATE:
            return credentials.user
        text = f"{credentials.scheme}\0{credentials.user}\0{credentials.secret}"
        digest = hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), "sha256")
        known = self._known.get(digest)
        if known is not None and known[0] > time.monotonic():
            if known[1] is None:
                raise _refused()
            return known[1]
        checking = self._checking.get(digest)
        if checking is None:
            if self._too_many(address):
                raise HttpError(
                    429,
                    429,
                    "too many failed log-ins; wait a minute, then try again",
                    ((b"retry-after", b"60"),),
                )
            # All requests with the same credentials share one log-in.
            checking = asyncio.ensure_future(self._checked(digest, credentials, address))
            self._checking[digest] = checking
            checking.add_done_callback(lambda done: self._end(digest, done))
        # Shielded: one client that leaves does not cancel the log-in of the others.
        user = await asyncio.shield(checking)
        if user is None:
            raise _refused()
        return user

    def _end(self, digest: bytes, done: asyncio.Future[str | None]) -> None:
        self._checking.pop(digest, None)
        if not done.cancelled():
            done.exception()  # marks it as seen: all who waited may be gone

    async def _checked(self, digest: bytes, credentials: Credentials, address: str) -> str | None:
        loop = asyncio.get_running_loop()
        try:
            user: str | None = await loop.run_in_executor(self._threads, self._check, credentials)
        except AuthenticationError:
            user = None
            self._note_failure(address)
        except (ClientError, ConfigError) as error:
            raise HttpError(503, 503, f"the log-in could not be checked: {error}") from error
        self._known[digest] = time.monotonic() + (REFUSED_S if user is None else FRESH_S), user
        self._known.move_to_end(digest)
        if len(self._known) > LOG_INS_MAX:
            self._known.popitem(last=False)
        return user

    def _log_in(self, credentials: Credentials) -> str:
        from bowstring.clients.admin.admin import Admin

        settings = client_settings(self._base, credentials)
        client_security(settings)
        with Admin(bootstrap_servers=self._bootstrap_servers, security=settings) as admin:
            admin.describe_cluster()
        return credentials.user or subject_of(credentials.secret)

    def _too_many(self, address: str) -> bool:
        since = time.monotonic() - FAILURES_S
        return sum(at > since for at in self._failures.get(network_of(address), ())) >= FAILURES_MAX

    def _note_failure(self, address: str) -> None:
        now, network = time.monotonic(), network_of(address)
        recent = [at for at in self._failures.pop(network, ()) if at > now - FAILURES_S]
        self._failures[network] = [*recent[-FAILURES_MAX:], now]
        if len(self._failures) > ADDRESSES_MAX:
            self._failures.popitem(last=False)


def _refused() -> HttpError:
    return unauthorized("the cluster refuses this user and password, or this token")


def network_of(address: str) -> str:
    """Returns what failures of an address count for: all of a /64 of IPv6, which one machine may have."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else address


def subject_of(token: str) -> str:
    """Returns the claim `sub` of a token that the broker has accepted; empty without one."""
    _, _, rest = token.partition(".")
    part = rest.partition(".")[0]
    try:
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return ""
    subject = claims.get("sub", "") if isinstance(claims, dict) else ""
    return subject if isinstance(subject, str) else ""
