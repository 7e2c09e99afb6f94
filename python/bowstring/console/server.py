"""uvicorn's server with bounds for connections: their number, how long they rest, handshakes of TLS."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from bowstring.web.tls_server import TlsServer

CONNECTIONS_MAX = 400
"""More end those that rested longest; a request that finds all of them busy is answered with 503."""
REST_S = 60.0
"""How long a connection may be without a whole head of a request."""


class Connection(H11Protocol):
    """One connection.

    Attributes:
        since: when it became idle, seconds of the monotonic clock.
    """

    since = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether it has no request in progress; the head of one may be on its way."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Makes room where there are too many connections."""
        super().connection_made(transport)
        self.since = time.monotonic()
        if len(self.connections) > CONNECTIONS_MAX:
            others: list[Any] = [each for each in self.connections if each is not self]
            others = [each for each in others if each.is_idle]
            if others:
                oldest = min(others, key=lambda each: each.since)
                self.connections.discard(oldest)
                oldest.transport.abort()

    def on_response_complete(self) -> None:
        """Begins to rest."""
        self.since = time.monotonic()
        super().on_response_complete()

    def look(self, now: float) -> None:
        """Closes the connection if it has rested too long."""
        if self.is_idle and now > self.since + REST_S:
            self.transport.close()


class ConsoleServer(TlsServer):
    """A server whose configuration has the protocol `Connection`."""

    async def on_tick(self, counter: int) -> bool:
        """Looks at connections once a second, as its counter says; returns whether the server must end."""
        if counter % 10 == 0:
            now = time.monotonic()
            for each in list(self.server_state.connections):
                assert isinstance(each, Connection)
                each.look(now)
        return await super().on_tick(counter)
