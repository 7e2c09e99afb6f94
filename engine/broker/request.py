"""A request as its handler sees it."""

from typing import Any

from bowstring.engine.broker.listeners import Listener


class Request:
    """A decoded request and the facts that came with it.

    Attributes:
        api_key: Which API.
        version: Version of request and response.
        body: The decoded request, of the API's request class.
        correlation_id: The client's number for it.
        client_id: What the client calls itself; None when it does not.
        principal: Who sent it, such as ``User:ANONYMOUS``.
        peer: Where it came from, ``host:port``.
        listener: The listener it came through, with the address advertised for it.
        connection_id: Its connection, for as long as that lasts.
        received_ns: When it arrived, CLOCK_MONOTONIC.
    """

    __slots__ = (
        "api_key",
        "body",
        "client_id",
        "connection_id",
        "correlation_id",
        "listener",
        "peer",
        "principal",
        "received_ns",
        "slot",
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
        self.received_ns = received_ns
