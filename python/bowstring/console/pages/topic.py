"""Shows one topic: partitions, configs; and changes it, each time after a confirmation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from bowstring.clients.errors import ClientError, UnknownTopicError
from bowstring.clients.records import PartitionInfo, TopicInfo, TopicPartition
from bowstring.console import topic_changes
from bowstring.console.cluster_access import ClusterAccess
from bowstring.console.cluster_facts import CONFIGS_S, COST_MAX, forget_topics, refusal, sizes_of
from bowstring.console.cluster_summary import kind_of
from bowstring.console.config_rows import config_rows
from bowstring.console.live import live
from bowstring.console.paged import Paged
from bowstring.console.rendering import page, quoted, rendered
from bowstring.console.sessions import access_of
from bowstring.console.throughput import throughput_of
from bowstring.console.writes import writes
from bowstring.operations.partition_state import MIN_ISR, state_of

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.admin.results import ConfigEntry
    from bowstring.console.topic_changes import TopicChange

LIVE_S = 2.0
TOPIC_S = 1.0
OFFSETS_S = 1.0


class PartitionRow(NamedTuple):
    """A row of the table of partitions; None: unknown."""

    number: int
    info: PartitionInfo
    state: str | None
    begin: int | None
    end: int | None
    size: int | None
    rate: float | None


async def _topic(request: Request) -> TopicInfo:
    access, name = access_of(request), request.path_params["name"]
    return await access.cached(
        ("topic", name), TOPIC_S, lambda admin: admin.describe_topic(name), cost_max=COST_MAX
    )


async def _configs(access: ClusterAccess, name: str) -> Mapping[str, ConfigEntry]:
    return await access.cached(
        ("topic", name, "configs"),
        CONFIGS_S,
        lambda admin: admin.describe_configs("topic", name, documentation=True),
    )


async def _offsets(
    access: ClusterAccess, topic: TopicInfo, numbers: tuple[int, ...]
) -> tuple[dict[int, int], dict[int, int]]:
    """Returns first and end offsets of partitions that have a leader."""
    led = [TopicPartition(topic.name, number) for number in numbers if topic.partitions[number].leader >= 0]
    throughput = throughput_of(access)

    def ask(admin: Admin) -> tuple[dict[int, int], dict[int, int]]:
        begins, ends = admin.beginning_offsets(led), admin.end_offsets(led)
        throughput.observe(ends)
        return (
            {each.partition: offset for each, offset in begins.items()},
            {each.partition: offset for each, offset in ends.items()},
        )

    if not led:
        return {}, {}
    return await access.cached(("topic", topic.name, "offsets", numbers), OFFSETS_S, ask)


async def _partitions(request: Request) -> dict[str, Any]:
    """Returns what the table of partitions shows."""
    access, topic = access_of(request), await _topic(request)
    paged = Paged(request, list(topic.partitions), {"number": lambda number: number})
    sizes, throughput = await sizes_of(access), throughput_of(access)
    missing = ""
    begins: dict[int, int] = {}
    ends: dict[int, int] = {}
    min_isr = 1
    try:
        begins, ends = await _offsets(access, topic, tuple(paged.rows))
        entry = (await _configs(access, topic.name)).get(MIN_ISR)
        min_isr = int(entry.value or 1) if entry is not None else 1
    except UnknownTopicError:
        raise
    except ClientError as error:
        missing = refusal(error)
    rows = []
    for number in paged.rows:
        partition, info = TopicPartition(topic.name, number), topic.partitions[number]
        state = state_of(info, min_isr)
        size, rate = sizes.of_partition(partition), throughput.of_partition(partition)
        rows.append(PartitionRow(number, info, state, begins.get(number), ends.get(number), size, rate))
    known = [row.end - row.begin for row in rows if row.end is not None and row.begin is not None]
    return {
        "topic": topic,
        "paged": paged,
        "rows": rows,
        "records": sum(known) if known and paged.pages == 1 else None,
        "size": sizes.topics.get(topic.name),
        "rate": throughput.of_topic(topic.name),
        "missing": missing,
        "sizes": sizes,
        "kind_of": kind_of,
    }


async def show(request: Request) -> Response:
    """Shows the partitions."""
    return page(request, "topic.html", tab="partitions", **await _partitions(request))


async def show_live(request: Request) -> Response:
    """Sends the table of partitions again and again."""
    await _topic(request)

    async def render() -> dict[str, str]:
        context = await _partitions(request)
        return {"topic_partitions": rendered(request, "topic_partitions.html", **context)}

    return live(request, render, LIVE_S)


async def show_configs(request: Request) -> Response:
    """Shows the configs, and where each value comes from."""
    access, topic = access_of(request), await _topic(request)
    configs, missing = {}, ""
    try:
        configs = dict(await _configs(access, topic.name))
    except ClientError as error:
        missing = refusal(error)
    change_at = f"/topics/{quoted(topic.name)}/change" if access.writes else ""
    return page(
        request,
        "topic_configs.html",
        tab="configs",
        topic=topic,
        configs=config_rows(configs, request),
        missing=missing,
        changed_only=request.query_params.get("all") != "1",
        change_at=change_at,
    )


async def show_change(request: Request) -> Response:
    """Shows the forms that change the topic."""
    access, topic = access_of(request), await _topic(request)
    name = request.query_params.get("config", "")
    entry, missing = None, ""
    if name:
        try:
            entry = (await _configs(access, topic.name)).get(name)
        except ClientError as error:
            missing = refusal(error)
    return page(
        request, "topic_change.html", tab="change", topic=topic, config=name, entry=entry, missing=missing
    )


async def show_new(request: Request) -> Response:
    """Shows the form of a new topic."""
    access_of(request)
    return page(request, "topic_new.html")


# ---------------------------------------------------------------- changes


async def _fields(request: Request) -> dict[str, str]:
    return {name: value for name, value in (await request.form()).items() if isinstance(value, str)}


async def _confirmed(request: Request, change: TopicChange, done: str, cancel: str) -> Response:
    """Shows what a change would do; does it if the form says that this has been seen."""
    access, fields = access_of(request), await _fields(request)
    if fields.get("confirmed") == "1":
        await access.admin(change.apply)
        forget_topics(access)
        return RedirectResponse(done, 303)
    if change.check is not None:
        await access.admin(change.check)
    hidden = {name: value for name, value in fields.items() if name not in ("csrf_token", "confirmed")}
    return page(request, "confirm.html", change=change, fields=hidden, cancel=cancel)


@writes
async def create(request: Request) -> Response:
    """Creates a topic."""
    fields = await _fields(request)
    done = f"/topics/{quoted(fields.get('name', '').strip())}"
    return await _confirmed(request, topic_changes.creation(fields), done, "/topics-new")


@writes
async def change(request: Request) -> Response:
    """Raises partitions, changes a config, deletes records, or deletes the topic."""
    access, topic, fields = access_of(request), await _topic(request), await _fields(request)
    here = f"/topics/{quoted(topic.name)}"
    done = here
    what = request.path_params["what"]
    if what == "partitions":
        made = topic_changes.more_partitions(topic, fields)
    elif what == "config":
        made = topic_changes.config_change(topic, fields, await _configs(access, topic.name))
        done = f"{here}/configs"
    elif what == "records":
        begins, ends = await _offsets(access, topic, tuple(sorted(topic.partitions)))
        made = topic_changes.record_deletion(topic, fields, begins, ends)
    elif what == "delete":
        made, done = topic_changes.deletion(topic), "/topics"
    else:
        raise HTTPException(404)
    return await _confirmed(request, made, done, f"{here}/change")


routes = [
    Route("/topics-new", show_new, methods=["GET"]),
    Route("/topics-new", create, methods=["POST"]),
    Route("/topics/{name}", show),
    Route("/topics/{name}/live", show_live),
    Route("/topics/{name}/configs", show_configs),
    Route("/topics/{name}/change", show_change),
    Route("/topics/{name}/change/{what}", change, methods=["POST"]),
]
