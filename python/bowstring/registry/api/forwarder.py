"""Sends writes on to the registry that leads."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from urllib.parse import urlsplit

from bowstring.clients.registry.kept_connections import is_at_rest
from bowstring.registry.registry_error import RegistryError
from bowstring.registry.schema_work import REQUEST_S

FORWARD = b"x-forward"
THREADS = 16
TIMEOUT_S = REQUEST_S + 15.0
"""More than a leader takes until it answers that a write takes too long, also one of an earlier version,
which parses large schemas before. A leader that is frozen is replaced sooner; see `Forwarder.leader_is`."""
CONNECT_TIMEOUT_S = 5.0
WAITING_MAX = 200
"""Writes that wait for a thread; further ones are refused at once."""
WAITING_BYTES_MAX = 64 << 20
"""Of their bodies."""
WAIT_S = 10.0
"""How long a write waits for a thread: as long as leaders let one wait for its records."""
KEPT_S = 20.0
"""How long a connection at rest is used: less than leaders of all makers keep it."""
REPEATABLE = ("PUT",)
"""Methods that may run twice. A second DELETE fails, and a second POST may make another version."""
ANSWER_BYTES_MAX = 64 << 20
_SENT_ON = frozenset((b"content-type", b"accept", b"authorization", b"x-request-id"))
_FAILED, _UNKNOWN_LEADER = 50003, 50004
_NOT_ELECTED = ""
"""The leader before the first election: the one that a request names."""


class ForwardedRequest(NamedTuple):
    """What is sent to the leader.

    Attributes:
        leader_url: `http://host:port`.
        method: of HTTP.
        target: path and query as the client sent them.
        headers: see `headers_to_forward`.
        body: of the request.
    """

    leader_url: str
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class ForwardedAnswer(NamedTuple):
    """What the leader answered."""

    status: int
    content_type: bytes
    body: bytes


class _Kept(NamedTuple):
    """A connection at rest, and since when."""

    connection: http.client.HTTPConnection
    leader_url: str
    since: float


def unknown_leader() -> RegistryError:
    """Returns the answer to a write while the registries have no leader."""
    return RegistryError(500, _UNKNOWN_LEADER, "the registries have no leader at present; try again")


class Forwarder:
    """Keeps connections to the leader: one in each of a few threads. Belongs to one event loop.

    Args:
        tls: for leaders with https; None for the system's authorities.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._threads = ThreadPoolExecutor(THREADS, "forward")
        self._local = threading.local()
        self._lock = threading.Lock()
        # Of requests under way, with the leader that they go to.
        self._sockets: dict[socket.socket, str] = {}
        self._leader_url: str | None = _NOT_ELECTED
        self._pending = 0  # requests that are not answered, and the bytes of their bodies
        self._pending_bytes = 0

    def close(self) -> None:
        """Ends the threads; requests that are under way end with an error."""
        self.leader_is(None)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def leader_is(self, url: str | None) -> None:
        """Ends requests to a registry that leads no more: it may be frozen, and not answer for long.

        Args:
            url: of the leader; None while there is none.
        """
        with self._lock:
            self._leader_url = url
            for each, to in self._sockets.items():
                if to != url:
                    # Not the method of SSLSocket: what its thread sends meanwhile would go out in plain.
                    with contextlib.suppress(OSError):
                        socket.socket.shutdown(each, socket.SHUT_RDWR)

    async def forward(self, request: ForwardedRequest) -> ForwardedAnswer:
        """Returns the leader's answer to a request.

        Raises:
            RegistryError: 50003: the leader does not answer, or too many writes wait for it.
        """
        if self._pending >= THREADS + WAITING_MAX or self._pending_bytes > WAITING_BYTES_MAX:
            raise _overloaded(f"{self._pending} writes wait for the leader {request.leader_url}")
        self._pending += 1
        self._pending_bytes += len(request.body)
        try:
            return await self._answered(request)
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = f"the leader {request.leader_url} does not answer: {error}"
            raise RegistryError(500, _FAILED, reason) from error
        finally:
            self._pending -= 1
            self._pending_bytes -= len(request.body)

    async def _answered(self, request: ForwardedRequest) -> ForwardedAnswer:
        """Has a thread send a request, if one is free in time; raises what that raises."""
        held = [request]  # an executor keeps cancelled work, with what it has, until a thread is free
        future = self._threads.submit(lambda: self._request(held.pop()))
        future.add_done_callback(lambda _: held.clear())
        timer = asyncio.get_running_loop().call_later(WAIT_S, future.cancel)  # not once it is sent
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling() or not future.cancelled():
                raise
            raise _overloaded(f"the write waited too long for the leader {request.leader_url}") from None
        finally:
            timer.cancel()

    def _request(self, request: ForwardedRequest) -> ForwardedAnswer:
        kept = self._take_kept(request.leader_url)
        if kept is not None:
            # Else a new connection: the leader closed this one just now.
            with contextlib.suppress(_NotTaken):
                return self._exchange(kept, request)
        return self._exchange(self._connected(request.leader_url), request)

    def _take_kept(self, leader_url: str) -> http.client.HTTPConnection | None:
        """Returns this thread's connection to a leader, if it has one that is open."""
        found: _Kept | None = getattr(self._local, "kept", None)
        self._local.kept = None
        if found is None:
            return None
        is_fresh = time.monotonic() - found.since < KEPT_S
        if found.leader_url == leader_url and is_fresh and is_at_rest(found.connection):
            return found.connection
        found.connection.close()
        return None

    def _check_leads(self, url: str) -> None:
        if self._leader_url not in (_NOT_ELECTED, url):
            raise ConnectionError("it leads no more; the request may be done or not: look, or repeat it")

    def _connected(self, leader_url: str) -> http.client.HTTPConnection:
        self._check_leads(leader_url)
        parts = urlsplit(leader_url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=CONNECT_TIMEOUT_S)
        if parts.scheme == "https":
            tls = self._tls or ssl.create_default_context()
            connection = http.client.HTTPSConnection(parts.netloc, timeout=CONNECT_TIMEOUT_S, context=tls)
        connection.auto_open = 0
        try:
            connection.connect()
            connection.sock.settimeout(TIMEOUT_S)
        except BaseException:
            connection.close()
            raise
        return connection

    def _exchange(self, connection: http.client.HTTPConnection, request: ForwardedRequest) -> ForwardedAnswer:
        """Sends a request to a leader, and returns its answer.

        Raises:
            _NotTaken: the request may be sent again.
            ConnectionError: this registry leads no more.
            OSError, http.client.HTTPException: no answer comes.
        """
        sock = connection.sock
        is_sent = False
        try:
            with self._lock:
                self._check_leads(request.leader_url)
                self._sockets[sock] = request.leader_url
            try:
                connection.request(request.method, request.target, request.body or None, request.headers)
                is_sent = True
                answer = connection.getresponse()
                found = answer.read(ANSWER_BYTES_MAX + 1)
            finally:
                with self._lock:
                    del self._sockets[sock]
            if len(found) > ANSWER_BYTES_MAX:
                raise http.client.HTTPException(f"it answers with more than {ANSWER_BYTES_MAX} bytes")
        except BaseException as error:
            connection.close()
            self._check_leads(request.leader_url)
            # A leader that did not get all of a request did not run it.
            if isinstance(error, ConnectionError) and (not is_sent or request.method in REPEATABLE):
                raise _NotTaken(*error.args) from error
            raise
        if answer.will_close:
            connection.close()
        else:
            self._local.kept = _Kept(connection, request.leader_url, time.monotonic())
        kind = answer.getheader("content-type", "application/json").encode("latin-1")
        return ForwardedAnswer(answer.status, kind, found)


def _overloaded(reason: str) -> RegistryError:
    return RegistryError(503, _FAILED, f"{reason}; nothing was written, repeat it later")


class _NotTaken(ConnectionError):
    """The leader ended the connection, and the request may be sent again."""


def headers_to_forward(headers: Iterable[tuple[bytes, bytes]], address: str) -> dict[str, str]:
    """Returns the headers that the leader gets.

    Args:
        headers: of the request.
        address: of the client; empty if it is unknown.
    """
    sent = {name.decode(): value.decode("latin-1") for name, value in headers if name in _SENT_ON}
    sent["X-Forward"] = "true"
    if address:
        sent["X-Forwarded-For"] = address
    return sent
