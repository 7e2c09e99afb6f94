"""The pages of the metrics server: /metrics, /health and /ready."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

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
