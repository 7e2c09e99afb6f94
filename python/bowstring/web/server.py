"""uvicorn's server with what programs on an open network need: bounded heads of requests, timeouts of slow
ones and of clients that take no answer, a bounded number of connections, certificates of clients.

uvicorn with httptools bounds neither the size of a request's head nor the time that it or an answer takes,
nor connections at rest.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import httptools
import uvicorn
from uvicorn.protocols.http.flow_control import service_unavailable
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from bowstring.web.limits import CYCLE
from bowstring.web.serving import CONNECTIONS_MAX, KEEP_ALIVE_S, STOP_S
from bowstring.web.tls_server import TlsServer

HEAD_BYTES_MAX = 64 << 10
HEADERS_MAX = 200
"""Of a request, with its trailers: each takes far more memory than it has bytes."""
HEAD_S = 30.0
"""How long the head of a request may take; that of the first one counts from the begin of the connection."""
STALLED_S = 300.0
"""How long a client may take nothing of an answer that waits for it; then its connection is cut."""
LOOK_S = 1.0
"""How often connections are looked at whose time is over."""
ADDRESS_SHARE_MAX = 2
"""One address has at most this part of all connections: a half."""
CUT_SHARE = 20
"""Where there are too many connections, this part of them is closed: those that rested longest."""
PIPELINED_MAX = 50
"""Requests of a connection that wait for the answer before theirs; after the last one's it is closed."""
_NEVER = float("inf")
_KEPT_BYTES_MAX = 200
_NO_HEADER = re.compile(rb"[\x00\r\n]")
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
    """The head of a request exceeds HEAD_BYTES_MAX or HEADERS_MAX; the connection is answered with 400 and
    closed.
    """


class TunnelError(Exception):
    """A request has the method CONNECT; the connection is answered with 405 and closed."""


class PipelineFullError(Exception):
    """More than PIPELINED_MAX requests wait; those after them are not read."""


def _line(name: bytes, value: bytes) -> bytes:
    """Returns the line of a header."""
    if _NO_HEADER.search(name) or _NO_HEADER.search(value):
        raise RuntimeError("a header of an answer has a line break")
    return b"%b: %b\r\n" % (name, value)


_kept_line = lru_cache(4096)(_line)


class _Cycle(RequestResponseCycle):
    """One request and its answer. Head and body go out in one write where they come together."""

    _head = b""
    loop: asyncio.AbstractEventLoop

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            if self._keep_head(message):
                return
        elif self._head and self._send_whole(message):
            return
        self._flush_head()
        await super().send(message)

    def _keep_head(self, message: Any) -> bool:
        """Keeps the head of an answer of known length, which waits for the body."""
        if self.response_started or self.disconnected or self.flow.write_paused or not self.keep_alive:
            return False
        lines, length = [STATUS_LINE[message["status"]]], -1
        for name, value in (*self.default_headers, *message.get("headers", ())):
            if name == b"content-length":
                length = int(value)
            elif name in (b"connection", b"transfer-encoding"):
                return False
            lines.append((_kept_line if len(value) <= _KEPT_BYTES_MAX else _line)(name, value))
        if length < 0:
            return False
        self.response_started, self.waiting_for_100_continue = True, False
        self.expected_content_length, self.chunked_encoding = length, False
        self._head = b"".join((*lines, b"\r\n"))
        # Not later than this step of the loop: the body may take its time.
        self.loop.call_soon(self._flush_head)
        return True

    def _flush_head(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            if not self.disconnected:
                self.transport.write(head)

    def _send_whole(self, message: Any) -> bool:
        """Sends the head that waits with the whole body; returns False if it is not the whole one."""
        body = message.get("body", b"")
        is_whole = len(body) == self.expected_content_length and not message.get("more_body", False)
        if not is_whole or self.disconnected or self.scope["method"] == "HEAD":
            return False
        head, self._head = self._head, b""
        self.transport.write(head + body)
        self.expected_content_length = 0
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()
        return True


class _Protocol(HttpToolsProtocol):
    """One connection.

    Attributes:
        deadline: when it is closed, seconds of the loop's clock, unless something comes first.
        since: when it became idle.
    """

    deadline = _NEVER
    since = 0.0
    _head_bytes = 0
    _unread_bytes = 0
    _in_head = False
    _is_replay = False
    _is_full = False
    _certificate_name = ""
    _address = ""
    _stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.since = self.loop.time()
        self.deadline = self.since + HEAD_S
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            self._certificate_name = distinguished_name(tls.getpeercert() or {})
        self._address = self.client[0] if self.client else ""
        self._addresses[self._address] += 1
        self._make_room()

    @property
    def _addresses(self) -> Counter[str]:
        assert isinstance(self.config, _Config)
        return self.config.addresses

    @property
    def is_idle(self) -> bool:
        """Whether it has no request in progress; the head of one may be on its way."""
        return self.cycle is None or self.cycle.response_complete

    def _make_room(self) -> None:
        """Closes connections at rest where there are too many; without any, this one."""
        is_greedy = self._addresses[self._address] > CONNECTIONS_MAX // ADDRESS_SHARE_MAX
        if not is_greedy and len(self.connections) <= CONNECTIONS_MAX:
            return
        others: list[Any] = [each for each in self.connections if each is not self]
        others = [each for each in others if each.is_idle]
        if is_greedy:
            others = [each for each in others if each._address == self._address]
        others.sort(key=lambda each: each.since)
        for each in others[: max(1, CONNECTIONS_MAX // CUT_SHARE)] or [self]:
            self.connections.discard(each)
            # Not `close`, which waits for whoever takes nothing of the last answer.
            each.transport.abort()

    def look(self, now: float) -> None:
        """Closes the connection if its time is over."""
        if now > self.deadline:
            self.timeout_keep_alive_handler()

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
        self.deadline = _NEVER
        self._end_stall()
        addresses = self._addresses
        addresses[self._address] -= 1
        if not addresses[self._address]:
            del addresses[self._address]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_full:
            return
        self._unread_bytes += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            self._end(error.__context__)
            return
        # The parser keeps a header, or a trailer, until its line ends.
        if self._unread_bytes > 2 * HEAD_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def _feed(self, data: bytes) -> None:
        """Parses bytes. Offers of another protocol (RFC 9110, 7.8) are declined.

        llhttp takes what follows the head with the offer as the other protocol, the body included. So another
        parser reads the same head without the offer, and goes on behind it.
        """
        rest: bytes | memoryview = data
        while True:
            try:
                self.parser.feed_data(rest)
                return
            except httptools.HttpParserUpgrade as offer:
                rest = memoryview(rest)[offer.args[0] :]
            method, version = self.parser.get_method(), self.parser.get_http_version().encode()
            lines = [b"%b / HTTP/%b\r\n" % (method, version)]
            lines += [b"%b: %b\r\n" % each for each in self.headers if each[0] != b"upgrade"]
            self.parser = httptools.HttpRequestParser(self)
            # As uvicorn's.
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            self._is_replay = True
            self.parser.feed_data(b"".join((*lines, b"\r\n")))

    def _end(self, error: BaseException | None) -> None:
        """Ends the connection after a request that cannot be read."""
        if isinstance(error, PipelineFullError):
            self._is_full = True
            # An answer may be lost where bytes of the client wait as the connection closes.
            self.flow.resume_reading()
            return
        if isinstance(error, TunnelError):
            head = b"allow: GET\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[405] + head)
            self.transport.close()
            return
        self.send_400_response("Invalid HTTP request received.")

    def on_message_begin(self) -> None:
        if self._is_replay:
            return
        if len(self.pipeline) >= PIPELINED_MAX:
            self.cycle.keep_alive = False
            raise PipelineFullError
        super().on_message_begin()
        self._head_bytes = 0
        self._in_head = True
        self.deadline = self.loop.time() + HEAD_S
        if self._certificate_name:
            # The TLS extension of ASGI.
            self.scope["extensions"] = {"tls": {"client_cert_name": self._certificate_name}}

    def on_url(self, url: bytes) -> None:
        if self._is_replay:
            return
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_replay:
            return
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)
        if len(self.headers) > HEADERS_MAX:
            raise HeadTooLargeError

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise TunnelError
            return  # _feed goes on
        self._in_head = self._is_replay = False
        self.deadline = _NEVER
        self._unread_bytes = 0
        scope, parser = self.scope, self.parser
        version = parser.get_http_version()
        scope["method"] = parser.get_method().decode("ascii")
        if version != "1.1":
            scope["http_version"] = version
        target = httptools.parse_url(self.url)
        raw_path = target.path
        path = raw_path.decode("ascii")
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"], scope["query_string"] = raw_path, target.query or b""
        cycle = _Cycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        cycle.loop = self.loop
        scope[CYCLE] = cycle  # type: ignore[literal-required]
        app = self.app if len(self.tasks) < CONNECTIONS_MAX else service_unavailable
        existing, self.cycle = self.cycle, cycle
        if existing is None or existing.response_complete:
            self._start_asgi_task(cycle, app)
        else:  # pipelined
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, app))

    def on_body(self, body: bytes) -> None:
        self._unread_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._unread_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self.since = self.loop.time()
        if not self._in_head:
            self.deadline = self.since + self.timeout_keep_alive

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES_MAX:
            raise HeadTooLargeError


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


class _Server(TlsServer):
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
            now = asyncio.get_running_loop().time()
            for each in list(self.server_state.connections):
                assert isinstance(each, _Protocol)
                each.look(now)
            try:
                await asyncio.wait_for(self._stop.wait(), LOOK_S)
            except TimeoutError:
                continue
            self.should_exit = True


class _Config(uvicorn.Config):
    """A configuration with a context of TLS that is already made.

    Attributes:
        addresses: connections by the addresses of their clients.
    """

    def __init__(self, app: Any, tls: ssl.SSLContext | None, **options: Any):
        super().__init__(app, **options)
        self._tls = tls
        self.addresses: Counter[str] = Counter()

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
    )
    return _Server(config, stop)
