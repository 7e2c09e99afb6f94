"""uvicorn's server with bounds for handshakes of TLS."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import uvicorn

from bowstring.web.tls_listener import TlsListener


class TlsServer(uvicorn.Server):
    """uvicorn's server, which accepts connections of TLS as TlsListener does."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens on sockets."""
        config, tls = self.config, self.config.ssl
        if tls is None:
            await super().startup(sockets)
            return
        await super().startup([])

        protocol: Callable[..., asyncio.Protocol] = config.http_protocol_class

        def make_protocol() -> asyncio.Protocol:
            return protocol(config, self.server_state, self.lifespan.state)

        # uvicorn closes them, and waits for that.
        self.servers = [TlsListener(each, tls, make_protocol) for each in sockets or ()]  # type: ignore[misc]
