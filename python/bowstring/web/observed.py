"""Counts and logs the requests of an ASGI application."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from bowstring.web.access_log import AccessLog
from bowstring.web.http_metrics import HttpMetrics

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

ROUTE, USER = "bowstring.route", "bowstring.user"
"""Entries of a scope: the application says which route serves a request, and who sent it."""


class Observed:
    """The application around another one.

    Args:
        app: the other one. It sets `scope[ROUTE]`, and `scope[USER]` if somebody is logged in.
        metrics: counts the requests.
        log: writes the requests; None for no log.
    """

    def __init__(self, app: App, metrics: HttpMetrics, log: AccessLog | None = None) -> None:
        self._app, self._metrics, self._log = app, metrics, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, size = time.perf_counter(), 0, 0

        async def counted(message: MutableMapping[str, Any]) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                size += len(message.get("body", b""))
            await send(message)

        metrics = self._metrics
        metrics.in_flight += 1
        try:
            await self._app(scope, receive, counted)
        finally:
            metrics.in_flight -= 1
            took_s = time.perf_counter() - began
            # 499, as nginx counts clients that left before an answer.
            metrics.note(scope.get(ROUTE, "none"), scope["method"], status or 499, size, took_s)
            if self._log is not None:
                self._note(scope, status or 499, size, took_s)

    def _note(self, scope: Scope, status: int, size: int, took_s: float) -> None:
        assert self._log is not None
        query = scope["query_string"]
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        target = (raw + b"?" + query if query else raw).decode("latin-1")
        client = scope.get("client")
        self._log.note(
            address=client[0] if client else "",
            user=scope.get(USER, ""),
            method=scope["method"],
            target=target,
            status=status,
            size=size,
            took_s=took_s,
        )
