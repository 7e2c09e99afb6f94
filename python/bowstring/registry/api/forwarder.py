"""Sends writes on to the registry that leads."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from urllib.parse import urlsplit

from bowstring.registry.registry_error import RegistryError

FORWARD = b"x-forward"
THREADS = 16
TIMEOUT_S = 15.0
"""More than a leader takes until it answers that a write takes too long."""
ANSWER_BYTES_MAX = 64 << 20
_SENT_ON = frozenset((b"content-type", b"accept", b"authorization", b"x-request-id"))
_FAILED, _UNKNOWN_LEADER = 50003, 50004


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
        self._sent: dict[http.client.HTTPConnection, str] = {}
        self._leader_url: str | None = None

    def close(self) -> None:
        """Ends the threads; requests that are under way end with an error."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def leader_is(self, url: str | None) -> None:
        """Ends requests to a registry that leads no more: it may be frozen, and not answer for long.

        Args:
            url: of the leader; None while there is none.
        """
        with self._lock:
            self._leader_url = url
            left = [each for each, to in self._sent.items() if to != url]
        for each in left:
            if each.sock is not None:
                with contextlib.suppress(OSError):
                    each.sock.shutdown(socket.SHUT_RDWR)

    async def forward(self, request: ForwardedRequest) -> ForwardedAnswer:
        """Returns the leader's answer to a request.

        Raises:
            RegistryError: 50003, the leader does not answer.
        """
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self._request, request)
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = f"the leader {request.leader_url} does not answer: {error}"
            raise RegistryError(500, _FAILED, reason) from error

    def _request(self, request: ForwardedRequest) -> ForwardedAnswer:
        self._check_leads(request.leader_url)
        kept = getattr(self._local, "connection", None)
        if kept is not None and kept[0] == request.leader_url:
            try:
                return self._exchange(kept[1], request)
            except (http.client.RemoteDisconnected, ConnectionError, http.client.CannotSendRequest):
                # The leader closed a connection at rest: it did not take the request.
                self._check_leads(request.leader_url)
        return self._exchange(self._connect(request.leader_url), request)

    def _check_leads(self, url: str) -> None:
        if self._leader_url not in (None, url):
            raise ConnectionError("it leads no more; repeat the request")

    def _connect(self, leader_url: str) -> http.client.HTTPConnection:
        parts = urlsplit(leader_url)
        if parts.scheme == "https":
            tls = self._tls or ssl.create_default_context()
            return http.client.HTTPSConnection(parts.netloc, timeout=TIMEOUT_S, context=tls)
        return http.client.HTTPConnection(parts.netloc, timeout=TIMEOUT_S)

    def _exchange(self, connection: http.client.HTTPConnection, request: ForwardedRequest) -> ForwardedAnswer:
        self._local.connection = None
        with self._lock:
            self._sent[connection] = request.leader_url
        try:
            connection.request(request.method, request.target, request.body or None, request.headers)
            answer = connection.getresponse()
            found = answer.read(ANSWER_BYTES_MAX + 1)
            if len(found) > ANSWER_BYTES_MAX:
                raise http.client.HTTPException(f"it answers with more than {ANSWER_BYTES_MAX} bytes")
        except BaseException:
            connection.close()
            raise
        finally:
            with self._lock:
                del self._sent[connection]
        if answer.will_close:
            connection.close()
        else:
            self._local.connection = request.leader_url, connection
        kind = answer.getheader("content-type", "application/json").encode("latin-1")
        return ForwardedAnswer(answer.status, kind, found)


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
