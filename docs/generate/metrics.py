"""Renders the page of metrics from what a broker serves (`engine/broker/metrics.py`)."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

import bowstring
from bowstring.cluster.certificates import Authority
from bowstring.engine.broker.cluster_metrics import CONTROLLER, QUORUM, QUORUM_STATE, REPLICAS
from bowstring.engine.security.access_rules import STANDARD
from bowstring.engine.security.principals import ANONYMOUS
from docs.generate.markdown import code, plain, table

HEAD = """\
# Metrics

`bowstring serve --metrics-port PORT` serves them as Prometheus text on `/metrics`. A counter's name ends in
`_total` there; a histogram has `_bucket`, `_sum` and `_count`. Metrics with the label `topic` appear as
soon as there is a topic. The same port has `/health` and `/ready`.
"""

CLUSTER = """
## Replicas, the quorum, the controller

Brokers have those of replicas and of the quorum, controllers those of the quorum and of the controller. Nodes
with both roles have all, also a node alone.
"""

OF_CLUSTERS = frozenset((QUORUM_STATE, *(row.name for row in (*REPLICAS, *QUORUM, *CONTROLLER))))


def render() -> str:
    """The page as Markdown."""
    found = list(families())
    columns = ("name", "type", "labels", "meaning")
    own = (_row(metric) for metric in found if metric.name not in OF_CLUSTERS)
    of_clusters = (_row(metric) for metric in found if metric.name in OF_CLUSTERS)
    return "\n".join([HEAD, *table(columns, own), CLUSTER, *table(columns, of_clusters)])


def _row(metric: Metric) -> tuple[str, ...]:
    return (
        code(_served_as(metric)),
        metric.type,
        ", ".join(map(code, _labels(metric))),
        plain(metric.documentation),
    )


def families() -> Iterator[Metric]:
    """Every metric, scraped from nodes with both roles and a topic: with a write-ahead log and local reads,
    with access control, and with a listener for TLS and log-ins.
    """
    open_to_all = {"bowstring.durability": "commit"}
    controlled = {"authorizer.class.name": STANDARD, "super.users": ANONYMOUS}
    found: dict[str, Metric] = {}
    with tempfile.TemporaryDirectory() as folder:
        audited = controlled | {
            "bowstring.audit.file": f"{folder}/audit.jsonl",
            "bowstring.audit.topic": "audit",
        }
        for settings in (open_to_all, audited, _secured(Path(folder))):
            for metric in _scraped(settings):
                found.setdefault(metric.name, metric)
    yield from sorted(found.values(), key=lambda metric: metric.name)


def _secured(folder: Path) -> dict[str, str]:
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0,SECURED://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURED:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(Authority(folder / "certs").issue_broker()),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "certs" / "ca.pem"),
        "inter.broker.listener.name": "SECURED",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.secured.plain.sasl.jaas.config": (
            f'{plain} username="node" password="a secret" user_node="a secret";'
        ),
    }


def _scraped(settings: dict[str, str]) -> list[Metric]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with bowstring.Broker(config=settings | {"bowstring.metrics.port": port}) as broker:
        with bowstring.Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("orders", 1)
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
    return list(text_string_to_metric_families(text))


def _served_as(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def _labels(metric: Metric) -> list[str]:
    return sorted({label for sample in metric.samples for label in sample.labels} - {"le"})
