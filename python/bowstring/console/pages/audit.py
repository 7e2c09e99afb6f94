"""Shows the audit of counts: topics and windows with the share of records that arrived at each stage."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bowstring.audit.count_table import GRACE_MS, CountTable, Row
from bowstring.audit.counts_reader import CountsReader, now_ms
from bowstring.audit.status_rows import cells
from bowstring.clients.admin.admin import Admin
from bowstring.clients.errors import ClientError, UnknownTopicError
from bowstring.console.cluster_access import ClusterAccess
from bowstring.console.cluster_facts import refusal
from bowstring.console.paged import Paged
from bowstring.console.rendering import page
from bowstring.console.sessions import access_of, sessions_of

FRESH_S = 10.0


def _rows(admin: Admin, access: ClusterAccess, topic: str) -> list[Row]:
    try:
        admin.describe_topic(topic)
    except UnknownTopicError:
        return []  # nothing was reported yet; a consumer would wait for the topic
    table = CountTable()
    bootstrap, security = access.settings["bootstrap_servers"], access.settings.get("security")
    with CountsReader([bootstrap], topic, table, security) as reader:
        reader.read_all()
    return table.rows(now_ms(), grace_ms=GRACE_MS)


async def audit(request: Request) -> Response:
    """Shows windows that are not complete, or with `?all=1` every one, newest first."""
    access = access_of(request)
    topic = sessions_of(request).options.audit_topic
    every, wanted = request.query_params.get("all") == "1", request.query_params.get("q", "")
    missing = ""
    rows: list[Row] = []
    try:
        rows = await access.cached(("audit", topic), FRESH_S, lambda admin: _rows(admin, access, topic))
    except ClientError as error:
        missing = refusal(error)
    shown = {(row.topic, row.start_ms) for row in rows if every or row.state != "complete"}
    found = [row for row in rows if (row.topic, row.start_ms) in shown and wanted in row.topic]
    listed = Paged(request, found, {"window": lambda row: (-row.start_ms, row.topic)})
    context: dict[str, Any] = {"paged": listed, "wanted": wanted, "every": every, "missing": missing}
    return page(request, "audit.html", cells=cells, counted=len(rows), **context)


routes = [Route("/audit", audit)]
