"""Adapts uvicorn: bounded heads of requests, timeouts of slow ones and of clients that take no answer,
certificates of clients.

uvicorn with httptools bounds neither the size of a request's head nor the time that it or an answer takes.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bowstring.web.serving import CONNECTIONS_MAX, KEEP_ALIVE_S, STOP_S

HEAD_BYTES_MAX = 64 << 10
HEAD_S = 30.0
"""How long a connection may take until the head of its first request is complete."""
STALLED_S = 300.0
"""How long a client may take nothing of an answer that waits for it; then its connection is cut."""
_SHORT_NAMES = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}


class HeadTooLargeError(Exception):
    """The head of a request exceeds HEAD_BYTES_MAX; the connection is answered with 400 and closed."""


class _Protocol(HttpToolsProtocol):
    """One connection."""

    _head_bytes = 0
    _unread_bytes = 0
    _certificate_name = ""
    _head_timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(HEAD_S, self.timeout_keep_alive_handler)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            self._certificate_name = distinguished_name(tls.getpeercert() or {})

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall_timer = self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._end_stall()
        super().resume_writing()

    def _end_stall(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        self._end_stall()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unread_bytes += len(data)
        super().data_received(data)
        # The parser keeps a header, or a trailer, until its line ends.
        if self._unread_bytes > 2 * HEAD_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = 0
        if self._certificate_name:
            # The TLS extension of ASGI.
            self.scope["extensions"] = {"tls": {"client_cert_name": self._certificate_name}}
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_S, self.timeout_keep_alive_handler)

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._end_head()
        self._unread_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unread_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread_bytes = 0
        super().on_message_complete()

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES_MAX:
            raise HeadTooLargeError

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def distinguished_name(certificate: dict[str, Any]) -> str:
    """Returns the subject of a certificate as RFC 4514 writes it, such as `CN=orders,O=Example`.

    Args:
        certificate: as `ssl.SSLSocket.getpeercert` returns it; empty for none.
    """
    parts = (
        "+".join(f"{_SHORT_NAMES.get(kind, kind)}={_escaped(value)}" for kind, value in each)
        for each in reversed(certificate.get("subject", ()))
    )
    return ",".join(parts)


def _escaped(value: str) -> str:
    found = "".join(f"\\{char}" if char in ',+"\\<>;' else char for char in value).replace("\0", "\\00")
    if found[:1] in (" ", "#"):
        found = f"\\{found}"
    return f"{found[:-1]}\\ " if found.endswith(" ") and len(value) > 1 else found


class _Server(uvicorn.Server):
    """A server that an event stops; signals are its program's."""

    def __init__(self, config: uvicorn.Config, stop: asyncio.Event):
        super().__init__(config)
        self._stop = stop

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def main_loop(self) -> None:
        while not self.should_exit:
            await self.on_tick(0)  # sets the Date header
            try:
                await asyncio.wait_for(self._stop.wait(), 1.0)
            except TimeoutError:
                continue
            self.should_exit = True


class _Config(uvicorn.Config):
    """A configuration with a context of TLS that is already made."""

    def __init__(self, app: Any, tls: ssl.SSLContext | None, **options: Any):
        super().__init__(app, **options)
        self._tls = tls

    def load(self) -> None:
        super().load()
        self.ssl = self._tls


def make_server(app: Any, tls: ssl.SSLContext | None, stop: asyncio.Event) -> uvicorn.Server:
    """Returns a server of an ASGI application that ends when `stop` is set.

    Args:
        app: the application; it must answer lifespan events, or refuse them by an exception.
        tls: for https; None for http.
        stop: ends the server.
    """
    config = _Config(
        app,
        tls,
        http=_Protocol,
        ws="none",
        lifespan="auto",
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_graceful_shutdown=STOP_S,
        timeout_keep_alive=KEEP_ALIVE_S,
        limit_concurrency=CONNECTIONS_MAX,
    )
    return _Server(config, stop)
