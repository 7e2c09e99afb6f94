"""Shows the list of topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bowstring.clients.records import TopicInfo
from bowstring.console.cluster_access import ClusterAccess
from bowstring.console.cluster_facts import COST_MAX, Sizes, sizes_of, topic_configs_of, topics_of
from bowstring.console.live import live
from bowstring.console.paged import Paged
from bowstring.console.rendering import page
from bowstring.console.sessions import access_of
from bowstring.console.throughput import Throughput, leaders_of, look
from bowstring.console.values_text import rate_text

LIVE_S = 2.0
RETENTION, CLEANUP = "retention.ms", "cleanup.policy"


class TopicRow(NamedTuple):
    """A row of the list. `number`: on this page, for ids of elements."""

    name: str
    partitions: int
    replication: int
    short: int
    size: int | None
    rate: float | None
    internal: bool


def throughput_of(access: ClusterAccess) -> Throughput:
    """Returns the rates that all pages of an access share."""
    return access.shared("throughput", Throughput)


async def observed(access: ClusterAccess, names: list[str], topics: Mapping[str, TopicInfo]) -> Throughput:
    """Looks at the partitions of some topics, if nobody has done so just now; returns all rates."""
    throughput = throughput_of(access)
    partitions = throughput.choose(leaders_of(topics, names))

    def ask(admin: Any) -> None:
        throughput.observe(look(admin, partitions))

    if partitions:
        await access.cached(("ends", tuple(names)), 1.0, ask, cost_max=COST_MAX)
    return throughput


def _rows(
    request: Request, topics: Mapping[str, TopicInfo], sizes: Sizes, rates: Throughput
) -> list[TopicRow]:
    wanted = request.query_params.get("q", "").casefold()
    with_internal = request.query_params.get("internal") == "1"
    found = []
    for name, topic in topics.items():
        internal = topic.internal or name.startswith("__")
        if (internal and not with_internal) or (wanted and wanted not in name.casefold()):
            continue
        infos = topic.partitions.values()
        found.append(
            TopicRow(
                name,
                len(topic.partitions),
                max((len(info.replicas) for info in infos), default=0),
                sum(len(info.isr) < len(info.replicas) for info in infos),
                sizes.topics.get(name),
                rates.rate(leaders_of(topics, [name])),
                internal,
            )
        )
    return found


async def _paged(request: Request) -> tuple[Paged[TopicRow], Mapping[str, TopicInfo], Sizes]:
    access = access_of(request)
    topics, sizes = await topics_of(access), await sizes_of(access)
    rates = throughput_of(access)
    keys = {
        "name": lambda row: row.name,
        "partitions": lambda row: (row.partitions, row.name),
        "size": lambda row: (row.size or 0, row.name),
        "rate": lambda row: (row.rate or 0.0, row.name),
        "short": lambda row: (row.short, row.name),
    }
    return Paged(request, _rows(request, topics, sizes, rates), keys), topics, sizes


async def list_topics(request: Request) -> Response:
    """Shows topics: filtered, sorted, 100 on a page."""
    access = access_of(request)
    paged, topics, sizes = await _paged(request)
    names = [row.name for row in paged.rows]
    await observed(access, names, topics)
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
    paged, topics, _ = await _paged(request)
    names = [row.name for row in paged.rows]

    async def render() -> dict[str, str]:
        rates = await observed(access, names, topics)
        return {
            f"rate-{number}": rate_text(rates.rate(leaders_of(topics, [name])))
            for number, name in enumerate(names)
        }

    return live(request, render, LIVE_S)


routes = [
    Route("/topics", list_topics),
    Route("/topics/live", live_rates),
]
