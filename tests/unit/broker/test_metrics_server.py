"""The pages of the metrics server: /metrics, /health and /ready."""

import asyncio
import gzip

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from bowstring.engine.broker import metrics
from bowstring.engine.broker.metrics_server import MetricsServer


class Node:
    def __init__(self):
        self.why_not = None

    def why_not_ready(self):
        return self.why_not


@pytest.fixture
def ask():
    """Requests a page from a node's metrics server; returns the status line and the body."""

    def call(node, line):
        async def run():
            server = MetricsServer(CollectorRegistry, node.why_not_ready)
            await server.start("127.0.0.1", 0)
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(line.encode() + b" HTTP/1.1\r\n\r\n")
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            writer.close()
            await server.stop()
            return head.partition(b"\r\n")[0].decode(), body.decode()

        return asyncio.run(run())

    return call


def test_a_node_that_answers_is_alive(ask):
    node = Node()
    node.why_not = "the broker is starting"
    assert ask(node, "GET /health") == ("HTTP/1.1 200 OK", "alive\n")


def test_ready_says_why_not(ask):
    node = Node()
    assert ask(node, "GET /ready") == ("HTTP/1.1 200 OK", "ready\n")
    assert ask(node, "HEAD /ready?verbose") == ("HTTP/1.1 200 OK", "")
    node.why_not = "the controller has fenced the broker"
    unavailable = "HTTP/1.1 503 Service Unavailable"
    assert ask(node, "GET /ready") == (unavailable, "the controller has fenced the broker\n")


def test_other_pages_and_methods(ask):
    assert ask(Node(), "GET /metrics") == ("HTTP/1.1 200 OK", "")
    assert ask(Node(), "GET /readyness") == (
        "HTTP/1.1 404 Not Found",
        "there are /metrics, /health and /ready\n",
    )
    assert ask(Node(), "POST /ready")[0] == "HTTP/1.1 405 Method Not Allowed"


def a_registry():
    made = CollectorRegistry()
    Counter("bowstring_things", "Things.", registry=made).inc(3)
    return made


def test_a_scraper_that_accepts_openmetrics_gets_it():
    body, headers = metrics.exposition(
        a_registry(), "application/openmetrics-text;version=1.0.0,text/plain", ""
    )
    assert headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    (things,) = text_string_to_metric_families(body.decode())
    assert (things.name, things.type, things.samples[0].value) == ("bowstring_things", "counter", 3)
    body, headers = metrics.exposition(a_registry(), "", "")
    assert headers == {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
    assert b"bowstring_things_total 3.0\n" in body


def test_a_scraper_that_accepts_gzip_gets_it():
    packed, headers = metrics.exposition(a_registry(), "", "gzip, deflate")
    assert headers["Content-Encoding"] == "gzip"
    assert b"bowstring_things_total 3.0\n" in gzip.decompress(packed)
    assert "Content-Encoding" not in metrics.exposition(a_registry(), "", "identity")[1]


def test_headers_of_a_scrape_choose_the_format(ask):
    scrape = "GET /metrics HTTP/1.1\r\nACCEPT:  application/openmetrics-text\r\nX-Line"
    assert ask(Node(), scrape) == ("HTTP/1.1 200 OK", "# EOF\n")
