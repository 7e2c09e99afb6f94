"""Shows groups of all types: the list, and one group with its members, lag and rebalances."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from bowstring.clients.admin.results import GroupLag
from bowstring.clients.errors import AuthorizationError, ClientError, broker_error
from bowstring.clients.records import TopicPartition
from bowstring.console.cluster_facts import topics_of
from bowstring.console.group_watch import GroupWatch, group_watch
from bowstring.console.live import live
from bowstring.console.paged import Paged
from bowstring.console.parts import Part, why_missing
from bowstring.console.plots import bar, line_plot
from bowstring.console.rendering import page, quoted, rendered
from bowstring.console.sessions import access_of
from bowstring.console.share_parts import share_parts
from bowstring.console.values_text import count_text, duration_text
from bowstring.operations.group_progress import GroupsNow
from bowstring.protocol.errors import Errors

if TYPE_CHECKING:
    from bowstring.clients.admin.results import GroupListing

TYPES = ("classic", "consumer", "share", "streams")
STATES = (
    "Empty",
    "Stable",
    "Assigning",
    "Reconciling",
    "NotReady",
    "PreparingRebalance",
    "CompletingRebalance",
    "Dead",
)
LIVE_S = 2.0
FIRST_PAINT_S = 0.15
"""A list waits this long for members and lags; afterwards they come as live parts."""
PAINT_S = 0.25
"""The list waits this long for the names of groups, and the page of a group for all of it."""
RELOAD_S = 1
RIGHT = "DESCRIBE on the group"
PARTITIONS_MAX = 500
"""Rows of a group's partitions on its page: those with the largest lags."""


class GroupRow(NamedTuple):
    """A row of the list; what is not known yet, or may not be seen, is None. `refused`: why."""

    name: str
    type: str
    state: str
    members: int | None = None
    lag: int | None = None
    assignor: str = ""
    refused: str = ""


class PartitionRow(NamedTuple):
    """A partition of a group."""

    partition: TopicPartition
    lag: GroupLag
    seconds: float | None


def _filtered(request: Request, groups: Sequence[GroupListing], only: str) -> list[GroupListing]:
    given = request.query_params
    wanted = given.get("q", "").casefold()
    state, kind = given.get("state", "").casefold(), (only or given.get("type", "")).casefold()
    return [
        each
        for each in groups
        if wanted in each.group_id.casefold()
        and (not state or each.state.casefold() == state)
        and (not kind or (each.group_type or "classic").casefold() == kind)
    ]


async def _paged(request: Request, only: str) -> tuple[Paged[GroupListing], GroupWatch]:
    watch = group_watch(access_of(request))
    keys = {
        "name": lambda each: each.group_id,
        "state": lambda each: (each.state, each.group_id),
        "type": lambda each: (each.group_type, each.group_id),
    }
    return Paged(request, _filtered(request, await watch.listed(), only), keys), watch


def _row(listing: GroupListing, now: GroupsNow | None) -> GroupRow:
    name, kind = listing.group_id, (listing.group_type or "classic").casefold()
    if now is None:
        return GroupRow(name, kind, listing.state)
    found, lags = now.described.get(name), now.lags.get(name)
    if isinstance(found, ClientError):
        return GroupRow(name, kind, listing.state, refused=why_missing(found, RIGHT))
    if found is None:
        return GroupRow(name, kind, "gone")
    refused = why_missing(lags, RIGHT) if isinstance(lags, ClientError) else ""
    return GroupRow(
        name, found.group_type, found.state, len(found.members), now.lag(name), found.assignor, refused
    )


async def _list(request: Request, only: str, path: str) -> Response:
    listing = asyncio.ensure_future(_paged(request, only))
    listing.add_done_callback(lambda task: task.cancelled() or task.exception())
    if not (await asyncio.wait([listing], timeout=PAINT_S))[0]:
        answer = page(request, "groups_awaited.html", only=only)
        answer.headers["refresh"] = str(RELOAD_S)
        return answer
    paged, watch = listing.result()
    looking = asyncio.ensure_future(watch.look(paged.rows, times=False))
    done, _ = await asyncio.wait({looking}, timeout=FIRST_PAINT_S)
    now = looking.result() if done else None
    looking.add_done_callback(lambda task: task.cancelled() or task.exception())
    return page(
        request,
        "groups.html",
        paged=paged,
        rows=[_row(each, now) for each in paged.rows],
        wanted=request.query_params.get("q", ""),
        state=request.query_params.get("state", ""),
        kind=request.query_params.get("type", ""),
        states=STATES,
        types=TYPES,
        only=only,
        list_path=path,
    )


async def list_groups(request: Request) -> Response:
    """Shows groups: filtered, sorted, 100 on a page; only those of the page are described."""
    return await _list(request, "", "/groups")


async def list_share_groups(request: Request) -> Response:
    """Shows share groups alone."""
    return await _list(request, "share", "/share-groups")


async def _live_list(request: Request, only: str) -> Response:
    paged, watch = await _paged(request, only)

    async def render() -> dict[str, str]:
        now = await watch.look(paged.rows, times=False)
        rows = [_row(each, now) for each in paged.rows]
        return {
            f"group-{number}": rendered(request, "group_row.html", row=row, number=number)
            for number, row in enumerate(rows)
        }

    return live(request, render, LIVE_S)


async def live_groups(request: Request) -> Response:
    """Sends the rows of a page of the list."""
    return await _live_list(request, "")


async def live_share_groups(request: Request) -> Response:
    """Sends the rows of a page of the list of share groups."""
    return await _live_list(request, "share")


async def by_name(request: Request) -> Response:
    """Leads /groups/NAME to the group: a name may have any characters, so that it is in the query."""
    return RedirectResponse(f"/groups/one?name={quoted(request.path_params['name'])}", 303)


async def _group_context(request: Request, name: str) -> dict[str, Any]:
    """Returns what the page of a group shows.

    Raises:
        ClientError: the group does not exist, or may not be seen.
    """
    access = access_of(request)
    watch = group_watch(access)
    listing = next((each for each in await watch.listed() if each.group_id == name), None)
    if listing is None:
        raise broker_error(
            Errors.GROUP_ID_NOT_FOUND.code,
            f"group {name!r}",
            f"the group does not exist, or you lack the right {RIGHT}",
        )
    now = await watch.look([listing], times=True)
    found = now.described.get(name)
    if isinstance(found, ClientError):
        raise found
    if found is None:
        raise broker_error(Errors.GROUP_ID_NOT_FOUND.code, f"group {name!r}", "the group is gone")
    lags = now.lags.get(name, [])
    rows = _partitions(lags, now.seconds.get(name, {})) if not isinstance(lags, ClientError) else []
    share = None
    if found.group_type == "share" and not isinstance(lags, ClientError):
        share = await share_parts(access, name, await topics_of(access), lags)
    rebalances = watch.history.rebalances(name)
    return {
        "group": found,
        "members": [(each, _work(each)) for each in found.members[:PARTITIONS_MAX]],
        "partitions": rows[:PARTITIONS_MAX],
        "partitions_all": len(rows),
        "no_offsets": why_missing(lags, RIGHT) if isinstance(lags, ClientError) else "",
        "lag": now.lag(name),
        "seconds": now.oldest_s(name),
        "plots": _plots(watch, name),
        "share": share or Part(None, why_missing(lags, RIGHT) if isinstance(lags, ClientError) else ""),
        "bar": bar,
        "rebalances": rebalances[:50],
        "watched_since_ms": watch.since_ms,
    }


def _partitions(rows: Sequence[GroupLag], seconds: Mapping[TopicPartition, float]) -> list[PartitionRow]:
    found = [PartitionRow(row.partition, row, seconds.get(row.partition)) for row in rows]
    return sorted(found, key=lambda row: (-(row.lag.lag or 0), row.partition))


def _work(member: Any) -> str:
    if member.tasks:
        return " ".join(f"{task.kind}:{task.subtopology}_{task.partition}" for task in member.tasks)
    topics: dict[str, list[int]] = {}
    for topic, number in member.assignment:
        topics.setdefault(topic, []).append(number)
    return "; ".join(f"{topic} {', '.join(map(str, numbers))}" for topic, numbers in topics.items())


def _plots(watch: GroupWatch, name: str) -> list[Any]:
    samples = watch.history.samples(name)
    if len(samples) < 2:
        return []
    records = {"records": [(each.at_ms / 1000, float(each.lag)) for each in samples]}
    times = {"age": [(each.at_ms / 1000, each.seconds) for each in samples]}
    return [
        line_plot(records, label="Lag in records", text=count_text),
        line_plot(times, label="Age of the oldest record not read", text=_seconds_text),
    ]


def _seconds_text(seconds: float) -> str:
    return duration_text(seconds * 1000)


async def show_group(request: Request) -> Response:
    """Shows one group; what is not known in PAINT_S comes as live part."""
    name = request.query_params.get("name", "")
    making = asyncio.ensure_future(_group_context(request, name))
    making.add_done_callback(lambda task: task.cancelled() or task.exception())
    done, _ = await asyncio.wait([making], timeout=PAINT_S)
    context = making.result() if done else {"group": None}
    return page(request, "group.html", **context, name=name, waiting=not done)


async def live_group(request: Request) -> Response:
    """Sends what moves on the page of a group."""
    name = request.query_params.get("name", "")

    async def render() -> dict[str, str]:
        try:
            context = await _group_context(request, name)
        except AuthorizationError as error:
            return {"group-live": rendered(request, "notice.html", text=why_missing(error, RIGHT))}
        return {"group-live": rendered(request, "group_live.html", **context)}

    return live(request, render, LIVE_S)


routes = [
    Route("/groups", list_groups),
    Route("/groups/live", live_groups),
    Route("/share-groups", list_share_groups),
    Route("/share-groups/live", live_share_groups),
    Route("/groups/one", show_group),
    Route("/groups/one/live", live_group),
]
# Behind all other pages of groups.
last_routes = [Route("/groups/{name:path}", by_name, methods=["GET"])]
