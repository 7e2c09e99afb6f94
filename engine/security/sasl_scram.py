"""Authenticates with SCRAM (RFC 5802): users, and delegation tokens (KIP-48)."""

from collections.abc import Callable
from typing import NamedTuple

from bowstring.engine.security.sasl_server import AuthenticationFailedError
from bowstring.security.scram import (
    ClientFirst,
    ScramCredential,
    ScramError,
    ScramMechanism,
    is_proof,
    new_nonce,
    parse_client_final,
    parse_client_first,
    server_final,
    server_first,
)


class TokenLogin(NamedTuple):
    """What a delegation token gives its bearer.

    Attributes:
        credential: Of the token's HMAC.
        owner: The owner's name.
        expires_ms: End of the token's life.
    """

    credential: ScramCredential
    owner: str
    expires_ms: int


CredentialOf = Callable[[str], ScramCredential | None]
"""Returns the credential of a user."""

TokenOf = Callable[[str], TokenLogin | None]
"""Returns the log-in of a delegation token that has not expired, by its id."""

DecoyOf = Callable[[str, bool], ScramCredential]
"""Returns the credential that stands for a name without one; true: the name is that of a token."""


class ScramServer:
    """The server side of SCRAM. See `SaslServer`.

    Unknown names get a challenge like any other, and fail with the proof, as a wrong password does. The work
    is the same, too.
    """

    def __init__(
        self, mechanism: ScramMechanism, credential_of: CredentialOf, token_of: TokenOf, decoy_of: DecoyOf
    ) -> None:
        self.is_complete = False
        self.name = ""
        self.expires_ms: int | None = None
        self.has_token = False
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._token_of = token_of
        self._decoy_of = decoy_of
        self._first: ClientFirst | None = None
        self._challenge = ""
        self._nonce = ""
        self._is_known = False
        self._credential: ScramCredential | None = None
        self._next_name = ""

    def step(self, token: bytes) -> bytes:
        """Takes the first message, then the last.

        Raises:
            AuthenticationFailedError: A message is malformed, or the proof is wrong.
        """
        try:
            if self._first is None:
                return self._answer_first(parse_client_first(token))
            return self._answer_final(token)
        except ScramError as error:
            raise AuthenticationFailedError(str(error)) from None

    def _answer_first(self, first: ClientFirst) -> bytes:
        self._first = first
        if first.authorization not in ("", first.name):
            detail = (
                "Authentication failed: Client requested an authorization id that is different from username"
            )
            raise AuthenticationFailedError(detail, detail)
        self._next_name = first.name
        self.has_token = first.token_authenticated
        decoy = self._decoy_of(first.name, first.token_authenticated)  # made for known names, too
        if first.token_authenticated:
            login = self._token_of(first.name)
            self._credential = None if login is None else login.credential
            if login is not None:
                self._next_name, self.expires_ms = login.owner, login.expires_ms
        else:
            self._credential = self._credential_of(first.name)
        self._is_known = self._credential is not None
        self._credential = self._credential or decoy
        self._nonce = first.nonce + new_nonce()
        self._challenge = server_first(self._nonce, self._credential)
        return self._challenge.encode()

    def _answer_final(self, token: bytes) -> bytes:
        first, credential = self._first, self._credential
        if first is None or credential is None:
            raise AuthenticationFailedError("a message came after the last one")
        self._credential = None
        final = parse_client_final(token)
        messages = f"{first.bare},{self._challenge},{final.bare}"
        is_right = is_proof(self._mechanism, credential, final.proof, messages)
        if final.nonce != self._nonce or final.channel != first.header.encode():
            raise AuthenticationFailedError("the client's last SCRAM message belongs to another exchange")
        if not is_right or not self._is_known:
            raise AuthenticationFailedError("the name or the password is wrong")
        self.name = self._next_name
        self.is_complete = True
        return server_final(self._mechanism, credential, messages)
