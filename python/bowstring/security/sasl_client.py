"""Implements the client's side of SASL mechanisms without I/O: PLAIN (RFC 4616), SCRAM-SHA-256 and -512
(RFC 5802, KIP-84) and OAUTHBEARER (RFC 7628, KIP-255, KIP-342). GSSAPI is in gssapi_client.py.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from bowstring.security.scram import SCRAM_MECHANISMS, ScramClient, ScramError

# Brokers take names and values of letters and printable characters (RFC 7628, section 3.1).
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7E \t\r\n]+")
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")


class SaslError(Exception):
    """The exchange cannot go on: the server did not prove that it has the password, or violates the
    mechanism.

    Attributes:
        retriable: another try may succeed.
    """

    retriable = False


class SaslClient(ABC):
    """One exchange of a mechanism; used once.

    Attributes:
        mechanism: its name.
        is_done: the client is content. A login also needs the server's word that it succeeded.
    """

    mechanism: str

    def __init__(self) -> None:
        self.is_done = False

    @abstractmethod
    def first(self) -> bytes:
        """Returns the first message."""

    @abstractmethod
    def next(self, challenge: bytes) -> bytes | None:
        """Returns the answer to the server's message; None when there is nothing to send.

        Raises:
            SaslError: the exchange cannot go on.
        """

    @property
    def refusal(self) -> str | None:
        """Why the server refuses, if the mechanism has a message for it."""
        return None


class PlainClient(SaslClient):
    """Sends user and password in clear text. Use it over TLS only."""

    mechanism = "PLAIN"

    def __init__(self, username: str, password: str):
        super().__init__()
        self._username, self._password = username, password

    def first(self) -> bytes:
        """See SaslClient."""
        self.is_done = True
        return f"\0{self._username}\0{self._password}".encode()

    def next(self, challenge: bytes) -> bytes | None:
        """See SaslClient."""
        if challenge:
            raise SaslError("the server sent a challenge, which PLAIN does not have")
        return None


class ScramExchange(SaslClient):
    """Proves the password without sending it, and checks that the server has what belongs to it.

    Args:
        mechanism: SCRAM-SHA-256 or SCRAM-SHA-512.
        username, password: or the id and the HMAC of a delegation token.
        token_auth: these are of a delegation token (KIP-48).
        nonce: for tests; by default a random one.
    """

    def __init__(
        self,
        mechanism: str,
        username: str,
        password: str,
        *,
        token_auth: bool = False,
        nonce: str | None = None,
    ):
        super().__init__()
        self.mechanism = mechanism
        self._exchange = ScramClient(
            SCRAM_MECHANISMS[mechanism], username, password, token=token_auth, nonce=nonce
        )
        self._proved = False

    def first(self) -> bytes:
        """See SaslClient."""
        return self._exchange.first()

    def next(self, challenge: bytes) -> bytes | None:
        """See SaslClient."""
        try:
            if not self._proved:
                self._proved = True
                return self._exchange.final(challenge)
            self._exchange.verify(challenge)
        except ScramError as error:
            raise SaslError(str(error)) from error
        self.is_done = True
        return None


class OAuthBearerClient(SaslClient):
    """Sends a bearer token.

    Args:
        token: returns the token. Called once, by `first`.
        extensions: SASL extensions for the server (KIP-342).

    Raises:
        SaslError: an extension is malformed.
    """

    mechanism = "OAUTHBEARER"

    def __init__(self, token: Callable[[], str], extensions: Mapping[str, str] | None = None):
        super().__init__()
        self._token, self._extensions = token, dict(extensions or {})
        self._refusal: str | None = None
        for name, value in self._extensions.items():
            if name == "auth" or not _EXTENSION_NAME.fullmatch(name) or not _EXTENSION_VALUE.fullmatch(value):
                raise SaslError(f"the SASL extension {name!r} is invalid: names are letters but not `auth`")

    def first(self) -> bytes:
        """See SaslClient."""
        token = self._token()
        if not _TOKEN.fullmatch(token):
            raise SaslError("the OAuth token has characters that a bearer token may not have (RFC 6750)")
        more = "".join(f"{name}={value}\1" for name, value in self._extensions.items())
        self.is_done = True
        return f"n,,\1auth=Bearer {token}\1{more}\1".encode()

    def next(self, challenge: bytes) -> bytes | None:
        """See SaslClient."""
        if not challenge:
            return None
        try:
            told = json.loads(challenge)
            self._refusal = f"{told['status']}" + (f" (scope {told['scope']})" if told.get("scope") else "")
        except (ValueError, KeyError, TypeError, AttributeError):
            self._refusal = "the token"
        return b"\1"  # the server then ends the exchange (RFC 7628, section 3.2.3)

    @property
    def refusal(self) -> str | None:
        """Status and scope that the server reports."""
        return self._refusal
