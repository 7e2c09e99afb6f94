"""Counts requests, and serves the counts as OpenMetrics or Prometheus text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SERIES_MAX = 1000
"""Combinations of route, method and status; further ones count as route `other`."""
MEDIA = ("text/plain", "application/openmetrics-text")
"""Types of `/metrics`."""


class _Series:
    __slots__ = ("buckets", "bytes_out", "count", "seconds")

    def __init__(self) -> None:
        self.count, self.seconds, self.bytes_out = 0, 0.0, 0
        self.buckets = [0] * (len(BUCKETS_S) + 1)


class HttpMetrics:
    """Counts of one program.

    Args:
        prefix: of the names, such as `bowstring_registry`.
        gauges: further values by name: what it is, and a function that returns it.
    """

    def __init__(self, prefix: str, gauges: dict[str, tuple[str, Callable[[], float]]] | None = None) -> None:
        self._prefix = prefix
        self._gauges = gauges or {}
        self._series: dict[tuple[str, str, int], _Series] = {}
        self.in_flight = 0

    def note(self, route: str, method: str, status: int, size: int, took_s: float) -> None:
        """Counts a request.

        Args:
            route: the path with names for its parts, such as `/subjects/{subject}`; never what clients send.
            method: of HTTP.
            status: of the answer.
            size: of its body in bytes.
            took_s: seconds until the answer was complete.
        """
        key = route, method, status
        series = self._series.get(key)
        if series is None:
            if len(self._series) >= SERIES_MAX:
                key = "other", "", status
            series = self._series.setdefault(key, _Series())
        series.count += 1
        series.seconds += took_s
        series.bytes_out += size
        series.buckets[bisect_left(BUCKETS_S, took_s)] += 1

    def collect(self) -> Iterator[Any]:
        """Yields the families, for a registry of prometheus_client."""
        from prometheus_client.metrics_core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        labels = ["route", "method", "status"]
        took = HistogramMetricFamily(
            f"{self._prefix}_request_seconds",
            "Time until the answer was complete.",
            labels=labels,
        )
        sent = CounterMetricFamily(
            f"{self._prefix}_response_bytes", "Bytes of the bodies of answers.", labels=labels
        )
        for (route, method, status), series in sorted(self._series.items()):
            values = [route, method, str(status)]
            total, buckets = 0, []
            for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), series.buckets, strict=True):
                total += count
                buckets.append((bound, float(total)))
            took.add_metric(values, buckets, series.seconds)
            sent.add_metric(values, series.bytes_out)
        yield took
        yield sent
        yield GaugeMetricFamily(
            f"{self._prefix}_requests_in_flight", "Requests without an answer yet.", value=self.in_flight
        )
        for name, (described, value) in self._gauges.items():
            yield GaugeMetricFamily(f"{self._prefix}_{name}", described, value=value())

    def text(self, accept: str) -> tuple[bytes, str]:
        """Returns the body of `/metrics` and its content type.

        Args:
            accept: the header `Accept`: OpenMetrics for who takes it, else Prometheus text.
        """
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import choose_encoder

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        encode, content_type = choose_encoder(accept)
        return encode(registry), content_type
