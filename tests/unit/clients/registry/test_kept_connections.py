"""bowstring.clients.registry.kept_connections: connections that go on, end meanwhile, or are another's."""

import gc
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bowstring.clients.registry import kept_connections
from bowstring.clients.registry.registered_schema import RegisteredSchema
from bowstring.clients.registry.registry_client import RegistryClient
from bowstring.clients.registry.registry_errors import SchemaNotFoundError, SchemaRegistryError
from tests.support.addresses import own_address
from tests.support.waiting import HANG_S, wait_until


class Server(ThreadingHTTPServer):
    """Counts its connections; `ends` closes each after an answer, without saying so.

    Attributes:
        together: requests that wait for each other before they are answered.
    """

    connections = open_connections = 0
    ends = False
    together = 1


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.server.connections += 1
        self.server.open_connections += 1

    def finish(self):
        super().finish()
        self.server.open_connections -= 1

    def respond(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.server.together > 1:
            self.server.barrier.wait(HANG_S)
        status = 404 if "/7" in self.path else 302 if "/8" in self.path else 200
        body = json.dumps({"schema": '"int"', "id": 1}).encode()
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/schemas/ids/1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = self.server.ends

    do_GET = do_POST = respond

    def log_message(self, *_):
        pass


@contextmanager
def serving(handler=Handler):
    with Server((own_address(), 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def server():
    with serving() as found:
        yield found


def client_of(server):
    return RegistryClient(f"http://{own_address()}:{server.server_port}", timeout_s=HANG_S)


def test_requests_share_a_connection(server):
    client = client_of(server)
    for schema_id in (1, 2, 8, 3):
        assert client.by_id(schema_id).text == '"int"'
    with pytest.raises(SchemaNotFoundError):
        client.by_id(7)
    assert client.register("s", RegisteredSchema("AVRO", '"int"')).schema_id == 1
    assert server.connections == 1
    del client
    gc.collect()  # the failure that is kept refers to it
    wait_until(lambda: server.open_connections == 0)


def test_a_connection_that_ended_is_made_anew(server, monkeypatch):
    client = client_of(server)
    server.ends = True
    for schema_id in (1, 2):
        client.by_id(schema_id)
        wait_until(lambda: server.open_connections == 0)
    # Also if its end comes while the request is sent.
    monkeypatch.setattr(kept_connections, "is_at_rest", lambda connection: True)
    client.by_id(3)
    assert client.register("s", RegisteredSchema("AVRO", '"int"')).schema_id == 1
    assert server.connections == 4


def test_https_goes_through_a_proxy_as_urllib_does(monkeypatch):
    asked = []

    class Proxy(Handler):
        def do_CONNECT(self):
            asked.append(self.path)
            self.send_error(502)

    with serving(Proxy) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{own_address()}:{proxy.server_port}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        client = RegistryClient("https://registry.example", timeout_s=HANG_S)
        with pytest.raises(SchemaRegistryError, match="502"):
            client.by_id(1)
    assert set(asked) == {"registry.example:443"}


def test_connections_at_rest_are_bounded(server):
    client = client_of(server)
    many = kept_connections.KEPT_MAX + 4
    server.together, server.barrier = many, threading.Barrier(many)
    with ThreadPoolExecutor(many) as threads:
        list(threads.map(client.by_id, range(100, 100 + many)))
    assert server.connections == many
    wait_until(lambda: server.open_connections == kept_connections.KEPT_MAX)


def test_a_child_leaves_the_connections_of_its_parent(server):
    client = client_of(server)
    client.by_id(1)
    child = os.fork()
    if child == 0:
        try:
            client.by_id(2)
        finally:
            os._exit(0 if server.connections == 1 else 1)  # the server's count is the parent's
    os.waitpid(child, 0)
    wait_until(lambda: server.connections == 2)
    client.by_id(3)
    assert server.connections == 2
