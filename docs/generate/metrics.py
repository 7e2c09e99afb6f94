"""Renders the page of metrics from what a broker serves (`engine/broker/metrics.py`)."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.request import urlopen

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

import bowstring
from bowstring.engine.broker.cluster_metrics import CONTROLLER, QUORUM, REPLICAS, quorum_state
from docs.generate.markdown import code, plain, table

HEAD = """\
# Metrics

`bowstring serve --metrics-port PORT` serves them as Prometheus text on `/metrics`. A counter's name ends in
`_total` there; a histogram has `_bucket`, `_sum` and `_count`. Metrics with the label `topic` appear as
soon as there is a topic. The same port has `/health` and `/ready`.
"""

CLUSTER = """
## In a cluster

Brokers of a cluster also have those of replicas and of the quorum, controllers those of the quorum and of the
controller, nodes with both roles all.
"""


def render() -> str:
    """The page as Markdown."""
    rows = (
        (
            code(_served_as(metric)),
            metric.type,
            ", ".join(map(code, _labels(metric))),
            plain(metric.documentation),
        )
        for metric in families()
    )
    columns = ("name", "type", "labels", "meaning")
    return "\n".join([HEAD, *table(columns, rows), CLUSTER, *table(columns, _of_clusters())])


def _of_clusters() -> Iterator[tuple[str, ...]]:
    """Rows of what only nodes of a cluster have."""
    found = [
        (code(f"{row.name}_total" if row.kind == "counter" else row.name), row.kind, "", plain(row.help_text))
        for row in (*REPLICAS, *QUORUM, *CONTROLLER)
    ]
    state = quorum_state("leader")
    found.append((code(state.name), state.type, code("state"), plain(state.documentation)))
    yield from sorted(found)


def families() -> Iterator[Metric]:
    """Every metric, scraped from a broker with a topic, a write-ahead log and local reads."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with bowstring.Broker(
        config={"bowstring.durability": "commit", "bowstring.metrics.port": port}
    ) as broker:
        with bowstring.Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("orders", 1)
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
    yield from sorted(text_string_to_metric_families(text), key=lambda metric: metric.name)


def _served_as(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def _labels(metric: Metric) -> list[str]:
    return sorted({label for sample in metric.samples for label in sample.labels} - {"le"})
