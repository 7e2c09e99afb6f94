"""bowstring.web.body_memory: bodies of all requests are bounded together, and by address."""

import asyncio
import json
import socket
import time

import pytest

from bowstring.web.body_memory import MEMORY, BodyMemory
from bowstring.web.http_error import HttpError
from bowstring.web.limits import read_body
from tests.support.served_site import served
from tests.support.waiting import HANG_S


def scope_of(address):
    return {"type": "http", "method": "POST", "headers": [], "client": (address, 1)}


def test_one_address_has_at_most_half():
    memory = BodyMemory(100)
    one, other, third = scope_of("a"), scope_of("b"), scope_of("c")
    memory.take(one, 30)
    memory.take(one, 20)
    with pytest.raises(HttpError) as refusal:
        memory.take(scope_of("a"), 1)
    assert refusal.value.status == 503
    memory.take(other, 45)
    with pytest.raises(HttpError):
        memory.take(third, 6)
    memory.take(third, 5)
    memory.give_back(one)
    memory.give_back(one)
    memory.give_back(scope_of("a"))
    memory.take(third, 45)
    for each in (other, third):
        memory.give_back(each)
    assert not memory.held


def test_a_body_counts_as_it_arrives(monkeypatch):
    monkeypatch.setattr("bowstring.web.limits.UNCOUNTED_BYTES", 10)
    memory = BodyMemory(100)
    scope = scope_of("a") | {MEMORY: memory}
    held = []

    async def receive():
        held.append(memory.held)
        return {"type": "http.request", "body": b"0123456789", "more_body": len(held) < 7}

    with pytest.raises(HttpError) as refusal:
        asyncio.run(read_body(scope, receive, 1000))
    assert refusal.value.status == 503
    assert held == [0, 0, 10, 20, 30, 40, 50]


def post(connection, body, size):
    connection.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % size + body)


def test_bodies_that_do_not_end_leave_room_for_others(monkeypatch):
    """They are counted until they are answered; then there is room again."""
    monkeypatch.setattr("bowstring.web.site_guard.BODIES_BYTES_MAX", 4 << 20)

    async def count(scope, receive, send):
        if scope["type"] != "http":
            raise NotImplementedError
        try:
            status, body = 200, str(len(await read_body(scope, receive, 1 << 20))).encode()
        except HttpError as error:
            status, body = error.status, error.body()
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(b"content-length", str(len(body)).encode())],
            }
        )
        await send({"type": "http.response.body", "body": body})

    def whole(port):
        with socket.create_connection(("127.0.0.1", port), timeout=HANG_S) as connection:
            post(connection, b"y" * 1_000_000, 1_000_000)
            return connection.makefile("rb").readline()

    with served(count) as site:
        slow = [socket.create_connection(("127.0.0.1", site.port), timeout=HANG_S) for _ in range(2)]
        for each in slow:
            post(each, b"y" * 1_000_000, 1_000_001)
        until = time.monotonic() + HANG_S
        while b" 503 " not in whole(site.port):
            assert time.monotonic() < until
        for each in slow:
            each.sendall(b"y")
            assert b" 200 " in each.makefile("rb").readline()
            each.close()
        while b" 200 " not in whole(site.port):
            assert time.monotonic() < until


def test_the_refusal_says_when_to_come_back():
    memory = BodyMemory(1)
    with pytest.raises(HttpError) as refusal:
        memory.take(scope_of("a"), 1)
    assert dict(refusal.value.headers)[b"retry-after"] == b"1"
    assert json.loads(refusal.value.body())["error_code"] == 503
