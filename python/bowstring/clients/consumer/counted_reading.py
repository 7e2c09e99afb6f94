"""Counts what Consumer returns, for the audit of counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from bowstring.clients.audit import Audit, audit_of
from bowstring.clients.consumer.partition_state import Positions

if TYPE_CHECKING:
    from bowstring._native.client.window_counts import WindowCounts
    from bowstring.clients.producer.count_reporter import CountReporter


class CountedReading:
    """Mixed into Consumer, which provides positions."""

    _positions: Positions
    _reporter: CountReporter | None = None
    _counts: WindowCounts | None = None
    # Of the counts; 0 without them.
    _window_ms = 0

    def _begin_counts(
        self,
        audit: Audit | Mapping[str, Any] | str | None,
        who: tuple[str, str],
        bootstrap_servers: str | Iterable[str],
        security: Mapping[str, Any] | None,
    ) -> None:
        """Counts from now on, if there are settings. Records count once they are returned: until then they
        are staged. A consumer without an audit imports no producer.
        """
        settings = audit_of(audit)
        if settings is None:
            return
        from bowstring.clients.producer.count_reporter import Counted, CountReporter

        counted = Counted("consumer", *who)
        self._reporter = CountReporter(settings, counted, bootstrap_servers, security, staging=True)
        self._positions.counts = self._counts = self._reporter.counts
        self._window_ms = settings.window_ms

    def count_into(self, counts: WindowCounts | None) -> None:
        """Counts what is returned from now on; the caller reports it.

        Args:
            counts: with staging; None: nothing is counted.
        """
        self._positions.counts = self._counts = counts
        self._window_ms = 0 if counts is None else counts.window_ms

    def _count_kept(self) -> None:
        """Counts what was returned."""
        if self._counts is not None:
            self._counts.keep()

    def _count_dropped(self) -> None:
        """Does not count what was read and not returned."""
        if self._counts is not None:
            self._counts.drop()
