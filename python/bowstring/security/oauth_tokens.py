"""Gets OAuth bearer tokens: given ones, of a function, of a file, or by the client-credentials grant
(RFC 6749, 4.4), and keeps each until shortly before it ends.
"""

from __future__ import annotations

import base64
import json
import logging
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from bowstring.security.sasl_client import SaslError

_log = logging.getLogger("bowstring.security")

# The first part of a token's life after which another thread gets the next one.
RENEW_FROM = 0.8
# A token that ends this soon is not sent any more.
ENDS_SOON_S = 5.0
ANSWER_BYTES_MAX = 1 << 20
ERROR_CHARACTERS_MAX = 100


class TokenUnavailableError(SaslError):
    """No token can be had now."""


class Token(NamedTuple):
    """A bearer token.

    Attributes:
        value: what is sent.
        ends_at: when it ends, in seconds since the epoch; None where that is unknown.
    """

    value: str
    ends_at: float | None

    def __repr__(self) -> str:
        return f"Token(ends_at={self.ends_at})"


def lifetime_of(value: str) -> float | None:
    """Returns when a JSON Web Token ends (its claim `exp`), in seconds since the epoch; None for other
    tokens.
    """
    parts = value.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (ValueError, KeyError, TypeError):
        return None


def token_of(given: Any) -> Token:
    """Returns the token that a function of the user returned.

    Args:
        given: the token, or (token, when it ends in seconds since the epoch, …) as confluent-kafka's
            `oauth_cb`.

    Raises:
        SaslError: it is neither.
    """
    if isinstance(given, str):
        return Token(given, lifetime_of(given))
    if isinstance(given, tuple) and len(given) >= 2 and isinstance(given[0], str):
        return Token(given[0], None if given[1] is None else float(given[1]))
    raise SaslError(
        "the token function must return the token, or a tuple of it and its end in seconds since the epoch"
    )


class TokenSource:
    """Tokens of one origin, shared by all connections of a client and safe for threads.

    Args:
        fetch: gets a new token; may block.
    """

    def __init__(self, fetch: Callable[[], Token]):
        self._fetch = fetch
        self._lock = threading.Lock()
        self._known: Token | None = None
        self._renew_at = 0.0
        self._renewing = False

    def token(self) -> str:
        """Returns a token that is valid for some seconds at least. Blocks only if none is.

        Raises:
            SaslError: none can be had.
        """
        with self._lock:
            now = time.time()
            known = self._known
            if known is not None and known.ends_at is not None and now < known.ends_at - ENDS_SOON_S:
                if now >= self._renew_at and not self._renewing:
                    self._renewing = True
                    threading.Thread(target=self._renew, name="bowstring-oauth", daemon=True).start()
                return known.value
            return self._take().value

    def _take(self) -> Token:
        try:
            found = self._fetch()
        except SaslError:
            raise
        except Exception as error:  # of the user's function
            raise TokenUnavailableError(f"the token function failed: {type(error).__name__}") from error
        now = time.time()
        if found.ends_at is not None and found.ends_at <= now:
            raise TokenUnavailableError(
                "the OAuth token has expired; get another, or check this machine's clock"
            )
        self._known = found
        self._renew_at = now + ((found.ends_at or now) - now) * RENEW_FROM
        return found

    def _renew(self) -> None:
        try:
            found = self._fetch()
            with self._lock:
                now = time.time()
                if found.ends_at is None or found.ends_at > now:
                    self._known = found
                    self._renew_at = now + ((found.ends_at or now) - now) * RENEW_FROM
        except Exception as error:
            _log.warning("cannot renew the OAuth token, using the old one: %s", type(error).__name__)
            with self._lock:
                self._renew_at = time.time() + ENDS_SOON_S
        finally:
            self._renewing = False


def from_file(path: str) -> Callable[[], Token]:
    """Returns a function that reads the token from a file each time, for tokens that an agent renews."""

    def read() -> Token:
        try:
            value = Path(path).read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise TokenUnavailableError(f"cannot read the OAuth token from {path}: {error}") from error
        return Token(value, lifetime_of(value))

    return read


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: they would carry the client's secret elsewhere."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


class ClientCredentials:
    """Gets tokens with the client-credentials grant.

    Args:
        url: the token endpoint.
        client_id, client_secret: of this client at the authorization server.
        scope: what to request; empty for the server's default.
        ca_pem: certificates that the endpoint's must be signed by; None for the system's.
        timeout_s: limit of a request with its answer.
    """

    def __init__(
        self,
        url: str,
        client_id: str,
        client_secret: str,
        *,
        scope: str = "",
        ca_pem: str | None = None,
        timeout_s: float = 10.0,
    ):
        scheme = urllib.parse.urlsplit(url).scheme
        if scheme not in ("https", "http"):
            raise ValueError(
                f"sasl.oauthbearer.token.endpoint.url is {url!r}, it must begin with https:// or file:///"
            )
        if scheme == "http":
            _log.warning("the token endpoint %s has no TLS: the client's secret can be read on its way", url)
        self._url, self._scope, self._ca_pem, self._timeout_s = url, scope, ca_pem, timeout_s
        self._basic = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()

    def _opener(self) -> urllib.request.OpenerDirector:
        import ssl

        context = ssl.create_default_context(cadata=self._ca_pem)
        return urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=context))

    def __call__(self) -> Token:
        """Requests a token.

        Raises:
            TokenUnavailableError: the endpoint refuses or cannot be reached.
        """
        # The limits of urllib are for each read: an endpoint that sends a byte now and then never ends.
        outcome: SimpleQueue[Token | BaseException] = SimpleQueue()
        threading.Thread(
            target=self._ask, args=(outcome,), name="bowstring-token-endpoint", daemon=True
        ).start()
        try:
            found = outcome.get(timeout=self._timeout_s)
        except Empty:
            raise TokenUnavailableError(
                f"the token endpoint {self._url} has not answered within {self._timeout_s:g} s"
            ) from None
        if isinstance(found, BaseException):
            raise found
        return found

    def _ask(self, outcome: SimpleQueue[Token | BaseException]) -> None:
        try:
            outcome.put(self._token(self._answer()))
        except BaseException as error:  # for the thread that waits
            outcome.put(error)

    def _answer(self) -> bytes:
        form = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
        request = urllib.request.Request(
            self._url,
            urllib.parse.urlencode(form).encode(),
            {"Authorization": f"Basic {self._basic}", "Accept": "application/json"},
        )
        try:
            with self._opener().open(request, timeout=self._timeout_s) as answer:
                body: bytes = answer.read(ANSWER_BYTES_MAX)
                return body
        except urllib.error.HTTPError as error:
            raise TokenUnavailableError(
                f"the token endpoint {self._url} answers {self._told(error)}"
            ) from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise TokenUnavailableError(f"cannot reach the token endpoint {self._url}: {reason}") from error

    def _token(self, body: bytes) -> Token:
        try:
            found = json.loads(body)
            value, seconds = found["access_token"], found.get("expires_in")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            value = None
        if not isinstance(value, str) or not value:
            raise TokenUnavailableError(f"the answer of the token endpoint {self._url} has no access_token")
        try:
            return Token(value, lifetime_of(value) if seconds is None else time.time() + float(seconds))
        except (ValueError, TypeError):
            raise TokenUnavailableError(
                f"the answer of the token endpoint {self._url} has an expires_in that is no number"
            ) from None

    @staticmethod
    def _told(error: urllib.error.HTTPError) -> str:
        """The error that the server names (RFC 6749, 5.2), which has no secret."""
        try:
            told = str(json.loads(error.read(ANSWER_BYTES_MAX))["error"])[:ERROR_CHARACTERS_MAX]
        except (OSError, HTTPException, ValueError, KeyError, TypeError, RecursionError):
            return f"{error.code} {error.reason}"
        shown = told if told.isprintable() else ascii(told)
        return f"{error.code} {shown}: check client id, secret and scope"
