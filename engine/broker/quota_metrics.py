"""Exports what clients use of their quotas, and how connections are limited, as Prometheus metrics."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bowstring._native.server.plane_quotas import FETCH, PRODUCE, REQUEST

if TYPE_CHECKING:
    from bowstring._native.server.plane_accept_limits import AcceptCounters
    from bowstring.engine.broker.connection_limits import ConnectionLimits
    from bowstring.engine.broker.quota_publisher import QuotaPublisher

ENTITIES_MAX: Final = 1000
"""Entities of which a scrape has rows."""

_LABELS: Final = ("quota", "user", "client_id")
_NAMES: Final = {PRODUCE: "producer_byte_rate", FETCH: "consumer_byte_rate", REQUEST: "request_percentage"}
_ENTITY: Final = "by the users and client ids that share a quota"


class QuotaMetrics(Collector):
    """Reads quotas and limits for each scrape."""

    def __init__(self, quotas: "QuotaPublisher", limits: "ConnectionLimits") -> None:
        self._quotas = quotas
        self._limits = limits

    def collect(self) -> Iterable[Metric]:
        """Yields the metrics; none while there are no quotas and no limits."""
        if self._quotas.quotas is not None:
            yield from self._clients(self._quotas.quotas.rates(ENTITIES_MAX))
        if self._limits.limits is not None:
            yield from self._connections(self._limits.limits.counters())

    def _clients(self, rates: list[tuple[int, str, str, float, float, int, int]]) -> Iterator[Metric]:
        rate = GaugeMetricFamily(
            "bowstring_client_quota_rate",
            f"Bytes per second, or percent of a thread, {_ENTITY}.",
            labels=_LABELS,
        )
        limit = GaugeMetricFamily("bowstring_client_quota_limit", f"The quota, {_ENTITY}.", labels=_LABELS)
        throttled = CounterMetricFamily(
            "bowstring_client_quota_throttles",
            f"Answers after which the broker read no requests for a time, {_ENTITY}.",
            labels=_LABELS,
        )
        seconds = CounterMetricFamily(
            "bowstring_client_quota_throttled_seconds", f"Those times together, {_ENTITY}.", labels=_LABELS
        )
        for kind, user, client_id, bound, used, throttles, throttled_ms in rates:
            labels = [_NAMES[kind], user, client_id]
            rate.add_metric(labels, used)
            limit.add_metric(labels, bound)
            throttled.add_metric(labels, throttles)
            seconds.add_metric(labels, throttled_ms / 1000)
        yield from (rate, limit, throttled, seconds)

    def _connections(self, counters: "AcceptCounters") -> Iterator[Metric]:
        refused = CounterMetricFamily(
            "bowstring_refused_connections",
            "Connections that were closed because their address has too many (too-many), or because those of "
            "their address come too fast (too-fast).",
            labels=["reason"],
        )
        refused.add_metric(["too-many"], counters["refused"])
        refused.add_metric(["too-fast"], counters["refused_later"])
        yield refused
        for name, help_text, value in (
            (
                "bowstring_delayed_connections",
                "Connections that were served later because they come too fast.",
                counters["delayed"],
            ),
            (
                "bowstring_delayed_connections_seconds",
                "How much later these were served, together.",
                counters["delayed_ms"] / 1000,
            ),
            (
                "bowstring_connections_ended_for_brokers",
                "Connections that were closed because brokers needed room below max.connections.",
                counters["ended"],
            ),
        ):
            yield CounterMetricFamily(name, help_text, value)
