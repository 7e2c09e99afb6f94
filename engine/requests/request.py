"""Defines a request as its handler sees it."""

from typing import Any, Protocol

from bowstring.engine.requests.listeners import Listener


class Received(Protocol):
    """A request of the data plane before it is decoded."""

    @property
    def api_key(self) -> int:
        """The API's key."""

    @property
    def api_version(self) -> int:
        """Version of request and response."""

    @property
    def correlation_id(self) -> int:
        """The client's number for it."""

    @property
    def client_id(self) -> str | None:
        """The client's name for itself; None when it sent none."""

    @property
    def principal(self) -> str:
        """The sender, such as ``User:ANONYMOUS``."""

    @property
    def peer(self) -> str:
        """The sender's address, ``host:port``."""

    @property
    def listener(self) -> int:
        """The index of the listener it came through."""

    @property
    def body(self) -> object:
        """Its bytes; a buffer if it is large."""


class Request:
    """A decoded request and its context.

    Attributes:
        api_key: The API's key.
        version: Version of request and response.
        body: The decoded request, an instance of the API's request class.
        correlation_id: The client's number for it.
        client_id: The client's name for itself; None when it sent none.
        principal: The sender, such as ``User:ANONYMOUS``.
        is_token_authenticated: Whether the sender has authenticated with a delegation token.
        is_forwarded: Whether a broker has sent it on inside Envelope.
        peer: The sender's address, ``host:port``.
        listener: The listener it came through, with the advertised address.
        connection_id: Id of its connection while that is open.
        keeps: Set by a handler whose answer is right for every request with the same body, version and
            listener from those who may do the same, until the image of the cluster, what this broker
            coordinates or the rules of access control change. Not if it counts a denial.
        received_ns: Time of arrival, CLOCK_MONOTONIC.
        spent_ns: Time of the control thread for it that its client's quota does not have yet.
    """

    __slots__ = (
        "api_key",
        "body",
        "client_id",
        "connection_id",
        "correlation_id",
        "is_forwarded",
        "is_token_authenticated",
        "keeps",
        "listener",
        "peer",
        "principal",
        "received_ns",
        "slot",
        "spent_ns",
        "version",
    )

    def __init__(
        self,
        *,
        api_key: int,
        version: int,
        body: Any,
        listener: Listener,
        correlation_id: int = 0,
        client_id: str | None = None,
        principal: str = "User:ANONYMOUS",
        peer: str = "",
        connection_id: int = -1,
        slot: int = -1,
        received_ns: int = 0,
        is_token_authenticated: bool = False,
        is_forwarded: bool = False,
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.body = body
        self.listener = listener
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.principal = principal
        self.peer = peer
        self.connection_id = connection_id
        self.slot = slot
        self.keeps = False
        self.spent_ns = 0
        self.received_ns = received_ns
        self.is_token_authenticated = is_token_authenticated
        self.is_forwarded = is_forwarded
