"""Shows brokers, the quorum, log directories and reassignments; and one broker with its configs."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bowstring.clients.errors import ClientError
from bowstring.console.cluster_access import ClusterAccess
from bowstring.console.cluster_facts import CONFIGS_S, refusal, sizes_of
from bowstring.console.cluster_nodes import (
    broker_rows,
    features_of,
    nodes_of,
    quorum_rows,
    reassignments_of,
)
from bowstring.console.cluster_summary import summary_of, summary_soon
from bowstring.console.config_rows import config_rows
from bowstring.console.live import live
from bowstring.console.path_number import NUMBER
from bowstring.console.plots import bar
from bowstring.console.rendering import awaited, page, rendered
from bowstring.console.sessions import access_of

LIVE_S = 3.0
PAINT_S = 0.15
PARTS = ("brokers_facts", "brokers_parts")


async def _brokers(access: ClusterAccess) -> dict[str, Any]:
    summary, nodes, sizes = await summary_of(access), await nodes_of(access), await sizes_of(access)
    moving: list[Any] = []
    moving_missing = ""
    try:
        moving = await reassignments_of(access)
    except ClientError as error:
        moving_missing = refusal(error)
    return {
        "features": await features_of(access),
        "nodes": nodes,
        "rows": broker_rows(nodes, summary, sizes),
        "quorum": quorum_rows(nodes),
        "sizes": sizes,
        "moving": moving,
        "moving_missing": moving_missing,
        "bar": bar,
    }


async def brokers(request: Request) -> Response:
    """Shows all brokers, as far as they are known in PAINT_S; live parts bring the rest."""
    access = access_of(request)
    making = asyncio.ensure_future(_brokers(access))
    making.add_done_callback(lambda task: task.cancelled() or task.exception())
    done, _ = await asyncio.wait([making], timeout=PAINT_S)
    context = making.result() if done else {}
    return page(request, "brokers.html", **context, waiting=not context)


async def brokers_live(request: Request) -> Response:
    """Sends the tables of that page again and again."""
    access = access_of(request)

    async def render() -> dict[str, str]:
        context = await _brokers(access)
        return {part: rendered(request, f"{part}.html", **context) for part in PARTS}

    return live(request, render, LIVE_S)


async def broker(request: Request) -> Response:
    """Shows one broker: its log directories and its configs."""
    access = access_of(request)
    id: int = request.path_params["id"]
    summary = await summary_soon(access)
    if summary is None:
        return awaited(request, f"Broker {id}")
    nodes, sizes = await nodes_of(access), await sizes_of(access)
    row = next((each for each in broker_rows(nodes, summary, sizes) if each.broker.id == id), None)
    if row is None:
        raise HTTPException(404, f"There is no broker {id} in this cluster.")
    configs, missing = {}, ""
    try:
        configs = await access.cached(
            ("broker", id),
            CONFIGS_S,
            lambda admin: admin.describe_configs("broker", str(id), documentation=True),
        )
    except ClientError as error:
        missing = refusal(error)
    return page(
        request,
        "broker.html",
        row=row,
        directories=sizes.by_broker.get(id, ()),
        sizes=sizes,
        configs=config_rows(configs, request),
        changed_only=request.query_params.get("all") != "1",
        missing=missing,
        bar=bar,
    )


routes = [
    Route("/brokers", brokers),
    Route("/brokers/live", brokers_live),
    Route(f"/brokers/{{id:{NUMBER}}}", broker),
]
