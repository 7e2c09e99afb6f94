"""Exports the audit's figures to Prometheus."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bowstring.audit.count_table import CountTable
from bowstring.audit.counts_reader import CountsReader, now_ms


class AuditMetrics(Collector):
    """Computes the figures of each scrape from the table.

    Until the state is rebuilt from the topic there are no figures of topics, so that no alert fires for
    counts that are not read yet.

    Args:
        reader: where the counts come from.
        lock: held by whoever reads or changes the table.
        grace_ms: how long after its end a window may be incomplete.
    """

    def __init__(self, reader: CountsReader, lock: threading.Lock, grace_ms: int) -> None:
        self._reader, self._lock, self._grace_ms = reader, lock, grace_ms
        self.caught_up = False

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics."""
        table: CountTable = self._reader.table
        with self._lock:
            summaries = table.summaries(now_ms(), grace_ms=self._grace_ms) if self.caught_up else []
            kept, dropped, undecodable = len(table), table.dropped, self._reader.undecodable
        labels = ["topic", "stage", "first"]
        ratio = GaugeMetricFamily(
            "bowstring_audit_arrived_ratio",
            "Share of the first stage's records in ended windows that arrived",
            labels=labels,
        )
        gauges = {
            name: GaugeMetricFamily(f"bowstring_audit_{name}", text, labels=labels)
            for name, text in (
                ("missing_records", "Records of ended windows that did not arrive"),
                ("surplus_records", "Records of ended windows beyond those of the first stage"),
                ("incomplete_windows", "Ended windows that miss records"),
                ("lag_seconds", "How much older the stage's newest record is than the first stage's"),
            )
        }
        for each in summaries:
            names = [each.topic, str(each.stage), str(each.first)]
            if each.share is not None:
                ratio.add_metric(names, each.share)
            gauges["missing_records"].add_metric(names, each.missing)
            gauges["surplus_records"].add_metric(names, each.surplus)
            gauges["incomplete_windows"].add_metric(names, each.incomplete)
            gauges["lag_seconds"].add_metric(names, each.lag_ms / 1000)
        yield ratio
        yield from gauges.values()
        yield GaugeMetricFamily(
            "bowstring_audit_caught_up", "Whether the counts topics were read to their end", self.caught_up
        )
        yield GaugeMetricFamily("bowstring_audit_counts", "Counts that are kept", kept)
        yield CounterMetricFamily(
            "bowstring_audit_counts_dropped", "Counts dropped for lack of room", dropped
        )
        yield CounterMetricFamily(
            "bowstring_audit_undecodable", "Records of counts topics that are no counts", undecodable
        )
