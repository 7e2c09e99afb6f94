"""bowstring.console.server: connections are bounded; those that rest make room, and end."""

import socket
import threading
from contextlib import ExitStack, contextmanager

import uvicorn

from bowstring.console import server
from tests.support.addresses import own_address
from tests.support.certificates import CertificateAuthority
from tests.support.waiting import HANG_S, wait_until


async def answer(scope, receive, send):
    message = await receive()
    body = b"<%b %b>" % (scope["path"].encode(), message["body"])
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def served(**options):
    """Yields a function that connects to a console's server of `answer`."""
    bound = socket.create_server((own_address(), 0))
    bound.setblocking(False)
    limit = server.CONNECTIONS_MAX + 1
    config = uvicorn.Config(
        *(answer,), http=server.Connection, ws="none", lifespan="off", limit_concurrency=limit, **options
    )
    running = server.ConsoleServer(config)
    thread = threading.Thread(target=running.run, args=([bound],))
    thread.start()
    with ExitStack() as stack:

        def connect():
            made = socket.create_connection(bound.getsockname(), timeout=HANG_S)
            return stack.enter_context(made)

        try:
            wait_until(lambda: running.started)
            yield connect
        finally:
            running.should_exit = True
            thread.join(HANG_S)
            bound.close()
    assert not thread.is_alive()


def answer_on(connection, request):
    connection.sendall(request)
    return connection.recv(1000)


def test_connections_that_rest_make_room(monkeypatch):
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 4)
    with served() as connect:
        rested = connect()
        assert b"</a >" in answer_on(rested, b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n")
        others = [connect() for _ in range(20)]
        assert [each.recv(1) for each in (rested, *others[:16])] == [b""] * 17
        assert b"</b >" in answer_on(others[-1], b"GET /b HTTP/1.1\r\nhost: x\r\n\r\n")


def test_a_connection_that_rests_or_drips_a_head_ends(monkeypatch):
    monkeypatch.setattr(server, "REST_S", 0.1)
    with served() as connect:
        silent, dripping = connect(), connect()
        dripping.sendall(b"GET / HTTP/1.1\r\nhost: ")
        assert silent.recv(1) == dripping.recv(1) == b""


def test_handshakes_are_bounded(monkeypatch, tmp_path):
    monkeypatch.setattr("bowstring.web.tls_listener.HANDSHAKES_MAX", 8)
    identity = CertificateAuthority().identity()
    (tmp_path / "chain.pem").write_bytes(identity.certificate)
    (tmp_path / "key.pem").write_bytes(identity.key)
    files = {"ssl_certfile": tmp_path / "chain.pem", "ssl_keyfile": tmp_path / "key.pem"}
    with served(**files) as connect:
        silent = [connect() for _ in range(20)]
        assert [each.recv(1) for each in silent[:16]] == [b""] * 16


def test_an_offer_of_another_protocol_is_declined_with_its_body():
    hidden = b"GET /hidden HTTP/1.1\r\nhost: x\r\n\r\n"
    head = b"POST /a HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: %d\r\n\r\n"
    end = b"GET /end HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    with served() as connect:
        one = connect()
        one.sendall(head % len(hidden) + hidden + end)
        found = b"".join(iter(lambda: one.recv(1000), b""))
    assert b"</a GET /hidden" in found
    assert b"</hidden" not in found
    assert found.endswith(b"</end >")
