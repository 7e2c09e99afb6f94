"""Exports what access control does as Prometheus metrics."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bowstring.engine.security.access_reports import operation_name, resource_name
from bowstring.engine.security.access_rules import AccessRules


class AccessMetrics(Collector):
    """Reads the counters of a node with an authorizer."""

    def __init__(self, rules: AccessRules) -> None:
        self._rules = rules

    def collect(self) -> Iterable[Metric]:
        """Yields every metric of access control."""
        denied = CounterMetricFamily(
            "bowstring_access_denied",
            "Requests, or parts of them, that access control has denied.",
            labels=["operation", "resource"],
        )
        for (operation, resource_type), count in sorted(self._rules.denied().items()):
            denied.add_metric([operation_name(operation), resource_name(resource_type)], count)
        yield denied
        yield GaugeMetricFamily("bowstring_acls", "Access control entries of the cluster.", len(self._rules))
        audit = self._rules.audit_log
        if audit is not None:
            yield CounterMetricFamily(
                "bowstring_audit_written", "Decisions in the audit file.", audit.written
            )
            yield CounterMetricFamily(
                "bowstring_audit_dropped", "Decisions that the audit file lacks.", audit.dropped
            )
        topic = self._rules.audit_topic
        if topic is not None:
            yield CounterMetricFamily(
                "bowstring_audit_topic_written", "Decisions in the audit topic.", topic.written
            )
            yield CounterMetricFamily(
                "bowstring_audit_topic_dropped", "Decisions that the audit topic lacks.", topic.dropped
            )
