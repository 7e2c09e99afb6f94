"""Authenticates with OAUTHBEARER (RFC 7628): a client presents a token of an identity provider."""

import json
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from bowstring.engine.security.sasl_server import AuthenticationFailedError

_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authorization>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_BEARER: Final = re.compile(r"bearer +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.IGNORECASE)
_ACKNOWLEDGED: Final = b"\x01"


class Bearer(NamedTuple):
    """The claims of a valid token.

    Attributes:
        name: The subject.
        expires_ms: End of the token's life.
    """

    name: str
    expires_ms: int


class TokenRefusedError(Exception):
    """A token is not valid; the message says why, without the token."""


class OAuthBearerServer:
    """The server side of OAUTHBEARER. See `SaslServer`.

    Args:
        validated: Checks a token. Raises TokenRefusedError.
    """

    has_token = False

    def __init__(self, validated: Callable[[str], Bearer]) -> None:
        self.is_complete = False
        self.name = ""
        self.expires_ms: int | None = None
        self._validated = validated
        self._error: str | None = None
        self._reason = ""

    def step(self, token: bytes) -> bytes:
        """Takes the token; after one that is refused, the client's acknowledgement of the error.

        Raises:
            AuthenticationFailedError: The message is malformed, or the token has been refused.
        """
        if self._error is not None:
            raise AuthenticationFailedError(
                f"the token is refused: {self._reason}", self._error if token == _ACKNOWLEDGED else None
            )
        found = _FIRST.fullmatch(token.decode("utf-8", "replace"))
        if found is None:
            raise AuthenticationFailedError("the client's first OAUTHBEARER message is malformed")
        pairs = dict(each.split("=", 1) for each in found["pairs"].split("\x01") if each)
        bearer = _BEARER.fullmatch(pairs.get("auth", ""))
        if bearer is None:
            raise AuthenticationFailedError("the client's first OAUTHBEARER message has no bearer token")
        try:
            valid = self._validated(bearer["token"])
        except TokenRefusedError as error:
            self._reason = str(error)
            self._error = json.dumps({"status": "invalid_token"}, separators=(",", ":"))
            return self._error.encode()
        if found["authorization"] not in (None, valid.name):
            raise AuthenticationFailedError("the client gives another name than that of its token")
        self.name, self.expires_ms = valid.name, valid.expires_ms
        self.is_complete = True
        return b""
