"""Shows records of a topic: search, views of values, export, download of one value."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from bowstring.clients.errors import MissingPackageError
from bowstring.clients.registry.registry_client import RegistryClient
from bowstring.console.cluster_access import ClusterAccess
from bowstring.console.cluster_facts import topics_of
from bowstring.console.message_export import TYPES, exported
from bowstring.console.message_query import COUNTS, VIEWS, MessageQuery, cursor_text, read_query
from bowstring.console.message_view import views
from bowstring.console.path_number import NUMBER
from bowstring.console.rendering import page, quoted, with_query
from bowstring.console.sessions import access_of, sessions_of
from bowstring.search.record_search import SearchLimits, SearchRequest, SearchResult, read_one, search
from bowstring.search.value_decoder import ValueDecoder

SEARCHES_MAX = 2
"""At a time, of one session."""
PAGE_LIMITS = SearchLimits()
EXPORT_LIMITS = SearchLimits(kept_bytes=1 << 20, total_kept_bytes=64 << 20)
CHOICES_MAX = 100


# A page shows values as bytes rather than wait longer.
REGISTRY_TIMEOUT_S = 3.0


@functools.cache
def _decoder(registry: str | None) -> ValueDecoder:
    return ValueDecoder(
        RegistryClient(registry, timeout_s=REGISTRY_TIMEOUT_S) if registry is not None else None
    )


def decoder_of(request: Request) -> ValueDecoder:
    """Returns the decoder that all pages share."""
    return _decoder(sessions_of(request).options.schema_registry)


async def _searched(request: Request, wanted: SearchRequest, limits: SearchLimits) -> SearchResult:
    access = access_of(request)
    async with access.shared("searches", lambda: asyncio.Semaphore(SEARCHES_MAX)):
        return await access.thread(search, access.settings, wanted, decoder_of(request), limits)


async def show_messages(request: Request) -> Response:
    """Shows what a search finds. The address has all of the view."""
    access_of(request)
    topic = request.path_params["name"]
    query = read_query(topic, request.query_params)
    result = None
    if not query.error:
        result = await _searched(request, query.request, PAGE_LIMITS)
    return page(
        request,
        "messages.html",
        status=400 if query.error else 200,
        topic=topic,
        shown=query,
        given={name: request.query_params.get(name, "") for name in GIVEN},
        counts=COUNTS,
        view_names=VIEWS,
        result=result,
        messages=views(result.found, decoder_of(request), query.view) if result is not None else [],
        **_further(request, query, result),
    )


GIVEN = ("q", "key", "header", "partition", "expr", "start", "at", "order", "count", "committed")


def _further(request: Request, query: MessageQuery, result: SearchResult | None) -> dict[str, Any]:
    """Returns where the search goes on, and the address of the exports."""
    further = ""
    if result is not None and result.cursor is not None:
        further = with_query(request, next=cursor_text(result.cursor))
    address = with_query(request)
    path, _, given = address.partition("?")
    exports = {form: f"{path}/export/{form}{'?' if given else ''}{given}" for form in TYPES}
    return {"further": further, "exports": exports, "is_further": query.request.cursor is not None}


async def export_messages(request: Request) -> Response:
    """Sends what a view shows as a file, with values of up to 1 MiB."""
    topic, form = request.path_params["name"], request.path_params["form"]
    access = access_of(request)
    if form not in TYPES:
        raise HTTPException(404, f"exports are {', '.join(TYPES)}")
    query = read_query(topic, request.query_params)
    if query.error:
        raise HTTPException(400, query.error)
    result = await _searched(request, query.request, EXPORT_LIMITS)
    try:
        data = await access.thread(exported, result.found, decoder_of(request), form)
    except MissingPackageError as error:
        raise HTTPException(501, str(error)) from None
    return attachment(data, TYPES[form], f"{topic}.{form}")


async def download_value(request: Request) -> Response:
    """Sends a whole value, or key, as a file."""
    access = access_of(request)
    topic, partition = request.path_params["name"], request.path_params["partition"]
    offset, part = request.path_params["offset"], request.path_params["part"]
    if part not in ("value", "key"):
        raise HTTPException(404, "a record has a value and a key")
    record = await access.thread(read_one, access.settings, topic, partition, offset)
    if record is None:
        raise HTTPException(404, f"partition {partition} has no record at offset {offset} (any more)")
    data = record.value if part == "value" else record.key
    return attachment(data or b"", "application/octet-stream", f"{topic}-{partition}-{offset}.{part}")


def attachment(data: bytes, media_type: str, name: str) -> Response:
    """Answers with a file; its name may have any characters."""
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{quoted(name)}"}
    return Response(data, media_type=media_type, headers=headers)


async def choose_topic(request: Request) -> Response:
    """Shows topics to look into; with the whole name of one, goes there."""
    access: ClusterAccess = access_of(request)
    topics = await topics_of(access)
    wanted = request.query_params.get("q", "").strip()
    if wanted in topics:
        return RedirectResponse(f"/topics/{quoted(wanted)}/messages", 303)
    names = sorted(name for name in topics if wanted.casefold() in name.casefold())
    names.sort(key=lambda name: name.startswith("__"))
    return page(
        request,
        "messages_choice.html",
        wanted=wanted,
        names=names[:CHOICES_MAX],
        left=max(len(names) - CHOICES_MAX, 0),
    )


routes = [
    Route("/messages", choose_topic),
    Route("/topics/{name}/messages", show_messages),
    Route("/topics/{name}/messages/export/{form}", export_messages),
    Route(f"/topics/{{name}}/messages/{{partition:{NUMBER}}}/{{offset:{NUMBER}}}/{{part}}", download_value),
]
