"""bowstring.web.body_memory: bodies of all requests are bounded together, and by address."""

import asyncio
import json

import pytest

from bowstring.web.body_memory import MEMORY, BodyMemory
from bowstring.web.http_error import HttpError
from bowstring.web.limits import read_body
from bowstring.web.site_guard import SiteGuard
from tests.support.waiting import FOR_EVER_MS


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


def test_bodies_that_do_not_end_leave_room_for_others(monkeypatch):
    """They are counted until they are answered; then there is room again."""
    monkeypatch.setattr("bowstring.web.site_guard.BODIES_BYTES_MAX", 4 << 20)
    monkeypatch.setattr("bowstring.web.limits.BODY_S", FOR_EVER_MS / 1000)

    async def app(scope, receive, send):
        scope["found"].append(len(await read_body(scope, receive, 1 << 20)))

    async def program():
        guard, may_end = SiteGuard(app, is_local=True), asyncio.Event()

        async def ask(*, waits):
            """Returns the size of a body that was read, or the status of the refusal."""
            scope, parts = scope_of("a") | {"found": []}, [b"y" * 500_000] * 2

            async def receive():
                if not parts:
                    await may_end.wait()
                    return {"type": "http.request", "body": b"", "more_body": False}
                return {"type": "http.request", "body": parts.pop(), "more_body": waits or bool(parts)}

            try:
                await guard(scope, receive, None)
            except HttpError as error:
                return error.status
            return scope["found"][0]

        slow = [asyncio.ensure_future(ask(waits=True)) for _ in range(2)]
        for _ in range(5):
            await asyncio.sleep(0)
        assert await ask(waits=False) == 503
        may_end.set()
        assert await asyncio.gather(*slow) == [1_000_000] * 2
        assert await ask(waits=False) == 1_000_000

    asyncio.run(program())


def test_the_refusal_says_when_to_come_back():
    memory = BodyMemory(1)
    with pytest.raises(HttpError) as refusal:
        memory.take(scope_of("a"), 1)
    assert dict(refusal.value.headers)[b"retry-after"] == b"1"
    assert json.loads(refusal.value.body())["error_code"] == 503
