"""Changes connectors: pauses, stops and restarts them, changes their configs, creates and deletes them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from bowstring.clients.errors import ConfigError
from bowstring.console.connect.config_change import changes, config_text, fingerprint, parsed_config
from bowstring.console.connect.config_secrets import CLASS, masked, unmasked
from bowstring.console.connect.connect_access import clusters_of, why_not_changed, why_not_shown
from bowstring.console.connect.connect_cluster import ConnectCluster, ConnectError, segment
from bowstring.console.connect.connectors import (
    ConfigProblem,
    config_of,
    plugins_of,
    types_of,
    validate,
)
from bowstring.console.connect.secret_search import SecretSearch
from bowstring.console.pages.connectors import NO_CLUSTER, PAINT_S, cluster_and_name, part_of, shown_refusal
from bowstring.console.parts import Part
from bowstring.console.rendering import page, quoted
from bowstring.console.writes import writes
from bowstring.protocol.whole_numbers import whole_number

NAME_CHARACTERS_MAX = 1_000


class Action(NamedTuple):
    """What can be done with a connector. `title` names it with `{}`."""

    method: str
    path: str
    title: str
    text: str
    button: str


_ALL, _FAILED = "?includeTasks=true", "?includeTasks=true&onlyFailed=true"
ACTIONS: Mapping[str, Action] = {
    "pause": Action("PUT", "/pause", "Pause {}?", "Its tasks stay, and do nothing.", "Pause"),
    "resume": Action("PUT", "/resume", "Resume {}?", "It goes on where it was.", "Resume"),
    "stop": Action("PUT", "/stop", "Stop {}?", "Its tasks end; config and offsets stay.", "Stop"),
    "restart": Action(
        "POST", f"/restart{_ALL}", "Restart {}?", "The connector and all its tasks.", "Restart"
    ),
    "restart-failed": Action(
        "POST", f"/restart{_FAILED}", "Restart what failed of {}?", "What runs goes on.", "Restart"
    ),
    "restart-task": Action(
        "POST", "/tasks/{}/restart", "Restart a task of {}?", "The others go on.", "Restart"
    ),
    "delete": Action(
        "DELETE",
        "",
        "Delete {}?",
        "Its tasks end, and its config is gone. Topics and their records stay.",
        "Delete",
    ),
}


def _place(connect: str, name: str) -> str:
    return f"/connectors/one?connect={quoted(connect)}&name={quoted(name)}"


async def _fields(request: Request) -> dict[str, str]:
    return {name: value for name, value in (await request.form()).items() if isinstance(value, str)}


async def _chosen(request: Request, connect: str) -> ConnectCluster:
    """Returns the cluster that a form names.

    Raises:
        HTTPException: there is none, or the user may not change it.
    """
    refused = await why_not_changed(request)
    if refused:
        raise HTTPException(403, refused)
    cluster = clusters_of(request).get(connect)
    if cluster is None:
        raise HTTPException(404, NO_CLUSTER)
    return cluster


def _refused(request: Request, error: ConnectError, back: str) -> Response:
    status = error.status if 400 <= error.status < 500 else 502
    return page(request, "refused.html", status=status, text=shown_refusal(str(error)), back=back)


def _not_offered(request: Request, text: str) -> Response:
    status = 403 if clusters_of(request) else 200
    return page(request, "refused.html", status=status, text=text, back="/connectors")


async def ask_action(request: Request) -> Response:
    """Says what pausing, stopping, restarting or deleting a connector means."""
    missing = await why_not_shown(request)
    if missing:
        return _not_offered(request, missing)
    cluster, name = cluster_and_name(request)
    given = request.query_params
    action = ACTIONS.get(given.get("action", ""))
    if cluster is None or action is None or not name:
        raise HTTPException(404, NO_CLUSTER)
    return page(
        request,
        "confirm_change.html",
        title=action.title.format(name),
        text=action.text,
        action="/connectors/act",
        fields={
            "connect": cluster.address,
            "name": name,
            "action": given["action"],
            "task": given.get("task", ""),
        },
        button=action.button,
        back=_place(cluster.address, name),
    )


@writes
async def act(request: Request) -> Response:
    """Pauses, resumes, stops, restarts or deletes a connector, or restarts a task."""
    fields = await _fields(request)
    cluster = await _chosen(request, fields.get("connect", ""))
    name, action = fields.get("name", ""), ACTIONS.get(fields.get("action", ""))
    task = whole_number(fields.get("task", ""), 1 << 31)
    if action is None or not name or ("{}" in action.path and task is None):
        raise HTTPException(404, NO_CLUSTER)
    try:
        await cluster.change(action.method, f"/connectors/{segment(name)}{action.path.format(task)}")
    except ConnectError as error:
        return _refused(request, error, _place(cluster.address, name))
    done = "/connectors" if action.method == "DELETE" else _place(cluster.address, name)
    return RedirectResponse(done, 303)


# ---------------------------------------------------------------- configs


def _form(
    request: Request,
    cluster: ConnectCluster,
    name: str,
    config: str,
    seen: str,
    *,
    problems: Sequence[ConfigProblem] = (),
    failure: str = "",
    plugins: Part[Any] | None = None,
) -> Response:
    """Shows the form of a config; `seen`: the fingerprint of the one that it changes, empty for a new one."""
    return page(
        request,
        "connector_form.html",
        status=400 if failure or problems else 200,
        connect=cluster.address,
        clusters=list(clusters_of(request)),
        name=name,
        config=config,
        seen=seen,
        problems=problems,
        failure=failure,
        plugins=plugins,
        is_new=plugins is not None,
    )


async def show_config(request: Request) -> Response:
    """Shows the form that changes a config; its secrets are hidden."""
    refused = await why_not_changed(request)
    if refused:
        return _not_offered(request, refused)
    cluster, name = cluster_and_name(request)
    if cluster is None:
        raise HTTPException(404, NO_CLUSTER)
    try:
        held = await config_of(cluster, name)
        types = (await part_of(types_of(cluster, held))).value
    except ConnectError as error:
        return _refused(request, error, _place(cluster.address, name))
    return _form(request, cluster, name, config_text(masked(held, types)), fingerprint(held))


async def _plugins(cluster: ConnectCluster) -> Part[Any]:
    asking = asyncio.ensure_future(part_of(plugins_of(cluster)))
    done, _ = await asyncio.wait([asking], timeout=PAINT_S)
    if not done:
        return Part(None, "Kafka Connect has not answered yet: load the page again.")
    return asking.result()._replace(missing=shown_refusal(asking.result().missing))


async def show_new(request: Request) -> Response:
    """Shows the form of a new connector, and the classes that the cluster has."""
    refused = await why_not_changed(request)
    if refused:
        return _not_offered(request, refused)
    cluster, _ = cluster_and_name(request)
    if cluster is None:
        raise HTTPException(404, NO_CLUSTER)
    example = config_text({CLASS: "", "tasks.max": "1"})
    return _form(request, cluster, "", example, "", plugins=await _plugins(cluster))


@writes
async def change_config(request: Request) -> Response:
    """Checks a config by its plugin, shows what changes, and stores it once that has been seen."""
    fields = await _fields(request)
    cluster = await _chosen(request, fields.get("connect", ""))
    name, text, seen = (fields.get(each, "") for each in ("name", "config", "seen"))
    try:
        held = await config_of(cluster, name)
        types = (await part_of(types_of(cluster, held))).value
    except ConnectError as error:
        return _refused(request, error, _place(cluster.address, name))
    if seen != fingerprint(held):
        failure = "The config has changed since this form was loaded. It is shown as it is now."
        shown = config_text(masked(held, types))
        return _form(request, cluster, name, shown, fingerprint(held), failure=failure)
    search = SecretSearch((held, types))
    try:
        wanted = unmasked(parsed_config(text), held, types) | {"name": name}
        search = SecretSearch((held, types), (wanted, None))
        found = await validate(cluster, wanted)
        search = SecretSearch((held, types), (wanted, found.types))
        if found.problems:
            problems = _without_secrets(found.problems, search)
            return _form(request, cluster, name, text, seen, problems=problems)
        if fields.get("confirmed") == "1":
            await cluster.change("PUT", f"/connectors/{segment(name)}/config", wanted)
            return RedirectResponse(_place(cluster.address, name), 303)
    except (ConfigError, ConnectError) as error:
        failure = search.without_secrets(str(error))
        return _form(request, cluster, name, text, seen, failure=failure)
    return page(
        request,
        "connector_preview.html",
        title=f"Change the config of {name}?",
        rows=changes(held, wanted, types, found.types),
        action="/connectors/config",
        fields={"connect": cluster.address, "name": name, "config": text, "seen": seen},
        button="Change the config",
        back=_place(cluster.address, name),
    )


@writes
async def create(request: Request) -> Response:
    """Checks the config of a new connector by its plugin, and creates it once that has been seen."""
    fields = await _fields(request)
    cluster = await _chosen(request, fields.get("connect", ""))
    text, name = fields.get("config", ""), fields.get("name", "").strip()
    search = SecretSearch()
    try:
        config = unmasked(parsed_config(text), {}, None)
        search = SecretSearch((config, None))
        name = name or config.get("name", "")
        if not 0 < len(name) <= NAME_CHARACTERS_MAX:
            raise ConfigError(f"a connector needs a name of at most {NAME_CHARACTERS_MAX:,} characters")
        config["name"] = name
        found = await validate(cluster, config)
        search = SecretSearch((config, found.types))
        if found.problems:
            problems = _without_secrets(found.problems, search)
            plugins = await _plugins(cluster)
            return _form(request, cluster, name, text, "", problems=problems, plugins=plugins)
        if fields.get("confirmed") == "1":
            await cluster.change("POST", "/connectors", {"name": name, "config": config})
            return RedirectResponse(_place(cluster.address, name), 303)
    except (ConfigError, ConnectError) as error:
        failure = search.without_secrets(str(error))
        return _form(request, cluster, name, text, "", failure=failure, plugins=await _plugins(cluster))
    return page(
        request,
        "connector_preview.html",
        title=f"Create the connector {name}?",
        rows=changes({}, config, None, found.types),
        action="/connectors/new",
        fields={"connect": cluster.address, "name": name, "config": text},
        button="Create the connector",
        back="/connectors",
    )


def _without_secrets(problems: Sequence[ConfigProblem], search: SecretSearch) -> list[ConfigProblem]:
    """Returns problems whose texts do not repeat secrets: plugins name the values that they refuse."""
    return [each._replace(errors=list(map(search.without_secrets, each.errors))) for each in problems]


routes = [
    Route("/connectors/act", ask_action, methods=["GET"]),
    Route("/connectors/act", act, methods=["POST"]),
    Route("/connectors/config", show_config, methods=["GET"]),
    Route("/connectors/config", change_config, methods=["POST"]),
    Route("/connectors/new", show_new, methods=["GET"]),
    Route("/connectors/new", create, methods=["POST"]),
]
