"""Shows the list of topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bowstring.console.cluster_access import ClusterAccess
from bowstring.console.cluster_facts import Sizes, sizes_of, topic_configs_of, topics_of
from bowstring.console.cluster_summary import ClusterSummary, TopicFacts, summary_of, summary_soon
from bowstring.console.live import live
from bowstring.console.paged import Paged
from bowstring.console.rendering import awaited, page
from bowstring.console.sessions import access_of
from bowstring.console.throughput import Throughput, leaders_of, observed, throughput_of
from bowstring.console.values_text import rate_text

LIVE_S = 2.0
RETENTION, CLEANUP = "retention.ms", "cleanup.policy"


class TopicRow(NamedTuple):
    """A row of the list."""

    facts: TopicFacts
    size: int | None
    rate: float | None


KEYS: Mapping[str, Callable[[TopicRow], Any]] = {
    "name": lambda row: row.facts.name,
    "partitions": lambda row: (row.facts.partitions, row.facts.name),
    "size": lambda row: (row.size or 0, row.facts.name),
    "rate": lambda row: (row.rate or 0.0, row.facts.name),
    "short": lambda row: (row.facts.short, row.facts.name),
}


async def _paged(request: Request, summary: ClusterSummary) -> tuple[Paged[TopicRow], Sizes]:
    access = access_of(request)
    sizes, rates = await sizes_of(access), throughput_of(access)
    wanted = request.query_params.get("q", "").casefold()
    with_internal = request.query_params.get("internal") == "1"
    rows = [
        TopicRow(facts, sizes.topics.get(name), rates.of_topic(name))
        for name, facts in summary.topics.items()
        if (with_internal or not facts.internal) and (not wanted or wanted in name.casefold())
    ]
    return Paged(request, rows, KEYS), sizes


async def _rates(access: ClusterAccess, names: list[str]) -> Throughput:
    topics = await topics_of(access)
    return await observed(access, leaders_of(topics, names), tuple(names))


async def list_topics(request: Request) -> Response:
    """Shows topics: filtered, sorted, 100 on a page."""
    access = access_of(request)
    summary = await summary_soon(access)
    if summary is None:
        return awaited(request, "Topics")
    paged, sizes = await _paged(request, summary)
    names = [row.facts.name for row in paged.rows]
    configs = await topic_configs_of(access, names, (RETENTION, CLEANUP))
    return page(
        request,
        "topics.html",
        paged=paged,
        wanted=request.query_params.get("q", ""),
        internal=request.query_params.get("internal") == "1",
        missing=sizes.missing,
        retention={name: int(text) for name, text in configs[RETENTION].items() if text},
        cleanup=configs[CLEANUP],
    )


async def live_rates(request: Request) -> Response:
    """Sends the rates of the topics on a page of the list."""
    access = access_of(request)
    paged, _ = await _paged(request, await summary_of(access))
    names = [row.facts.name for row in paged.rows]

    async def render() -> dict[str, str]:
        rates = await _rates(access, names)
        return {f"rate-{number}": rate_text(rates.of_topic(name)) for number, name in enumerate(names)}

    return live(request, render, LIVE_S)


routes = [
    Route("/topics", list_topics),
    Route("/topics/live", live_rates),
]
