"""Logs a connection in with SASL, without I/O: SaslHandshake, then the exchange of the mechanism in
SaslAuthenticate (KIP-43, KIP-152), and its repetition before the session ends (KIP-368).

    login = Login(sasl, versions, peer="kafka:9093")
    request = login.first()
    while request is not None:
        response = …  # send request.body in request.version, decode the answer
        request = login.next(response)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from bowstring.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from bowstring.protocol.schema import Request, Response
from bowstring.security.sasl_client import SaslClient, SaslError

# The first part of a session after which the client authenticates again; at random, so that the clients
# of a broker
# that restarted do not all come at once. As Kafka's clients.
RENEW_FROM, RENEW_SPREAD = 0.85, 0.10
# A mechanism needs three messages at most.
ROUNDS_MAX = 10
_AUTHENTICATE_HIGHEST = 2


class LoginError(Exception):
    """A login failed.

    Args:
        reason: why, and what to do.
        error_code: Kafka's code; 0 where the peer did not answer with one.

    Attributes:
        retriable: the same login may succeed later.
    """

    def __init__(self, reason: str, error_code: int = Errors.NONE.code, *, retriable: bool = False):
        super().__init__(reason)
        self.error_code = error_code
        self.retriable = retriable


class LoginRequest(NamedTuple):
    """What to send next."""

    body: Request
    version: int


class Login:
    """One login, or one renewal.

    Args:
        sasl: a new exchange.
        versions: lowest and highest version of each API of the peer, from its answer to ApiVersions.
        peer: its address, for errors.

    Attributes:
        lifetime_ms: how long the session lasts; 0 for ever. Known when `next` has returned None.
    """

    def __init__(self, sasl: SaslClient, versions: Mapping[int, tuple[int, int]], *, peer: str):
        self._sasl, self._peer = sasl, peer
        self._versions = versions
        self._rounds = 0
        self.lifetime_ms = 0

    def first(self) -> LoginRequest:
        """Returns SaslHandshake.

        Raises:
            LoginError: the peer has no SASL.
        """
        lowest, highest = self._versions.get(SaslHandshakeRequest.api_key, (0, -1))
        if not lowest <= 1 <= highest or SaslAuthenticateRequest.api_key not in self._versions:
            raise LoginError(
                f"{self._peer} does not offer SASL: check security.protocol, and that the port belongs to a "
                "SASL_PLAINTEXT or SASL_SSL listener"
            )
        return LoginRequest(SaslHandshakeRequest(mechanism=self._sasl.mechanism), 1)

    def next(self, response: Response) -> LoginRequest | None:
        """Returns the next request; None when the peer has accepted.

        Raises:
            LoginError: the peer refuses, or does not prove what it must.
        """
        if isinstance(response, SaslHandshakeResponse):
            return self._begin(response)
        assert isinstance(response, SaslAuthenticateResponse)
        if response.error_code:
            raise self._refused(response)
        self._rounds += 1
        if self._rounds > ROUNDS_MAX:
            raise LoginError(f"{self._peer} does not end the exchange of {self._sasl.mechanism}")
        try:
            answer = self._sasl.next(bytes(response.auth_bytes))
        except SaslError as error:
            raise self._failed(error) from error
        if answer is not None:
            return self._message(answer)
        if not self._sasl.is_done:
            raise LoginError(f"{self._peer} ended the exchange of {self._sasl.mechanism} early")
        self.lifetime_ms = max(0, response.session_lifetime_ms)
        return None

    def reauthenticate_after_s(self, dice: float) -> float | None:
        """Returns after how many seconds from now to log in again; None for never.

        Args:
            dice: random, 0 ≤ dice < 1.
        """
        return self.lifetime_ms / 1000 * (RENEW_FROM + RENEW_SPREAD * dice) if self.lifetime_ms else None

    def _begin(self, response: SaslHandshakeResponse) -> LoginRequest:
        if response.error_code == Errors.UNSUPPORTED_SASL_MECHANISM.code:
            offered = ", ".join(response.mechanisms) or "none"
            raise LoginError(
                f"{self._peer} does not offer the SASL mechanism {self._sasl.mechanism}, but {offered}: "
                "check sasl.mechanism",
                response.error_code,
            )
        if response.error_code:
            row = Errors.of(response.error_code)
            raise LoginError(
                f"{self._peer} refuses to begin a login: {row.message} [{row.name}]. Check "
                "security.protocol: the "
                "listener may not have SASL",
                response.error_code,
            )
        try:
            return self._message(self._sasl.first())
        except SaslError as error:
            raise self._failed(error) from error

    def _failed(self, error: SaslError) -> LoginError:
        return LoginError(
            f"{self._sasl.mechanism} with {self._peer} failed: {error}", retriable=error.retriable
        )

    def _message(self, message: bytes) -> LoginRequest:
        _, highest = self._versions[SaslAuthenticateRequest.api_key]
        return LoginRequest(SaslAuthenticateRequest(auth_bytes=message), min(highest, _AUTHENTICATE_HIGHEST))

    def _refused(self, response: SaslAuthenticateResponse) -> LoginError:
        row = Errors.of(response.error_code)
        told = (response.error_message or row.message).rstrip(".")
        if self._sasl.refusal:
            told = f"{told} ({self._sasl.refusal})"
        cure = {
            "OAUTHBEARER": "check the token's issuer, audience, scope and lifetime",
            "GSSAPI": "check the broker's log: its rules for names, its keytab, the clocks",
        }.get(self._sasl.mechanism, "check user name and password")
        return LoginError(
            f"{self._peer} refuses the login with {self._sasl.mechanism}: {told} [{row.name}]; {cure}",
            response.error_code,
            retriable=row.retriable,
        )
