"""Runs `bowstring audit run`: reads counts without end and serves the metrics."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from prometheus_client import CollectorRegistry, start_http_server

from bowstring.audit.audit_metrics import AuditMetrics
from bowstring.audit.count_table import Row
from bowstring.audit.counts_reader import CountsReader, now_ms
from bowstring.audit.status_rows import incomplete, window_text

READ_S = 0.5
LOOK_EVERY_MS = 10_000

_log = logging.getLogger("bowstring.audit")


class AuditService:
    """Keeps a table current, serves its metrics and logs each window that is incomplete, once.

    Args:
        reader: where the counts come from.
        grace_ms: how long after its end a window may be incomplete.
        metrics_address: host and port of the metrics, port 0 for any; None for no metrics.
        report: called with each incomplete row.

    Attributes:
        port: of the metrics.

    Raises:
        OSError: the port is in use.
    """

    def __init__(
        self,
        reader: CountsReader,
        grace_ms: int,
        metrics_address: tuple[str, int] | None,
        report: Callable[[Row], None] | None = None,
    ) -> None:
        self._reader, self._grace_ms = reader, grace_ms
        self._lock = threading.Lock()
        self._report = report or _log_row
        self._reported: set[tuple[str, int, str]] = set()
        self._looked_ms = 0
        self._server = None
        self.port = 0
        self._metrics = AuditMetrics(reader, self._lock, grace_ms)
        if metrics_address is not None:
            registry = CollectorRegistry()
            registry.register(self._metrics)
            host, port = metrics_address
            self._server, self._thread = start_http_server(port, host, registry)
            self.port = self._server.server_port

    def step(self, timeout_s: float = READ_S) -> None:
        """Reads what has arrived, and looks for incomplete windows when it is time."""
        records = self._reader.poll(timeout_s)
        with self._lock:
            self._reader.note(records)
            self._metrics.caught_up = self._metrics.caught_up or self._reader.caught_up
        now = now_ms()
        if self._metrics.caught_up and now - self._looked_ms >= LOOK_EVERY_MS:
            self._looked_ms = now
            self.look(now)

    def look(self, now: int) -> None:
        """Reports windows that have become incomplete, and forgets old ones."""
        with self._lock:
            self._reader.table.expire(now)
            missing = incomplete(self._reader.table.rows(now, grace_ms=self._grace_ms))
        keys = {(row.topic, row.start_ms, str(row.stage)): row for row in missing}
        for key, row in keys.items():
            if key not in self._reported:
                self._report(row)
        self._reported = set(keys)

    def close(self) -> None:
        """Ends the server of the metrics."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()


def _log_row(row: Row) -> None:
    _log.warning("%s", incomplete_text(row))


def incomplete_text(row: Row) -> str:
    """Says what is missing."""
    window = window_text(row.start_ms, row.window_ms)
    return (
        f"topic {row.topic}, window {window}: {row.stage} has {row.records} of {row.expected} records of "
        f"{row.first}, {row.missing} are missing"
    )
