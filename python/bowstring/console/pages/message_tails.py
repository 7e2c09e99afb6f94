"""Follows the end of a topic, live."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from bowstring.clients.errors import ConfigError
from bowstring.console.cluster_access import ClusterAccess
from bowstring.console.live import live
from bowstring.console.message_query import filter_of, partitions_of
from bowstring.console.message_tail import MessageTail, TailLook
from bowstring.console.message_view import MessageView, views
from bowstring.console.pages.messages import decoder_of
from bowstring.console.rendering import page, rendered
from bowstring.console.sessions import access_of
from bowstring.search.record_filter import RecordFilter

TAILS_MAX = 4
"""At a time, of one session."""
LOOK_S = 1.0
COST_MAX = 0.5
ROWS = 100
GIVEN = ("q", "key", "header", "partition", "expr")


async def show_tail(request: Request) -> Response:
    """Shows the tail; the rows arrive from `follow_tail`."""
    access_of(request)
    error = ""
    try:
        _wanted(request)
    except ConfigError as refused:
        error = str(refused)
    return page(
        request,
        "message_tail.html",
        status=400 if error else 200,
        topic=request.path_params["name"],
        given={name: request.query_params.get(name, "") for name in GIVEN},
        error=error,
    )


def _wanted(request: Request) -> tuple[tuple[int, ...], RecordFilter]:
    return partitions_of(request.query_params), filter_of(request.query_params)


async def follow_tail(request: Request) -> Response:
    """Sends the rate and the newest samples every second until the browser leaves."""
    access = access_of(request)
    topic = request.path_params["name"]
    try:
        partitions, wanted = _wanted(request)
    except ConfigError as refused:
        raise HTTPException(400, str(refused)) from None
    tails: set[MessageTail] = access.shared("tails", set)
    if len(tails) >= TAILS_MAX:
        raise HTTPException(503, f"{TAILS_MAX} tails are open already: close one of their pages")
    decoder = decoder_of(request)
    tail = MessageTail(access.settings, topic, partitions, wanted, decoder)
    rows: deque[MessageView] = deque(maxlen=ROWS)
    matched = sampled = 0

    def look() -> tuple[TailLook, list[MessageView]]:
        found = tail.look()
        return found, views(found.found, decoder, "text")

    async def render() -> dict[str, str]:
        nonlocal matched, sampled
        found, made = await access.thread(look)
        matched, sampled = matched + len(made), sampled + found.sampled
        rows.extendleft(made)
        parts = {
            "tail-state": rendered(
                request, "message_tail_state.html", look=found, sampled=sampled, matched=matched
            )
        }
        if made or not rows:
            parts["tail-rows"] = rendered(request, "message_tail_rows.html", messages=list(rows), topic=topic)
        return parts

    response = live(request, render, LOOK_S, cost_max=COST_MAX)
    assert isinstance(response, StreamingResponse)
    response.body_iterator = _until_left(response.body_iterator, tails, tail, access)  # type: ignore[arg-type]
    return response


async def _until_left(
    events: AsyncIterator[str], tails: set[MessageTail], tail: MessageTail, access: ClusterAccess
) -> AsyncIterator[str]:
    """Passes events on; closes the tail when the browser leaves, or the session ends."""
    tails.add(tail)
    try:
        async for event in events:
            yield event
    finally:
        tails.discard(tail)
        # In a thread: a look may be under way. Nothing can be awaited in a cancelled task.
        asyncio.ensure_future(access.thread(tail.close))  # noqa: RUF006 - the pool keeps it


routes = [
    Route("/topics/{name}/messages/tail", show_tail),
    Route("/topics/{name}/messages/tail/live", follow_tail),
]
