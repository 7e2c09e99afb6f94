"""Stands before every page: checks Host and Origin, gives browsers an id, adds headers of protection, bounds
forms.
"""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bowstring.console.options import ConsoleOptions, is_loopback
from bowstring.console.sessions import Sessions
from bowstring.protocol.whole_numbers import whole_number
from bowstring.web.body_memory import BodyMemory
from bowstring.web.http_error import HttpError

BODY_BYTES_MAX = 16 << 20
"""Of a form: a record to produce may be large."""
SIGN_IN_BYTES_MAX = 64 << 10
"""Of a form of somebody who has not signed in."""
BODIES_BYTES_MAX = 128 << 20
"""Of all forms that are under way."""
BODY_S = 60.0
"""How long a form may take to arrive."""
POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_CHANGING = ("POST", "PUT", "PATCH", "DELETE")


class Guard:
    """The middleware around the application."""

    def __init__(self, app: ASGIApp, options: ConsoleOptions, sessions: Sessions):
        self._app, self._options, self._sessions = app, options, sessions
        self._bodies = BodyMemory(BODIES_BYTES_MAX)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        name, secure = self._cookie(scope)
        browser = HTTPConnection(scope).cookies.get(name)
        is_new = not self._sessions.is_id(browser)
        if is_new or browser is None:
            browser = self._sessions.new_id()
        refusal = self._refusal(scope, Headers(scope=scope), browser)
        scope.setdefault("state", {})["browser"] = browser

        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                for header, value in HEADERS.items():
                    sent.setdefault(header, value)
                if not scope["path"].startswith("/static/"):
                    sent.setdefault("cache-control", "no-store")
                    current = scope["state"]["browser"]
                    if is_new or current != browser:
                        sent.append("set-cookie", _set_cookie(name, current, secure))
            await send(message)

        if refusal is not None:
            await PlainTextResponse(refusal[1], refusal[0])(scope, receive, protected)
            return
        if scope["method"] not in _CHANGING:
            await self._app(scope, receive, protected)
            return
        try:
            await self._app(scope, self._bounded(scope, receive), protected)
        finally:
            self._bodies.give_back(scope)

    def _bounded(self, scope: Scope, receive: Receive) -> Receive:
        """Returns what receives the body of a request, within BODY_S and the memory of all bodies."""
        deadline = asyncio.get_running_loop().time() + BODY_S
        has_more = True

        async def receiving() -> Message:
            nonlocal has_more
            if not has_more:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
                has_more = message.get("more_body", False)
                self._bodies.take(scope, len(message.get("body", b"")))
            except TimeoutError:
                raise HTTPException(408, f"the form did not arrive in {BODY_S:g} s: send it again") from None
            except HttpError as error:
                raise HTTPException(error.status, error.message) from error
            return message

        return receiving

    def _refusal(self, scope: Scope, headers: Headers, browser: str) -> tuple[int, str] | None:
        host = _host_name(headers.get("host", ""))
        # A name of another site that resolves to this machine (DNS rebinding) is not served.
        if self._options.is_loopback and not is_loopback(host):
            return 421, f"this console serves localhost only, not {host[:100]!r}. Use http://localhost\n"
        if scope["method"] in _CHANGING:
            origin = headers.get("origin")
            if origin is not None and urlsplit(origin).netloc != headers.get("host"):
                return 403, "the request comes from another site. Open the console itself\n"
            if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
                return 403, "the request comes from another site. Open the console itself\n"
            signed_in = self._sessions.access(browser) is not None
            bytes_max = BODY_BYTES_MAX if signed_in else SIGN_IN_BYTES_MAX
            # Where both are given, the length says nothing (RFC 9112, 6.3).
            is_chunked = "transfer-encoding" in headers
            if is_chunked or whole_number(headers.get("content-length", ""), bytes_max) is None:
                return 413, f"a form must have a Content-Length of at most {bytes_max} bytes\n"
        return None

    def _cookie(self, scope: Scope) -> tuple[str, bool]:
        """Returns name and Secure of the cookie. Cookies do not know ports: the name has it."""
        secure = scope.get("scheme") == "https"
        server = scope.get("server")
        port = server[1] if server else self._options.port
        return (f"__Host-bowstring-{port}" if secure else f"bowstring-{port}"), secure


def _host_name(host: str) -> str:
    """Returns the name in a Host header, without the port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _set_cookie(name: str, value: str, secure: bool) -> str:
    return f"{name}={value}; Path=/; HttpOnly; SameSite=Strict" + ("; Secure" if secure else "")
