"""Serves /metrics over HTTP on the control loop."""

import asyncio
from typing import TYPE_CHECKING, Any, Final

from bowstring.engine import event_log

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker

_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_READ_TIMEOUT_S: Final = 10.0
_HEADER_MAX_BYTES: Final = 16384


class MetricsServer:
    """A minimal HTTP server: one GET per connection, which is all a scraper needs."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._registry: Any = None
        self._server: asyncio.Server | None = None
        self.port = -1

    async def start(self, host: str | None, port: int) -> None:
        """Listens on `port` (0: any free port).

        Raises:
            OSError: The address is in use.
        """
        self._server = await asyncio.start_server(self._serve, host, port, limit=_HEADER_MAX_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stops listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _READ_TIMEOUT_S)
            writer.write(self._respond(head))
            await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the scraper disconnected or does not speak HTTP: nobody to answer
        finally:
            writer.close()

    def _respond(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return _response("405 Method Not Allowed", b"only GET is answered here\n")
        if path not in (b"/metrics", b"/"):
            return _response("404 Not Found", b"the metrics are at /metrics\n")
        body = self._metrics()
        return _response("200 OK", body, keep_body=method == b"GET")

    def _metrics(self) -> bytes:
        from bowstring.engine.broker import metrics  # the library takes 50 ms to load

        if self._registry is None:
            self._registry = metrics.registry(self._broker)
            event_log.info("first scrape of the metrics endpoint")
        return metrics.text(self._registry)


def _response(status: str, body: bytes, *, keep_body: bool = True) -> bytes:
    kind = _CONTENT_TYPE if status.startswith("200") else "text/plain"
    facts = f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close"
    return f"HTTP/1.1 {status}\r\n{facts}\r\n\r\n".encode() + (body if keep_body else b"")
