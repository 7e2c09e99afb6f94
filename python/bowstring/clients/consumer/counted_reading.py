"""Counts what Consumer returns, for the audit of counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from bowstring.clients.audit import Audit
from bowstring.clients.consumer.partition_state import Positions

if TYPE_CHECKING:
    from bowstring._native.client.window_counts import WindowCounts
    from bowstring.clients.producer.count_reports import CountReporter


class CountedReading:
    """Mixed into Consumer, which provides positions."""

    _positions: Positions
    _reporter: CountReporter | None = None
    _counts: WindowCounts | None = None

    def _begin_counts(self, reporter: CountReporter) -> None:
        """Counts from now on. What was read counts once it is returned: until then it is staged."""
        self._reporter, self._counts = reporter, reporter.counts
        self._positions.counts = reporter.counts

    def _count_kept(self) -> None:
        """Counts what was returned."""
        if self._counts is not None:
            self._counts.keep()

    def _count_dropped(self) -> None:
        """Does not count what was read and not returned."""
        if self._counts is not None:
            self._counts.drop()


def reporter(
    audit: Audit,
    who: tuple[str, str, str],
    bootstrap_servers: str | Iterable[str],
    security: Mapping[str, Any] | None,
) -> CountReporter:
    """Returns the reporter of a client's counts; a consumer without an audit imports no producer."""
    from bowstring.clients.producer.count_reports import Counted, CountReporter

    return CountReporter(audit, Counted(*who), bootstrap_servers, security, staging=True)
