"""Shows the audit of counts: topics and windows with the share of records that arrived at each stage."""

from __future__ import annotations

import threading
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bowstring.audit.count_table import GRACE_MS, CountTable, Row
from bowstring.audit.counts_reader import CountsReader, now_ms
from bowstring.audit.status_rows import cells
from bowstring.clients.admin.admin import Admin
from bowstring.clients.errors import ClientError, UnknownTopicError
from bowstring.clients.records import TopicPartition
from bowstring.console.cluster_access import ClusterAccess
from bowstring.console.cluster_facts import refusal
from bowstring.console.paged import Paged
from bowstring.console.rendering import page
from bowstring.console.sessions import access_of, sessions_of

FRESH_S = 10.0
READ_S = 2.0
"""How long one page reads; the next one goes on."""
RELOAD_S = 1


class _Counts:
    """The counts that pages of one session have read, and where the next one goes on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._table = CountTable()
        self._positions: list[dict[TopicPartition, int]] | None = None

    def read(self, admin: Admin, access: ClusterAccess, topic: str, most_s: float) -> tuple[list[Row], int]:
        """Reads on; returns the rows, and how many counts are not read yet: then there are no rows."""
        try:
            admin.describe_topic(topic)
        except UnknownTopicError:
            return [], 0  # nothing was reported yet; a consumer would wait for the topic
        bootstrap, security = access.settings["bootstrap_servers"], access.settings.get("security")
        with self._lock:
            self._table.expire(now_ms())
            with CountsReader([bootstrap], topic, self._table, security) as reader:
                if self._positions is not None:
                    reader.go_on(self._positions)
                reader.read_all(most_s)
                self._positions, left = reader.positions, reader.left
            return ([], left) if left else (self._table.rows(now_ms(), grace_ms=GRACE_MS), 0)


async def audit(request: Request) -> Response:
    """Shows windows that are not complete, or with `?all=1` every one, newest first."""
    access = access_of(request)
    topic = sessions_of(request).options.audit_topic
    every, wanted = request.query_params.get("all") == "1", request.query_params.get("q", "")
    missing = ""
    rows: list[Row] = []
    left = 0
    counts = access.shared(("audit", topic), _Counts)
    try:
        rows, left = await access.cached(
            ("audit", topic), FRESH_S, lambda admin: counts.read(admin, access, topic, READ_S)
        )
    except ClientError as error:
        missing = refusal(error)
    if left:
        access.forget("audit", topic)
    shown = {(row.topic, row.start_ms) for row in rows if every or row.state != "complete"}
    found = [row for row in rows if (row.topic, row.start_ms) in shown and wanted in row.topic]
    listed = Paged(request, found, {"window": lambda row: (-row.start_ms, row.topic)})
    context: dict[str, Any] = {"paged": listed, "wanted": wanted, "every": every, "missing": missing}
    answer = page(request, "audit.html", cells=cells, counted=len(rows), left=left, **context)
    if left:
        answer.headers["refresh"] = str(RELOAD_S)
    return answer


routes = [Route("/audit", audit)]
