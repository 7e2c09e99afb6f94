"""Shows the cluster at a glance, live."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bowstring.clients.errors import ClientError
from bowstring.console.activity import GROUPS_MAX, activity_of, group_totals_of
from bowstring.console.cluster_access import ClusterAccess
from bowstring.console.cluster_facts import sizes_of
from bowstring.console.cluster_nodes import broker_rows, nodes_of, quorum_rows
from bowstring.console.cluster_summary import kind_of, summary_of, troubled_of
from bowstring.console.group_watch import group_watch, recent_rebalances
from bowstring.console.live import live
from bowstring.console.plots import bar, line_plot
from bowstring.console.rendering import page, rendered
from bowstring.console.sessions import access_of
from bowstring.console.throughput import observed
from bowstring.console.values_text import rate_text
from bowstring.operations.partition_state import AT_MIN_ISR, UNDER_MIN_ISR

LIVE_S = 2.0
PAINT_S = 0.2
TROUBLED_SHOWN = 20
REBALANCES_SHOWN = 10
PARTS = ("overview_figures", "overview_plots", "overview_brokers", "overview_troubled", "overview_rebalances")


async def _overview(access: ClusterAccess) -> dict[str, Any]:
    summary = await summary_of(access)
    throughput = await observed(access, summary.leaders, "all")
    throughput.keep(summary.topics)
    groups = await group_totals_of(access)
    activity = activity_of(access)
    activity.observe(throughput.total(), groups)
    nodes, sizes = await nodes_of(access), await sizes_of(access)
    troubled = await troubled_of(access)
    try:
        rebalances = await recent_rebalances(access)
    except ClientError:
        rebalances = []  # the figures say why groups are missing
    context = {
        "summary": summary,
        "records_in": throughput.total(),
        "records_out": activity.records_out,
        "known": throughput.known(),
        "groups": groups,
        "groups_max": GROUPS_MAX,
        "nodes": nodes,
        "rows": broker_rows(nodes, summary, sizes),
        "quorum": quorum_rows(nodes),
        "sizes": sizes,
        "troubled": troubled[:TROUBLED_SHOWN],
        "at_min_isr": sum(each.state == AT_MIN_ISR for each in troubled),
        "under_min_isr": sum(each.state == UNDER_MIN_ISR for each in troubled),
        "rebalances": rebalances[:REBALANCES_SHOWN],
        "rebalances_count": len(rebalances),
        "watched_since_ms": group_watch(access).since_ms,
        "kind_of": kind_of,
        "bar": bar,
        "plot_rates": line_plot(
            {"in": activity.points("records_in"), "out, committed by groups": activity.points("records_out")},
            label="Records a second",
            text=rate_text,
        ),
        "plot_lag": line_plot({"lag": activity.points("lag")}, label="Lag of all groups in records"),
    }
    _known(access).update(context)
    return context


def _known(access: ClusterAccess) -> dict[str, Any]:
    return access.shared("overview", dict)


async def overview(request: Request) -> Response:
    """Shows the page with what is known in PAINT_S; live parts bring the rest."""
    access = access_of(request)
    making = asyncio.ensure_future(_overview(access))
    making.add_done_callback(lambda task: task.cancelled() or task.exception())
    done, _ = await asyncio.wait([making], timeout=PAINT_S)
    context = making.result() if done else _known(access)
    return page(request, "overview.html", **context, waiting=not context)


async def overview_live(request: Request) -> Response:
    """Sends its parts again and again."""
    access = access_of(request)

    async def render() -> dict[str, str]:
        context = await _overview(access)
        return {part: rendered(request, f"{part}.html", **context) for part in PARTS}

    return live(request, render, LIVE_S)


routes = [
    Route("/", overview),
    Route("/overview/live", overview_live),
]
