"""Renders templates into answers."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from bowstring.console import values_text
from bowstring.console.sessions import browser_of, sessions_of
from bowstring.console.writes import CSRF_FIELD
from bowstring.version import __version__

TEMPLATES = Path(__file__).parent / "templates"
THEME_COOKIE = "bowstring-theme"
THEMES = ("auto", "light", "dark")


@functools.cache
def environment() -> Environment:
    """Returns the templates: values are escaped, and a name that is not given is an error."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=values_text.finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(
        bytes=values_text.size_text,
        count=values_text.count_text,
        rate=values_text.rate_text,
        duration=values_text.duration_text,
        age=values_text.age_text,
        quoted=quoted,
    )
    made.globals["version"] = __version__
    made.globals["exact"] = exact
    return made


def exact(text: object) -> Markup:
    """Returns text as the value of a hidden field: escaped, with its control characters as they are."""
    return Markup(escape(text))


def quoted(text: object) -> str:
    """Returns text as one segment of a path, or one value of a query."""
    return quote(str(text).encode("utf-8", "surrogateescape"), safe="")


def with_query(request: Request, **changed: Any) -> str:
    """Returns the address of this view with other values in its query; None removes one."""
    query = dict(request.query_params) | changed
    kept = {name: str(value) for name, value in query.items() if value is not None and value != ""}
    path = quote(request.url.path)
    return f"{path}?{urlencode(kept)}" if kept else path


def page(request: Request, template: str, *, status: int = 200, **context: Any) -> Response:
    """Returns a whole page.

    Args:
        request: that is answered.
        template: its file in templates/, which extends base.html.
        status: HTTP status.
        context: values for the template. It also gets `request`, `writes`, `user`, `csrf()`, `query(…)`.
    """
    return HTMLResponse(rendered(request, template, **context), status)


def rendered(request: Request, template: str, **context: Any) -> str:
    """Returns what a template gives, such as an element for `live`."""
    return environment().get_template(template).render(_shared(request) | context)


def _shared(request: Request) -> dict[str, Any]:
    sessions, browser = sessions_of(request), browser_of(request)
    access = sessions.access(browser)
    theme = request.cookies.get(THEME_COOKIE, "auto")

    def csrf() -> Markup:
        token = escape(sessions.csrf_token(browser))
        return Markup('<input type="hidden" name="{}" value="{}">').format(CSRF_FIELD, token)

    return {
        "request": request,
        "path": request.url.path,
        "navigation": request.app.state.navigation,
        "writes": sessions.options.write,
        "signs_in": sessions.options.sign_in,
        "user": access.user if access is not None else None,
        "has_access": access is not None,
        "trouble": access.trouble if access is not None else "",
        "cluster_at": sessions.options.bootstrap_servers,
        "theme": theme if theme in THEMES else "auto",
        "csrf": csrf,
        "csrf_token": lambda: sessions.csrf_token(browser),
        "query": functools.partial(with_query, request),
    }


def awaited(request: Request, title: str) -> Response:
    """Answers while the cluster has not answered yet: the browser loads the page again by itself."""
    answer = page(request, "awaited.html", awaited=title)
    answer.headers["refresh"] = "1"
    return answer
