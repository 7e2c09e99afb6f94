"""Shows the connectors of Kafka Connect: the list, and one with its tasks, config and offsets."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bowstring.console.connect.config_secrets import masked
from bowstring.console.connect.connect_access import clusters_of, why_not_shown
from bowstring.console.connect.connect_cluster import ConnectCluster, ConnectError
from bowstring.console.connect.connectors import (
    Connector,
    OffsetRow,
    connector_of,
    connectors_of,
    offsets_of_connector,
    topics_of_connector,
    types_of,
)
from bowstring.console.connect.secret_search import SecretSearch
from bowstring.console.live import live
from bowstring.console.paged import Paged
from bowstring.console.parts import Part
from bowstring.console.rendering import page, rendered, with_query
from bowstring.console.sessions import access_of

T = TypeVar("T")

LIVE_S = 3.0
PAINT_S = 0.2
"""A page waits this long for Connect; live parts bring the rest."""
CONFIGS_MAX = 1_000
TRACE_MAX = 8_000
REFUSAL_MAX = 2_000
NO_CLUSTER = "The console has no such Connect cluster: choose a connector of the list."
PARTS = ("connector_state", "connector_tasks", "connector_config", "connector_offsets")
KINDS = {"RUNNING": "good", "FAILED": "bad", "PAUSED": "warn", "STOPPED": "warn", "UNASSIGNED": "warn"}
"""Of badges, by state."""


class ConnectorRow(NamedTuple):
    """A row of the list."""

    connect: str
    connector: Connector


KEYS: Mapping[str, Callable[[ConnectorRow], Any]] = {
    "name": lambda row: (row.connector.name, row.connect),
    "type": lambda row: (row.connector.kind, row.connector.name),
    "class": lambda row: (row.connector.plugin, row.connector.name),
    "state": lambda row: (row.connector.state, -row.connector.failed, row.connector.name),
    "connect": lambda row: (row.connect, row.connector.name),
}


async def part_of(work: Awaitable[T]) -> Part[T]:
    """Returns what Connect answers, or why there is nothing."""
    try:
        return Part(await work, "")
    except ConnectError as error:
        return Part(None, str(error))


def shown_refusal(text: str) -> str:
    """Returns what Connect answers where the config is not known that it may repeat."""
    return SecretSearch().without_secrets(text, REFUSAL_MAX)


async def _list(request: Request, patience_s: float | None) -> dict[str, Any]:
    """Returns what the list shows. `patience_s`: how long it waits; None: as long as a request may take."""
    wanted = request.query_params.get("q", "").casefold()
    missing = await why_not_shown(request)
    asking = {
        address: asyncio.ensure_future(part_of(connectors_of(each)))
        for address, each in clusters_of(request).items()
        if not missing
    }
    done: set[asyncio.Future[Part[list[Connector]]]] = set()
    if asking:
        done, _ = await asyncio.wait(asking.values(), timeout=patience_s)
    answers = {address: each.result() for address, each in asking.items() if each in done}
    rows = [
        ConnectorRow(address, each)
        for address, answer in answers.items()
        for each in answer.value or ()
        if wanted in each.name.casefold() or wanted in each.plugin.casefold()
    ]
    return {
        "paged": Paged(request, rows, KEYS),
        "missing": missing,
        "troubles": [shown_refusal(each.missing) for each in answers.values() if each.missing],
        "waiting": [address for address in asking if address not in answers],
        "wanted": request.query_params.get("q", ""),
        "several": len(asking) > 1,
        "kinds": KINDS,
        "query": functools.partial(_of_list, request),
    }


def _of_list(request: Request, **changed: Any) -> str:
    """Returns the address of the list with other values in its query."""
    path, question, query = with_query(request, **changed).partition("?")
    return path.removesuffix("/live") + question + query


async def list_connectors(request: Request) -> Response:
    """Shows connectors of all clusters: filtered, sorted, 100 on a page."""
    context = await _list(request, PAINT_S)
    return page(request, "connectors.html", **context, has_clusters=bool(clusters_of(request)))


async def list_live(request: Request) -> Response:
    """Sends the list again and again."""

    async def render() -> dict[str, str]:
        return {"connectors-live": rendered(request, "connectors_live.html", **await _list(request, None))}

    return live(request, render, LIVE_S)


def cluster_and_name(request: Request) -> tuple[ConnectCluster | None, str]:
    """Returns the cluster and the connector that the query names; None for a cluster that is none of the
    console's. Without a cluster in the query it is the first one.
    """
    given, clusters = request.query_params, clusters_of(request)
    return clusters.get(given.get("connect", next(iter(clusters), ""))), given.get("name", "")


async def _one(cluster: ConnectCluster, name: str) -> dict[str, Any]:
    found, topics, offsets = await asyncio.gather(
        part_of(connector_of(cluster, name)),
        part_of(topics_of_connector(cluster, name)),
        part_of(offsets_of_connector(cluster, name)),
    )
    connector, untyped, config = found.value, "", {}
    search = SecretSearch()
    if connector is not None:
        types = await part_of(types_of(cluster, connector.config))
        search = SecretSearch((connector.config, types.value))
        config = masked(connector.config, types.value)
        untyped = search.without_secrets(types.missing, REFUSAL_MAX)
        connector = _without_secrets(connector, search)
    return {
        "connector": connector,
        "missing": search.without_secrets(found.missing, REFUSAL_MAX),
        "config": list(config.items())[:CONFIGS_MAX],
        "untyped": untyped,
        "topics": topics._replace(missing=search.without_secrets(topics.missing, REFUSAL_MAX)),
        "offsets": Part(
            [OffsetRow(*map(search.without_secrets, each)) for each in offsets.value or ()],
            search.without_secrets(offsets.missing, REFUSAL_MAX),
        ),
        "kinds": KINDS,
        "connect": cluster.address,
        "name": name,
    }


def _without_secrets(connector: Connector, search: SecretSearch) -> Connector:
    """Returns a connector whose traces do not repeat secrets, and are not too long for a page."""
    tasks = [each._replace(trace=search.without_secrets(each.trace, TRACE_MAX)) for each in connector.tasks]
    return connector._replace(trace=search.without_secrets(connector.trace, TRACE_MAX), tasks=tasks)


async def show_connector(request: Request) -> Response:
    """Shows one connector; what Connect does not answer in PAINT_S comes as live parts."""
    missing = await why_not_shown(request)
    cluster, name = cluster_and_name(request)
    if missing or cluster is None:
        shown = {"missing": missing or NO_CLUSTER, "connector": None, "connect": "", "waiting": False}
        return page(request, "connector.html", **shown, status=200 if missing else 404, name=name)
    making = asyncio.ensure_future(_one(cluster, name))
    making.add_done_callback(lambda task: task.cancelled() or task.exception())
    done, _ = await asyncio.wait([making], timeout=PAINT_S)
    context = making.result() if done else {"connector": None, "missing": "", "connect": cluster.address}
    return page(request, "connector.html", **{"name": name, **context, "waiting": not done})


async def connector_live(request: Request) -> Response:
    """Sends the parts of that page again and again."""
    access_of(request)
    cluster, name = cluster_and_name(request)

    async def render() -> dict[str, str]:
        missing = await why_not_shown(request)
        if missing or cluster is None:
            return {"connector_state": rendered(request, "notice.html", text=missing or NO_CLUSTER)}
        context = await _one(cluster, name)
        return {part: rendered(request, f"{part}.html", **context) for part in PARTS}

    return live(request, render, LIVE_S)


routes = [
    Route("/connectors", list_connectors),
    Route("/connectors/live", list_live),
    Route("/connectors/one", show_connector),
    Route("/connectors/one/live", connector_live),
]
