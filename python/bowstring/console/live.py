"""Sends parts of an open page again and again, as server-sent events."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bowstring.clients.errors import ClientError
from bowstring.console.sessions import access_of, browser_of, sessions_of

STREAMS_MAX = 100
"""Open at a time in the whole console."""
STREAMS_OF_ONE = 24
"""Of one session."""
TROUBLE_S_MAX = 15.0
PAUSE_S_MAX = 60.0
OLD_S = 2.0
"""Between two looks while only old answers are known."""
SLOW_S = 3.0
"""Without an answer for this long, the page says so."""
_KEEP_ALIVE_S = 15.0

Render = Callable[[], Awaitable[Mapping[str, str]]]


def live(request: Request, render: Render, seconds: float, *, cost_max: float = 0.1) -> Response:
    """Answers with events that replace elements of the page; console.js applies them.

    Args:
        request: of the page's `data-live` address.
        render: returns HTML by the id of its element: the element itself, or what is inside it. Elements
            that have not changed are not sent again.
        seconds: between two calls; longer if a call takes more than `cost_max` of that time.
        cost_max: share of the time that calls of `render` may take.

    Raises:
        HTTPException: 503; too many pages are open.
    """
    access_of(request)
    open_streams: set[tuple[str, object]] = request.app.state.live_streams
    browser = browser_of(request)
    if len(open_streams) >= STREAMS_MAX or sum(of == browser for of, _ in open_streams) >= STREAMS_OF_ONE:
        raise HTTPException(503, "too many live pages are open already: close some and load again")
    events = _events(request, render, seconds, cost_max, open_streams)
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


async def _events(
    request: Request,
    render: Render,
    seconds: float,
    cost_max: float,
    open_streams: set[tuple[str, object]],
) -> AsyncIterator[str]:
    me = (browser_of(request), object())
    # Only here: a stream that never begins never ends.
    open_streams.add(me)
    sent: dict[str, str] = {}
    in_trouble = False
    sent_at = time.monotonic()
    pause_s = seconds
    rendering: asyncio.Future[Mapping[str, str]] | None = None
    try:
        yield "retry: 3000\n\n"
        while True:
            access = sessions_of(request).access(browser_of(request))
            if access is None:
                yield _event("ended", {"message": "The session has ended: sign in again."})
                return
            began = time.monotonic()
            rendering = asyncio.ensure_future(render())
            if not (await asyncio.wait([rendering], timeout=SLOW_S))[0]:
                in_trouble = True
                yield _event("trouble", {"message": "The cluster does not answer. Retrying."})
            try:
                parts = {id: str(html) for id, html in (await rendering).items()}
            except ClientError as error:
                in_trouble = True
                yield _event("trouble", {"message": str(error)})
                sent_at = time.monotonic()
                pause_s = min(max(pause_s, seconds) * 2, TROUBLE_S_MAX)
            else:
                changed = {id: html for id, html in parts.items() if sent.get(id) != html}
                if changed or in_trouble:
                    yield _event("parts", changed)
                    sent_at = time.monotonic()
                sent, in_trouble = parts, bool(access.trouble)
                pause_s = min(max(seconds, (time.monotonic() - began) / cost_max), PAUSE_S_MAX)
                if access.trouble:
                    yield _event("trouble", {"message": access.trouble})
                    pause_s = min(pause_s, max(seconds, OLD_S))
            if time.monotonic() - sent_at > _KEEP_ALIVE_S:
                yield ": alive\n\n"
                sent_at = time.monotonic()
            await asyncio.sleep(pause_s)
    finally:
        if rendering is not None:
            rendering.cancel()
        open_streams.discard(me)


def _event(name: str, content: Mapping[str, str]) -> str:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n"
