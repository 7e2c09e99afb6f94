"""Bounds what one client may send: sizes of bodies, and requests in a second."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from bowstring.protocol.whole_numbers import whole_number
from bowstring.web.body_memory import MEMORY, UNCOUNTED_BYTES, BodyMemory
from bowstring.web.http_error import HttpError

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

CYCLE = "bowstring.cycle"
"""Entry of a scope, where `bowstring.web.server` serves: its attribute `more_body` says whether some of the
body has not arrived yet."""
BODY_S = 60.0
"""How long the body of a request may take."""
_CLOSE = (b"connection", b"close")
"""Of an answer to a request whose body is not read to its end."""
CLIENTS_MAX = 10_000
"""Clients whose rates are remembered; those used last stay."""


class DisconnectedError(Exception):
    """The client left before its request was complete; nobody waits for an answer."""


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """Returns the value of a header by its name in lower case; None without it."""
    for each, value in headers:
        if each == name:
            return value
    return None


async def read_body(scope: MutableMapping[str, Any], receive: Receive, bytes_max: int) -> bytes:
    """Returns the body of a request.

    Args:
        scope: of ASGI.
        receive: of ASGI.
        bytes_max: of the body; a larger one is refused before it is read where its length is given.

    Raises:
        HttpError: 413, the body is larger; 408, it takes more than BODY_S; 400, its length is no number; 503,
            the bodies of all requests are too large together.
        DisconnectedError: the client left.
    """
    length = header(scope["headers"], b"content-length")
    if length is not None:
        size = whole_number(length.decode("latin-1"), 1 << 62)
        if size is None:
            raise HttpError(400, 400, "the header Content-Length is no number of bytes")
        if size > bytes_max:
            raise _too_large(bytes_max)
    cycle = scope.get(CYCLE)
    if cycle is not None and not cycle.more_body:
        return await _read(scope, receive, bytes_max)  # waits for nothing
    try:
        async with asyncio.timeout(BODY_S):
            return await _read(scope, receive, bytes_max)
    except TimeoutError:
        raise HttpError(408, 408, f"the body did not arrive in {BODY_S:g} s", (_CLOSE,)) from None


async def _read(scope: MutableMapping[str, Any], receive: Receive, bytes_max: int) -> bytes:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise DisconnectedError
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        if len(body) > bytes_max:
            raise _too_large(bytes_max)
        return body
    memory: BodyMemory | None = scope.get(MEMORY)
    counted = UNCOUNTED_BYTES
    parts, size = [body], len(body)
    while message.get("more_body", False):
        if size > bytes_max:
            raise _too_large(bytes_max)
        message = await receive()
        if message["type"] == "http.disconnect":
            raise DisconnectedError
        part = message.get("body", b"")
        parts.append(part)
        size += len(part)
        if memory is not None and size > counted:
            memory.take(scope, size - counted)
            counted = size
    if size > bytes_max:
        raise _too_large(bytes_max)
    return b"".join(parts)


def _too_large(bytes_max: int) -> HttpError:
    return HttpError(413, 413, f"the body of the request exceeds {bytes_max} bytes; send less", (_CLOSE,))


class RateLimit:
    """Bounds the requests of each client in a second: a token bucket for each.

    Args:
        per_s: requests in a second, in the long run; 0 for no bound.
        burst: requests at once; default: those of one second.
    """

    def __init__(self, per_s: float, burst: float | None = None) -> None:
        self._per_s = per_s
        self._burst = max(1.0, per_s if burst is None else burst)
        # By client: tokens, and when they were counted.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> None:
        """Counts a request.

        Raises:
            HttpError: 429, the client has to wait; `Retry-After` says how long, in seconds.
        """
        if not self._per_s:
            return
        now = time.monotonic()
        tokens, since = self._buckets.pop(client, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._per_s)
        if tokens < 1.0:
            self._buckets[client] = tokens, now
            wait_s = int((1.0 - tokens) / self._per_s) + 1
            raise HttpError(
                429,
                429,
                f"more than {self._per_s:g} requests in a second; wait {wait_s} s",
                ((b"retry-after", str(wait_s).encode()),),
            )
        self._buckets[client] = tokens - 1.0, now
        if len(self._buckets) > CLIENTS_MAX:
            self._buckets.popitem(last=False)
