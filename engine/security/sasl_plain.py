"""Authenticates with PLAIN (RFC 4616)."""

import hashlib
import hmac
from collections.abc import Mapping

from bowstring.engine.security.sasl_server import AuthenticationFailedError

_INVALID = "Authentication failed: Invalid username or password"


class SaslPlain:
    """The server side of PLAIN, with the passwords by name. See `SaslServer`."""

    has_token = False
    expires_ms: int | None = None

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self.is_complete = False
        self.name = ""
        self._passwords = passwords

    def step(self, token: bytes) -> bytes:
        """Takes the only message: authorization id, name and password, separated by NUL.

        Raises:
            AuthenticationFailedError: It is malformed, or name and password are not those of a user.
        """
        parts = token.decode("utf-8", "replace").split("\0")
        if len(parts) != 3:
            detail = f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(parts), 4)}"
            raise AuthenticationFailedError(detail, detail)
        authorization, name, password = parts
        for part, what in ((name, "username"), (password, "password")):
            if not part:
                detail = f"Authentication failed: {what} not specified"
                raise AuthenticationFailedError(detail, detail)
        expected = self._passwords.get(name)
        # Also for unknown names, and of hashes, so that the time shows neither names nor lengths.
        given, wanted = (hashlib.sha256(each.encode()).digest() for each in (password, expected or ""))
        is_equal = hmac.compare_digest(given, wanted)
        if expected is None or not is_equal:
            raise AuthenticationFailedError("the name or the password is wrong", _INVALID)
        if authorization not in ("", name):
            detail = (
                "Authentication failed: Client requested an authorization id that is different from username"
            )
            raise AuthenticationFailedError(detail, detail)
        self.name = name
        self.is_complete = True
        return b""
