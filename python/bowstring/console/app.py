"""Makes the application: its pages, and how errors become pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Match, Mount, Route
from starlette.staticfiles import StaticFiles

from bowstring.clients.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    ClientError,
    ConfigError,
    UnknownTopicError,
)
from bowstring.console.cluster_facts import warm
from bowstring.console.connect.connect_access import clusters_from
from bowstring.console.guard import HEADERS, Guard
from bowstring.console.options import ConsoleOptions
from bowstring.console.rendering import page, quoted
from bowstring.console.sessions import Sessions, SignInNeededError

END_OLD_S = 60.0
STATIC = Path(__file__).parent / "static"
# Modules of bowstring.console.pages; each has `routes`. The first route that matches answers.
PAGES = (
    "sign_in",
    "overview",
    "brokers",
    "topics",
    "topic",
    "groups",
    "group_changes",
    "transactions",
    "access",
    "access_changes",
    "messages",
    "schemas",
    "connectors",
    "connector_changes",
    "message_tails",
    "message_produce",
    "audit",
)


class Place(NamedTuple):
    """An entry of the navigation. `key`: opens it after `g`."""

    label: str
    path: str
    key: str


# Shown where a page has the path.
NAVIGATION = (
    Place("Overview", "/", "o"),
    Place("Topics", "/topics", "t"),
    Place("Messages", "/messages", "m"),
    Place("Groups", "/groups", "g"),
    Place("Share groups", "/share-groups", "s"),
    Place("Transactions", "/transactions", "x"),
    Place("Brokers", "/brokers", "b"),
    Place("Access", "/access", "a"),
    Place("Users", "/users", "u"),
    Place("ACLs", "/acls", "l"),
    Place("Quotas", "/quotas", "q"),
    Place("Schemas", "/schemas", "c"),
    Place("Connectors", "/connectors", "n"),
    Place("Audit", "/audit", "d"),
)


def create_app(options: ConsoleOptions, *, warm_up: bool = False) -> Starlette:
    """Returns the application.

    Args:
        options: of the console.
        warm_up: fetch what every page needs when the application starts, not with the first page.

    Raises:
        ConfigError: the options contradict each other.
    """
    options.check()
    routes: list[Route] = []
    last_routes: list[Route] = []
    for name in PAGES:
        module = import_module(f"bowstring.console.pages.{name}")
        routes += module.routes
        last_routes += getattr(module, "last_routes", [])
    routes += last_routes
    sessions = Sessions(options)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        warming = None
        if warm_up and (access := sessions.access("")) is not None:
            warming = asyncio.ensure_future(warm(access))
        ending = asyncio.ensure_future(_end_old(sessions))
        yield
        ending.cancel()
        if warming is not None:
            warming.cancel()
        sessions.close()

    app = Starlette(
        routes=[*routes, Mount("/static", StaticFiles(directory=STATIC), name="static")],
        middleware=[Middleware(Guard, options=options, sessions=sessions)],
        exception_handlers={
            SignInNeededError: _to_sign_in,
            ClientError: _client_error,
            HTTPException: _http_error,
            Exception: _own_error,
        },
        lifespan=lifespan,
    )
    app.state.sessions = sessions
    app.state.live_streams = set()
    app.state.connect = clusters_from(options)
    app.state.navigation = [place for place in NAVIGATION if _has(routes, place.path)]
    return app


async def _end_old(sessions: Sessions) -> None:
    """Ends sessions in time: passwords do not stay in memory until somebody loads a page."""
    while True:
        await asyncio.sleep(END_OLD_S)
        sessions.end_old()


def _has(routes: list[Route], path: str) -> bool:
    scope = {"type": "http", "method": "GET", "path": path, "root_path": ""}
    return any(route.matches(scope)[0] is Match.FULL for route in routes)


async def _to_sign_in(request: Request, error: Exception) -> Response:
    assert isinstance(error, SignInNeededError)
    return RedirectResponse(f"/sign-in?next={quoted(error.path)}", 303)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = error.detail
    if error.status_code == 404 and detail == "Not Found":
        detail = "There is no such page. Choose one from the navigation."
    title = {403: "Not allowed", 404: "Not found", 405: "Not allowed"}.get(error.status_code, "Error")
    return page(request, "error.html", status=error.status_code, title=title, detail=detail, advice="")


async def _own_error(request: Request, error: Exception) -> Response:
    """Answers a request that failed by a mistake of the console; the log has the traceback, the page nothing
    of it.
    """
    text = "The console failed to make this page. Its log says why. Load the page again to retry.\n"
    return PlainTextResponse(text, 500, {**HEADERS, "cache-control": "no-store"})


async def _client_error(request: Request, error: Exception) -> Response:
    """Says what went wrong and what to do. The process goes on: the next request tries again."""
    status, title, advice = 502, "The cluster does not answer", "Load the page again to retry."
    if isinstance(error, AuthorizationError):
        status, title, advice = 403, "A right is missing", missing_right(error)
    elif isinstance(error, AuthenticationError):
        status, title, advice = 502, "The cluster refused the log-in", "Sign in again, or check the settings."
    elif isinstance(error, UnknownTopicError):
        status, title, advice = 404, "Not found", "It may be gone, or you lack the right DESCRIBE on it."
    elif isinstance(error, BrokerError | ConfigError):
        status, title, advice = 400, "The cluster refused", "Change what is named above, then try again."
    shown = {"title": title, "detail": str(error), "advice": advice, "trouble": ""}
    return page(request, "error.html", status=status, **shown)


def missing_right(error: AuthorizationError) -> str:
    """Returns a sentence: which right the user lacks, and how to give it."""
    kind = {
        "TOPIC_AUTHORIZATION_FAILED": "a right on the topic (such as DESCRIBE, READ, ALTER or DELETE)",
        "GROUP_AUTHORIZATION_FAILED": "a right on the group (DESCRIBE or READ)",
        "CLUSTER_AUTHORIZATION_FAILED": "a right on the cluster (such as DESCRIBE, CREATE or ALTER)",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "DESCRIBE on the transactional id",
    }.get(error.name, "a right")
    return f"The signed-in user lacks {kind}. Grant it with `bowstring acls add`, then load the page again."
