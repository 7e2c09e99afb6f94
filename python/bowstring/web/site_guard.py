"""Refuses what pages of other sites send through a browser.

A page may send simple requests to any address that its reader's browser reaches, this machine included; and
its own name may resolve to this machine (DNS rebinding). Programs are not concerned: only browsers send
`Origin` and `Sec-Fetch-Site`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from bowstring.web.http_error import HttpError
from bowstring.web.listening import is_loopback

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_OWN_SITE = (b"", b"same-origin", b"none")


class SiteGuard:
    """The application around another one.

    Args:
        app: the other one.
        is_local: whether it listens on this machine only: then browsers must name this machine.
    """

    def __init__(self, app: Any, *, is_local: bool) -> None:
        self._app, self._is_local = app, is_local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] == "http":
            host = origin = site = b""
            for name, value in scope["headers"]:
                if name == b"host":
                    host = value
                elif name == b"origin":
                    origin = value
                elif name == b"sec-fetch-site":
                    site = value
            if origin or site:
                refusal = self._refusal(scope["method"], host, origin, site)
                if refusal is not None:
                    await _answer(refusal, send)
                    return
        await self._app(scope, receive, send)

    def _refusal(self, method: str, host: bytes, origin: bytes, site: bytes) -> HttpError | None:
        if self._is_local and not is_loopback(_host_name(host)):
            return HttpError(
                421, 421, "this program serves browsers on this machine only; use http://localhost"
            )
        is_foreign = bool(origin) and _authority(origin) != host.lower()
        if is_foreign or (method not in ("GET", "HEAD") and site not in _OWN_SITE):
            return HttpError(403, 403, "the request comes from a page of another site")
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


async def _answer(refusal: HttpError, send: Send) -> None:
    body = refusal.body()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
