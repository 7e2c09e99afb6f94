"""Answers of operations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from bowstring.web.http_error import HttpError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Answering = Callable[[Scope, Receive, Send], Awaitable[None]]
"""Sends an answer, as an ASGI application does."""

JSON = (b"content-type", b"application/json")


class BrokenStreamError(Exception):
    """An answer could not be sent to its end, and its form has no way to say so: the connection is cut."""


class Answer:
    """An answer whose body is known.

    Args:
        status: of HTTP.
        body: all of it.
        headers: besides content-length.
    """

    def __init__(self, status: int, body: bytes = b"", headers: tuple[tuple[bytes, bytes], ...] = (JSON,)):
        self._status, self._body, self._headers = status, body, headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it."""
        headers = list(self._headers)
        if self._status != 204:
            headers.append((b"content-length", str(len(self._body)).encode()))
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else self._body
        await send({"type": "http.response.body", "body": body})


def failure(error: HttpError) -> Answer:
    """Returns the answer of an error."""
    return Answer(error.status, error.body(), (JSON, *error.headers))
