"""Refuses what pages of other sites send through a browser, but for those that are allowed (CORS). Counts the
memory of bodies.

A page may send simple requests to any address that its reader's browser reaches, this machine included; and
its own name may resolve to this machine (DNS rebinding). Programs are not concerned: only browsers send
`Origin` and `Sec-Fetch-Site`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from bowstring.web.body_memory import MEMORY, BodyMemory
from bowstring.web.http_error import HttpError
from bowstring.web.limits import header
from bowstring.web.listening import is_loopback

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE"
HEADERS = b"accept, authorization, content-type, last-event-id"
"""Headers that pages of allowed origins may send."""
EXPOSED = b"location, retry-after"
"""Headers of answers that they may read."""
PREFLIGHT_S = b"600"
BODIES_BYTES_MAX = 256 << 20
"""Of all requests that are not answered yet."""
_OWN_SITE = (b"", b"same-origin", b"none")
_READING = ("GET", "HEAD", "OPTIONS")
_SIMPLE_TYPES = (b"", b"application/x-www-form-urlencoded", b"multipart/form-data", b"text/plain")
"""Of requests that browsers send without a preflight (Fetch standard: CORS-safelisted request-header)."""


class SiteGuard:
    """The application around another one.

    Args:
        app: the other one.
        is_local: whether it listens on this machine only: then browsers must name this machine.
        allowed_origins: of pages that may call; `*` for all. They act with the log-in that they set in the
            header `Authorization`, never with the log-in or certificate that the browser has of its reader:
            answers to preflights forbid those, and what needs no preflight may not write.
    """

    def __init__(self, app: Any, *, is_local: bool, allowed_origins: Iterable[str] = ()) -> None:
        self._app, self._is_local = app, is_local
        self._allowed = frozenset(each.lower().encode() for each in allowed_origins)
        self._bodies = BodyMemory(BODIES_BYTES_MAX)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        scope[MEMORY] = self._bodies
        try:
            await self._serve(scope, receive, send)
        finally:
            self._bodies.give_back(scope)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            host = origin = site = wanted = b""
            for name, value in scope["headers"]:
                if name == b"host":
                    host = value
                elif name == b"origin":
                    origin = value
                elif name == b"sec-fetch-site":
                    site = value
                elif name == b"access-control-request-method":
                    wanted = value
            is_allowed = bool(origin) and (b"*" in self._allowed or origin.lower() in self._allowed)
            if self._allowed:
                send = _opened(send, origin if is_allowed else b"", is_any=b"*" in self._allowed)
            if origin or site:
                refusal = self._refusal(
                    scope["method"], host, b"" if is_allowed else origin, site, is_allowed
                )
                if refusal is None and is_allowed and scope["method"] not in _READING:
                    refusal = _without_preflight(scope, host, origin, site)
                if refusal is not None:
                    await _answer(refusal, send)
                    return
                if is_allowed and wanted and scope["method"] == "OPTIONS":
                    await _answer_preflight(send)
                    return
        await self._app(scope, receive, send)

    def _refusal(
        self, method: str, host: bytes, origin: bytes, site: bytes, is_allowed: bool
    ) -> HttpError | None:
        if self._is_local and not is_loopback(_host_name(host)):
            return HttpError(
                421, 421, "this program serves browsers on this machine only; use http://localhost"
            )
        is_foreign = bool(origin) and _authority(origin) != host.lower()
        if is_foreign or (not is_allowed and method not in ("GET", "HEAD") and site not in _OWN_SITE):
            return HttpError(403, 403, "the request comes from a page of another site")
        return None


def _without_preflight(scope: Scope, host: bytes, origin: bytes, site: bytes) -> HttpError | None:
    """Refuses a request of a page of another site for which no browser has sent a preflight."""
    if site in _OWN_SITE and _authority(origin) == host.lower():
        return None
    headers = scope["headers"]
    if (header(headers, b"sec-fetch-mode") or b"cors") != b"cors":
        return HttpError(403, 403, "pages of other sites may write by fetch with the mode cors only")
    if scope["method"] == "POST":  # the others need a preflight anyhow
        media = (header(headers, b"content-type") or b"").partition(b";")[0].strip().lower()
        if media in _SIMPLE_TYPES:
            return HttpError(
                403, 403, "a page of another site must send a Content-Type as application/json with each POST"
            )
    return None


def _authority(origin: bytes) -> bytes:
    """Returns host and port of a header `Origin`, as the header `Host` writes them."""
    try:
        return urlsplit(origin.lower()).netloc
    except ValueError:
        return b""


def _host_name(host: bytes) -> str:
    try:
        return urlsplit(f"//{host.decode('latin-1')}").hostname or ""
    except ValueError:
        return ""


def _opened(send: Send, origin: bytes, *, is_any: bool) -> Send:
    """Returns what sends answers that a page of an origin may read; empty: none may, but caches keep
    such answers apart, too."""
    added = [(b"vary", b"origin")]
    if origin:
        added.append((b"access-control-allow-origin", b"*" if is_any else origin))
        added.append((b"access-control-expose-headers", EXPOSED))

    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            # Answers of a cache are shared: theirs are left as they are.
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return sending


async def _answer_preflight(send: Send) -> None:
    headers = [
        (b"access-control-allow-methods", METHODS),
        (b"access-control-allow-headers", HEADERS),
        (b"access-control-max-age", PREFLIGHT_S),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _answer(refusal: HttpError, send: Send) -> None:
    body = refusal.body()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
