"""Serves /metrics, /health and /ready over HTTP on the control loop."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from bowstring.engine import event_log

_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_READ_TIMEOUT_S: Final = 10.0
_HEADER_MAX_BYTES: Final = 16384


class MetricsServer:
    """A minimal HTTP server: one GET per connection, which is all a scraper needs.

    Args:
        make_registry: Makes the registry of the node's metrics, at the first scrape.
        why_not_ready: Returns why the node is not ready; None when it is.
    """

    def __init__(self, make_registry: Callable[[], Any], why_not_ready: Callable[[], str | None]) -> None:
        self._make_registry = make_registry
        self._why_not_ready = why_not_ready
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
            pass  # the scraper disconnected or does not speak HTTP: no one to answer
        finally:
            writer.close()

    def _respond(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return _response("405 Method Not Allowed", b"only GET is answered here\n")
        answer = self._ANSWERS.get(path)
        if answer is None:
            return _response("404 Not Found", b"there are /metrics, /health and /ready\n")
        return answer(self, method == b"GET")

    def _health(self, keep_body: bool) -> bytes:
        """Says that the process lives. The control loop has answered, so it is not stuck."""
        return _response("200 OK", b"alive\n", keep_body=keep_body)

    def _ready(self, keep_body: bool) -> bytes:
        why_not = self._why_not_ready()
        if why_not is None:
            return _response("200 OK", b"ready\n", keep_body=keep_body)
        return _response("503 Service Unavailable", f"{why_not}\n".encode(), keep_body=keep_body)

    def _metrics(self, keep_body: bool) -> bytes:
        from bowstring.engine.broker import metrics  # the library takes 50 ms to load

        if self._registry is None:
            self._registry = self._make_registry()
            event_log.info("first scrape of the metrics endpoint")
        text = metrics.text(self._registry)
        return _response("200 OK", text, kind=_METRICS_TYPE, keep_body=keep_body)

    _ANSWERS: Final[dict[bytes, Callable[["MetricsServer", bool], bytes]]] = {
        b"/": _metrics,
        b"/metrics": _metrics,
        b"/health": _health,
        b"/ready": _ready,
    }


def _response(status: str, body: bytes, *, kind: str = "text/plain", keep_body: bool = True) -> bytes:
    facts = f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close"
    return f"HTTP/1.1 {status}\r\n{facts}\r\n\r\n".encode() + (body if keep_body else b"")
