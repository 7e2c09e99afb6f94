"""Keeps HTTP connections open from one request to the next, which urllib's own handler closes."""

from __future__ import annotations

import contextlib
import http.client
import os
import select
import ssl
import time
import urllib.request
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

KEPT_MAX = 8
"""Connections at rest of one client, to all addresses."""
KEPT_S = 20.0
"""How long a connection at rest is used: less than registries of all makers keep it."""


class _Kept(NamedTuple):
    """A connection at rest, and since when."""

    connection: http.client.HTTPConnection
    origin: tuple[type, str]
    since: float


class _Answer(http.client.HTTPResponse):
    """An answer that gives its connection back when it is closed."""

    give_back: Callable[[bool], None] | None = None

    def close(self) -> None:
        """Ends the answer; if nothing is left of it, its connection takes the next request."""
        is_whole = self.isclosed() or self.length == 0
        super().close()
        give_back, self.give_back = self.give_back, None
        if give_back is not None:
            give_back(is_whole and not self.will_close)


class KeptConnections(urllib.request.HTTPSHandler, urllib.request.HTTPHandler):
    """Opens requests of urllib on connections that are kept. Any thread may call.

    A request that the registry does not take, because it closes the kept connection at that moment, is sent
    again on a new one: reads, lookups and registrations do the same if they run twice. Connections through
    a proxy are not kept.

    Args:
        tls: for https; None: Python's default.
    """

    def __init__(self, tls: ssl.SSLContext | None):
        super().__init__(context=tls)
        self._rested: deque[_Kept] = deque()
        self._process = os.getpid()

    def close(self) -> None:
        """Closes the connections at rest."""
        while self._rested:
            with contextlib.suppress(IndexError):  # another thread was quicker
                self._rested.pop().connection.close()

    def do_open(self, http_class: Any, req: urllib.request.Request, **http_conn_args: Any) -> Any:
        """Sends a request of urllib; returns its answer.

        Raises:
            OSError, http.client.HTTPException: there is none.
        """
        if req.has_proxy() or req._tunnel_host:  # type: ignore[attr-defined]  # of https; has_proxy() is False then
            return super().do_open(http_class, req, **http_conn_args)
        origin = (http_class, req.host)
        kept = self._taken(origin)
        if kept is not None:
            with contextlib.suppress(ConnectionError):
                return self._sent(kept, origin, req)
        connection = http_class(req.host, timeout=req.timeout, **http_conn_args)
        connection.response_class = _Answer
        return self._sent(connection, origin, req)

    def _taken(self, origin: tuple[type, str]) -> http.client.HTTPConnection | None:
        """Returns a connection at rest that is open, the one that rested least."""
        if self._process != os.getpid():  # a fork: they are the parent's
            self._process = os.getpid()
            self._rested.clear()
        others = []
        found = None
        while found is None:
            try:
                each = self._rested.pop()
            except IndexError:
                break
            if time.monotonic() - each.since >= KEPT_S or not is_at_rest(each.connection):
                each.connection.close()
            elif each.origin == origin:
                found = each.connection
            else:
                others.append(each)
        self._rested.extend(reversed(others))
        return found

    def _sent(
        self, connection: http.client.HTTPConnection, origin: tuple[type, str], req: urllib.request.Request
    ) -> http.client.HTTPResponse:
        headers = {name.title(): each for name, each in {**req.headers, **req.unredirected_hdrs}.items()}
        try:
            connection.request(req.get_method(), req.selector, req.data, headers)
            answer = connection.getresponse()
        except BaseException:
            connection.close()
            raise
        assert isinstance(answer, _Answer)

        def give_back(is_usable: bool) -> None:
            if not is_usable or len(self._rested) >= KEPT_MAX or self._process != os.getpid():
                connection.close()
            else:
                self._rested.append(_Kept(connection, origin, time.monotonic()))

        answer.give_back = give_back
        answer.url = req.full_url
        answer.msg = answer.reason  # type: ignore[assignment]  # as urllib has it
        return answer


def is_at_rest(connection: http.client.HTTPConnection) -> bool:
    """Returns whether a connection is open: what comes before a request is its end."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return not poll.poll(0)
