"""Serves /metrics, /health and /ready over HTTP on the control loop."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from bowstring.engine import event_log

_TEXT: Final = {"Content-Type": "text/plain"}
_READ_TIMEOUT_S: Final = 10.0
_HEADER_MAX_BYTES: Final = 16384


Answer = tuple[str, bytes, dict[str, str]]


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
        status, body, described = answer(self, _headers(head))
        return _response(status, body, described, keep_body=method == b"GET")

    def _health(self, _: dict[str, str]) -> Answer:
        """Says that the process lives. The control loop has answered, so it is not stuck."""
        return "200 OK", b"alive\n", _TEXT

    def _ready(self, _: dict[str, str]) -> Answer:
        why_not = self._why_not_ready()
        if why_not is None:
            return "200 OK", b"ready\n", _TEXT
        return "503 Service Unavailable", f"{why_not}\n".encode(), _TEXT

    def _metrics(self, headers: dict[str, str]) -> Answer:
        from bowstring.engine.broker import metrics  # the library takes 50 ms to load

        if self._registry is None:
            self._registry = self._make_registry()
            event_log.info("first scrape of the metrics endpoint")
        accepted = headers.get("accept", ""), headers.get("accept-encoding", "")
        return "200 OK", *metrics.exposition(self._registry, *accepted)

    _ANSWERS: Final[dict[bytes, Callable[["MetricsServer", dict[str, str]], Answer]]] = {
        b"/": _metrics,
        b"/metrics": _metrics,
        b"/health": _health,
        b"/ready": _ready,
    }


def _headers(head: bytes) -> dict[str, str]:
    """Returns the headers of a request by their names in lower case; a name that comes twice counts once."""
    lines = head.decode("latin-1").split("\r\n")[1:]
    return {
        name.strip().lower(): value.strip()
        for name, colon, value in (each.partition(":") for each in lines)
        if colon
    }


def _response(
    status: str, body: bytes, described: dict[str, str] = _TEXT, *, keep_body: bool = True
) -> bytes:
    facts = {**described, "Content-Length": str(len(body)), "Connection": "close"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in facts.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + (body if keep_body else b"")
