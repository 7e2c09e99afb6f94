"""Defines the server side of a SASL exchange: a state machine without I/O for each mechanism."""

from typing import Protocol


class AuthenticationFailedError(Exception):
    """A client cannot prove its name, or does not follow the mechanism.

    Args:
        answer: What the client may read; None for the same text whatever is wrong. It does not say whether a
            user exists.
        reason: For the log. Without secrets.
        closes: The connection is closed without an answer, so that the client tries again.
    """

    def __init__(self, reason: str, answer: str | None = None, *, closes: bool = False) -> None:
        super().__init__(reason)
        self.answer = answer
        self.closes = closes


class SaslServer(Protocol):
    """One exchange.

    Attributes:
        is_complete: The client is authenticated.
        name: Its name, once the exchange is complete.
        expires_ms: End of its credential's life, in milliseconds since the epoch; None: it does not end.
        has_token: It has authenticated with a delegation token.
    """

    is_complete: bool
    name: str
    expires_ms: int | None
    has_token: bool

    def step(self, token: bytes) -> bytes | None:
        """Takes a message of the client and returns the answer; None where the mechanism has none.

        Raises:
            AuthenticationFailedError: The exchange has failed; it must not go on.
        """
